// kafkajs writes a record for each line that it reads, and tells what came of it. Its argument is one JSON object, whose
// `security` is that of franz-go's worker.
"use strict";
const fs = require("node:fs");
const { Kafka, logLevel } = require("kafkajs");
const readline = require("node:readline");

const options = JSON.parse(process.argv[2]);
const { protocol, mechanism, user, password, token, ca, certificate, key } = options.security;
const tell = (event, facts) => process.stdout.write(JSON.stringify({ event, ...facts }) + "\n");
const read = (path) => path && [fs.readFileSync(path)];

const sasl = { mechanism: (mechanism ?? "").toLowerCase(), username: user, password };
if (mechanism === "OAUTHBEARER") sasl.oauthBearerProvider = async () => ({ value: token });
const producer = new Kafka({
  brokers: [options.bootstrap],
  logLevel: logLevel.NOTHING,
  retry: { retries: 0 },
  reauthenticationThreshold: 500, // its ten seconds are longer than the sessions of tests
  ssl: protocol.endsWith("SSL") && { ca: read(ca), cert: read(certificate)?.[0], key: read(key)?.[0] },
  sasl: protocol.startsWith("SASL") ? sasl : undefined,
}).producer({ allowAutoTopicCreation: false });

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    try {
      await producer.connect();
      await producer.send({ topic: options.topic, messages: [{ value: line }] });
      tell("said");
    } catch (error) {
      tell("refused", { error: `${error.name} ${error.type ?? ""} ${error.message}` });
    }
  }
  await producer.disconnect();
}

main();
