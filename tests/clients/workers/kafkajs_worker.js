// kafkajs as a scripted client, of groups only: see `common.py`. Its generation is not told.
"use strict";
const { Kafka, logLevel } = require("kafkajs");
const readline = require("node:readline");

const options = JSON.parse(process.argv[2]);
const emit = (event, facts) =>
  process.stdout.write(JSON.stringify({ event, t: Number(process.hrtime.bigint()), ...facts }) + "\n");

const kafka = new Kafka({
  clientId: options.client_id,
  brokers: [options.bootstrap],
  logLevel: logLevel.ERROR,
  logCreator: () => ({ log }) => process.stderr.write(JSON.stringify(log) + "\n"),
});
const consumer = kafka.consumer({
  groupId: options.group,
  sessionTimeout: options.session_timeout_ms,
  rebalanceTimeout: options.rebalance_timeout_ms,
  heartbeatInterval: Math.floor(options.session_timeout_ms / 6),
});

async function main() {
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const partitions = (payload.memberAssignment[options.topic] ?? []).sort((a, b) => a - b);
    emit("assigned", { partitions, generation: null, member_id: payload.memberId });
  });
  consumer.on(consumer.events.REBALANCING, () => emit("revoked", { partitions: [] }));
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (!payload.restart) emit("fatal", { error: payload.error.name, message: payload.error.message });
  });
  readline.createInterface({ input: process.stdin }).on("line", async (word) => {
    if (word === "stall") {
      // The event loop stands still, as it does in a handler that computes.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, options.stall_ms);
    } else {
      await consumer.disconnect();
      emit("left");
      process.exit(0);
    }
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [options.topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      if (!options.commits) return;
      const offset = Number(batch.lastOffset()) + 1;
      const offsets = { [batch.partition]: offset };
      emit("committing", { offsets });
      try {
        await consumer.commitOffsets([{ topic: batch.topic, partition: batch.partition, offset: String(offset) }]);
        emit("committed", { offsets });
      } catch (error) {
        emit("commit_failed", { offsets, error: error.type ?? error.name });
        throw error;
      }
    },
  });
}

main();
