// kafkajs shows a certificate, writes one record and reads it back: SERVERS CA CERTIFICATE KEY TOPIC, the three as files
// of PEM; "-" for a certificate shows none.
const fs = require("fs");
const { Kafka, logLevel } = require("kafkajs");

const [servers, ca, certificate, key, topic] = process.argv.slice(2);
const own = certificate === "-" ? {} : { cert: fs.readFileSync(certificate), key: fs.readFileSync(key) };
const ssl = { ca: [fs.readFileSync(ca)], ...own };
const kafka = new Kafka({ brokers: [servers], ssl, logLevel: logLevel.NOTHING, retry: { retries: 3 } });

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
