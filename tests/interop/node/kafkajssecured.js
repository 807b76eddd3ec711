// kafkajs writes one record and reads it back: [OPTIONS] SERVERS TOPIC. With --ca the connection is encrypted, with
// --certificate and --key it shows a certificate (all three files of PEM); with --mechanism, --user and --password it
// logs in. For OAUTHBEARER the password is a token.
const fs = require("fs");
const { parseArgs } = require("util");
const { Kafka, logLevel } = require("kafkajs");

const names = ["ca", "certificate", "key", "mechanism", "user", "password"];
const { values: given, positionals } = parseArgs({
  options: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
  allowPositionals: true,
});
const [servers, topic] = positionals;

function encryption({ ca, certificate, key }) {
  if (!ca) return false;
  const own = certificate ? { cert: fs.readFileSync(certificate), key: fs.readFileSync(key) } : {};
  return { ca: [fs.readFileSync(ca)], ...own };
}

function login({ mechanism, user, password }) {
  if (!mechanism) return undefined;
  return mechanism === "OAUTHBEARER"
    ? { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value: password }) }
    : { mechanism: mechanism.toLowerCase(), username: user, password };
}

const kafka = new Kafka({
  brokers: [servers],
  ssl: encryption(given),
  sasl: login(given),
  logLevel: logLevel.NOTHING,
  retry: { retries: 3 },
});

async function main() {
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, messages: [{ value: "hello" }] });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: topic });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const value = await new Promise((resolve, reject) => {
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }).catch(reject);
  });
  await consumer.disconnect();
  console.log(JSON.stringify(value));
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error.message);
    process.exit(1);
  },
);
