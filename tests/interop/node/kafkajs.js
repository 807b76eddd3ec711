// kafkajs in the roles that `go/role` describes: create, produce, consume, describe, offsets, delete.
'use strict'

const { once } = require('events')
const readline = require('readline')
const { Kafka, CompressionTypes, CompressionCodecs, Partitioners, logLevel } = require('kafkajs')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const PARTITIONS = 4
const RETENTION = '86400000'
const [role, bootstrap, , topic, last] = process.argv.slice(2)
const kafka = new Kafka({
  clientId: 'interop',
  brokers: [bootstrap],
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 50 },
})
const tell = line => process.stdout.write(JSON.stringify(line) + '\n')

async function administer(work) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

const roles = {
  create: () =>
    administer(admin =>
      admin.createTopics({
        topics: [
          { topic, numPartitions: PARTITIONS, configEntries: [{ name: 'retention.ms', value: RETENTION }] },
        ],
      })
    ),

  async produce() {
    const codecs = {
      none: CompressionTypes.None,
      gzip: CompressionTypes.GZIP,
      snappy: CompressionTypes.Snappy,
    }
    const messages = []
    for await (const value of readline.createInterface({ input: process.stdin })) {
      const n = String(messages.length)
      messages.push({ key: n, value, partition: messages.length % PARTITIONS, headers: { n } })
    }
    const producer = kafka.producer({
      idempotent: true,
      maxInFlightRequests: 1,
      createPartitioner: Partitioners.DefaultPartitioner,
    })
    await producer.connect()
    await producer.send({ topic, messages, acks: -1, compression: codecs[last] })
    await producer.disconnect()
  },

  async consume() {
    const consumer = kafka.consumer({
      groupId: last,
      rebalanceTimeout: 10000,
      heartbeatInterval: 500,
      maxWaitTimeInMs: 100,
    })
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
      tell({ assigned: payload.memberAssignment[topic] || [] })
    )
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({
      eachMessage: async ({ partition, message }) =>
        tell({
          partition,
          offset: Number(message.offset),
          key: String(message.key),
          value: String(message.value),
          header: Object.entries(message.headers).map(([key, value]) => `${key}=${value}`).join(''),
        }),
    })
    process.stdin.resume()
    await once(process.stdin, 'end')
    await consumer.stop()
    await consumer.disconnect()
  },

  describe: () =>
    administer(async admin => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
      const { resources } = await admin.describeConfigs({
        includeSynonyms: false,
        resources: [{ type: 2, name: topic, configNames: ['retention.ms'] }],
      })
      const { groups } = await admin.listGroups()
      const described = (await admin.describeGroups([last])).groups[0]
      tell({
        partitions: topics[0].partitions.length,
        retention: resources[0].configEntries[0].configValue,
        groups: groups.map(group => group.groupId).sort(),
        state: described.state,
        members: described.members.length,
      })
    }),

  offsets: () =>
    administer(async admin => {
      const seen = { beginning: {}, end: {}, at: {} }
      for (const { partition, low, high } of await admin.fetchTopicOffsets(topic)) {
        seen.beginning[partition] = Number(low)
        seen.end[partition] = Number(high)
      }
      // Where no record is so late, it answers the end.
      for (const { partition, offset } of await admin.fetchTopicOffsetsByTimestamp(topic, Number(last))) {
        if (Number(offset) < seen.end[partition]) seen.at[partition] = Number(offset)
      }
      tell(seen)
    }),

  delete: () =>
    administer(async admin => {
      if (last !== '-') await admin.deleteGroups([last])
      await admin.deleteTopics({ topics: [topic] })
      tell(await admin.listTopics())
    }),
}

// It may keep a socket, and with it the process, where it connected twice after a restart.
roles[role]().then(
  () => process.exit(0),
  error => {
    console.error(error)
    process.exit(1)
  }
)
