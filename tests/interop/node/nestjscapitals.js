// NestJS' Kafka transport passes on from `in` to `out`, in capitals, until SIGTERM: `nestjscapitals.js BOOTSTRAP`.
// Decorators are called as functions: what TypeScript makes of them, without its compiler.
require("reflect-metadata");
const { Controller, Inject, Module } = require("@nestjs/common");
const { NestFactory } = require("@nestjs/core");
const { ClientsModule, EventPattern, Payload, Transport } = require("@nestjs/microservices");
const { lastValueFrom } = require("rxjs");

const client = { brokers: process.argv[2].split(",") };

class Capitals {
  constructor(out) {
    this.out = out;
  }

  async take(value) {
    await lastValueFrom(this.out.emit("out", { value: String(value).toUpperCase() }));
  }
}
Controller()(Capitals);
Inject("OUT")(Capitals, undefined, 0);
Payload()(Capitals.prototype, "take", 0);
EventPattern("in")(Capitals.prototype, "take", Object.getOwnPropertyDescriptor(Capitals.prototype, "take"));

class Application {}
Module({
  imports: [
    ClientsModule.register([
      { name: "OUT", transport: Transport.KAFKA, options: { client, producerOnlyMode: true } },
    ]),
  ],
  controllers: [Capitals],
})(Application);

async function main() {
  const application = await NestFactory.createMicroservice(Application, {
    transport: Transport.KAFKA,
    options: { client, postfixId: "", consumer: { groupId: "capitals" }, subscribe: { fromBeginning: true } },
  });
  application.enableShutdownHooks();
  await application.listen();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
