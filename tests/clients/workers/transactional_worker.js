// kafkajs as a transactional producer that does what it is told, a line at a time: see `TransactionalWorker.java`.
"use strict";
const { Kafka, logLevel } = require("kafkajs");
const readline = require("node:readline");

const [bootstrap, transactionalId, timeoutMs] = process.argv.slice(2);
const kafka = new Kafka({ clientId: transactionalId, brokers: [bootstrap], logLevel: logLevel.NOTHING });
const producer = kafka.producer({
  transactionalId,
  idempotent: true,
  maxInFlightRequests: 1,
  transactionTimeout: Number(timeoutMs),
});
let transaction;

const acts = {
  start: async () => {
    await producer.connect();
    // Its producer id is asked for with the first transaction.
    transaction = await producer.transaction();
    await transaction.abort();
    transaction = undefined;
  },
  begin: async () => (transaction = await producer.transaction()),
  commit: () => transaction.commit(),
  abort: () => transaction.abort(),
  send: (topic, partition, value) =>
    transaction.send({ topic, acks: -1, messages: [{ value, partition: Number(partition) }] }),
  offset: (consumerGroupId, topic, offset) =>
    transaction.sendOffsets({ consumerGroupId, topics: [{ topic, partitions: [{ partition: 0, offset }] }] }),
};

async function answer(line) {
  const [name, ...words] = line.split(" ");
  let told = "ok";
  try {
    await acts[name](...words);
  } catch (error) {
    const said = `${error.type ?? error.name} ${error.message}`.replaceAll("\n", " ");
    told = `${/FENCED|INVALID_PRODUCER_EPOCH|fenced|older epoch/.test(said) ? "fenced" : "failed"} ${said}`;
  }
  process.stdout.write(told + "\n");
}

let before = answer("start");
readline
  .createInterface({ input: process.stdin })
  .on("line", (line) => (before = before.then(() => answer(line))))
  .on("close", () => process.exit(0));
