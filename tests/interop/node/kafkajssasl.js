// kafkajs logs in, writes one record and reads it back: SERVERS MECHANISM USER PASSWORD TOPIC. For OAUTHBEARER the
// password is a token.
const { Kafka, logLevel } = require("kafkajs");

const [servers, mechanism, username, password, topic] = process.argv.slice(2);
const sasl =
  mechanism === "OAUTHBEARER"
    ? { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value: password }) }
    : { mechanism: mechanism.toLowerCase(), username, password };
const kafka = new Kafka({ brokers: [servers], sasl, ssl: false, logLevel: logLevel.NOTHING, retry: { retries: 3 } });

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
