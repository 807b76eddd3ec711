// kafkajs' transactions, in the roles that `go/role/transactions.go` describes: transact, transform, committed.
'use strict'

const { once } = require('events')
const readline = require('readline')
const { Kafka, Partitioners, logLevel } = require('kafkajs')

const PARTITIONS = 4
const [role, bootstrap, topic, ...others] = process.argv.slice(2)
const kafka = new Kafka({
  clientId: 'interop',
  brokers: [bootstrap],
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 50 },
})
const tell = line => process.stdout.write(JSON.stringify(line) + '\n')
const attempt = async (step, work) => {
  try {
    await work()
    tell({ step, error: '' })
    return true
  } catch (error) {
    tell({ step, error: `${error.type || ''} ${error.message}`.trim() })
    return false
  }
}

async function administer(work) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

async function open(transactionalId) {
  const producer = kafka.producer({
    transactionalId,
    transactionTimeout: 300000,
    maxInFlightRequests: 1,
    createPartitioner: Partitioners.DefaultPartitioner,
  })
  await producer.connect()
  return producer
}

async function read(groupId, options, run) {
  const consumer = kafka.consumer({
    groupId,
    rebalanceTimeout: 10000,
    heartbeatInterval: 500,
    maxWaitTimeInMs: 100,
  })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({ ...options, ...run(consumer) })
  process.stdin.resume()
  await once(process.stdin, 'end')
  await consumer.stop()
  await consumer.disconnect()
}

const roles = {
  async transact() {
    let producer
    let transaction
    // It takes its id with the first transaction: an empty one takes it now.
    const opened = await attempt('open', async () => {
      producer = await open(others[0])
      await (await producer.transaction()).abort()
    })
    if (!opened) return
    const steps = {
      begin: async () => {
        transaction = await producer.transaction()
      },
      send: values =>
        transaction.send({
          topic,
          acks: -1,
          messages: values.map((value, i) => ({ key: String(i), value, partition: i % PARTITIONS })),
        }),
      commit: () => transaction.commit(),
      abort: () => transaction.abort(),
    }
    for await (const line of readline.createInterface({ input: process.stdin })) {
      const [step, ...values] = line.split(' ')
      await attempt(step, () => steps[step](values))
    }
    await producer.disconnect()
  },

  async transform() {
    const [to, group, id] = others
    let producer = await open(id)
    let number = 0
    const copy = async (partition, messages, last) => {
      number += 1
      const transaction = await producer.transaction()
      await transaction.send({
        topic: to,
        acks: -1,
        messages: messages.map(({ key, value }) => ({ key, value, partition })),
      })
      if (number % 2 === 0) {
        await transaction.abort()
        return false
      }
      const offset = String(Number(last) + 1)
      await transaction.sendOffsets({
        consumerGroupId: group,
        topics: [{ topic, partitions: [{ partition, offset }] }],
      })
      await transaction.commit()
      return true
    }
    const reopen = async () => {
      await producer.disconnect()
      producer = await open(id)
      await (await producer.transaction()).abort()
    }
    await read(group, { autoCommit: false, eachBatchAutoResolve: false }, consumer => ({
      eachBatch: async ({ batch, resolveOffset }) => {
        const messages = batch.messages.slice(0, 5)
        if (messages.length === 0) return
        const last = messages[messages.length - 1].offset
        try {
          while (!(await copy(batch.partition, messages, last))) tell({ how: 'aborted' })
        } catch (error) {
          // A new producer ends what the old one has left; then the group's offsets say how that came out.
          tell({ how: 'failed', why: String(error) })
          await reopen()
          const stored = await administer(admin => admin.fetchOffsets({ groupId: group, topics: [topic] }))
          const { offset } = stored[0].partitions.find(one => one.partition === batch.partition)
          consumer.seek({ topic, partition: batch.partition, offset: String(Math.max(0, Number(offset))) })
          return
        }
        tell({ how: 'committed' })
        resolveOffset(last)
      },
    }))
    await producer.disconnect()
  },

  committed: () =>
    read(others[0], {}, () => ({
      eachMessage: async ({ partition, message }) =>
        tell({
          partition,
          offset: Number(message.offset),
          key: String(message.key),
          value: String(message.value),
          header: '',
        }),
    })),
}

// It may keep a socket, and with it the process, where it connected twice after a restart.
roles[role]().then(
  () => process.exit(0),
  error => {
    console.error(error)
    process.exit(1)
  }
)
