// kafkajs: producer, consumer group, admin. Usage: node main.js host:port
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import assert from 'node:assert/strict'
import kafkajs from 'kafkajs'

const { Kafka, CompressionTypes, ConfigResourceTypes, Partitioners, logLevel } = kafkajs

const LIMIT_MS = 40_000
const PARTITIONS = 4
const RECORDS = 100

const kafka = new Kafka({
  clientId: 'kshare-interop',
  brokers: [process.argv[2]],
  logLevel: logLevel.ERROR,
})

const step = what => console.log(`- ${what}`)
const unique = prefix => `${prefix}-${randomUUID().slice(0, 12)}`

// Repeats probe until done(value) holds, at most for LIMIT_MS.
async function eventually(what, probe, done) {
  const end = Date.now() + LIMIT_MS
  for (;;) {
    const last = await probe()
    if (done(last)) return last
    if (Date.now() > end) throw new Error(`${what}: not within ${LIMIT_MS} ms; last seen ${JSON.stringify(last)}`)
    await delay(20)
  }
}

// Record i has value i, key k<i>, lies in partition i mod PARTITIONS and has timestamp 1000+i.
async function produce(topic, from, to, options = {}) {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, ...options.producer })
  await producer.connect()
  try {
    const messages = []
    for (let i = from; i < to; i++) {
      messages.push({
        key: `k${i}`,
        value: i % 10 === 9 ? null : String(i),
        partition: i % PARTITIONS,
        timestamp: String(1000 + i),
        headers: { index: String(i), many: ['a', 'b'] },
      })
    }
    const answers = await producer.send({ topic, messages, acks: -1, compression: options.compression })
    for (const a of answers) {
      assert.equal(a.errorCode, 0)
      assert.equal(a.baseOffset, String(from / PARTITIONS), `base offset of partition ${a.partition}`)
    }
    assert.equal(answers.length, PARTITIONS)
  } finally {
    await producer.disconnect()
  }
}

// A group member that collects what it reads and what it owns.
async function member(groupId, topic) {
  const consumer = kafka.consumer({
    groupId,
    heartbeatInterval: 300,
    sessionTimeout: 10_000,
    maxWaitTimeInMs: 200,
    retry: { initialRetryTime: 100, retries: 10 },
  })
  const m = { consumer, owned: [], records: [], joins: 0 }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    m.owned = payload.memberAssignment[topic] ?? []
    m.joins++
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommitInterval: 100,
    eachMessage: async ({ partition, message }) => {
      m.records.push({ partition, ...message })
    },
  })
  return m
}

async function codecs(admin) {
  for (const [name, compression] of [['none', CompressionTypes.None], ['gzip', CompressionTypes.GZIP]]) {
    step(`producer, compression ${name}, acks -1`)
    const topic = unique(`node-producer-${name}`)
    await createTopic(admin, topic)
    await produce(topic, 0, RECORDS, { compression })
  }
  step('idempotent producer')
  const topic = unique('node-producer-idempotent')
  await createTopic(admin, topic)
  await produce(topic, 0, RECORDS, { producer: { idempotent: true, maxInFlightRequests: 1 } })
}

async function createTopic(admin, topic) {
  // Records of any age are kept: the timestamps above are old.
  const configEntries = [{ name: 'retention.ms', value: '-1' }]
  const topics = [{ topic, numPartitions: PARTITIONS, replicationFactor: 1, configEntries }]
  assert.equal(await admin.createTopics({ topics, waitForLeaders: true }), true)
  // Metadata may name a leader before it takes records; a plain producer's retry would write the others twice.
  await eventually('leaders that answer', () => admin.fetchTopicOffsets(topic).catch(e => e.type),
    offsets => offsets.length === PARTITIONS)
}

async function group(admin) {
  step('a consumer group of two members')
  const topic = unique('node-consumer')
  const groupId = `${topic}-group`
  await createTopic(admin, topic)
  await produce(topic, 0, RECORDS, { compression: CompressionTypes.GZIP })
  const a = await member(groupId, topic)
  let b
  try {
    await eventually('records of the first member', () => a.records.length, n => n >= RECORDS)
    assert.equal(a.records.length, RECORDS)
    for (const r of a.records) {
      const i = Number(r.offset) * PARTITIONS + r.partition
      assert.equal(r.key.toString(), `k${i}`)
      assert.equal(r.value?.toString() ?? null, i % 10 === 9 ? null : String(i))
      assert.equal(r.timestamp, String(1000 + i))
      assert.equal(r.headers.index.toString(), String(i))
      assert.deepEqual(r.headers.many.map(String), ['a', 'b'])
    }
    b = await member(groupId, topic)
    await eventually('two members with two partitions each', () => [a.owned.length, b.owned.length],
      n => n[0] === 2 && n[1] === 2)
    const described = await eventually('a stable group', async () => (await admin.describeGroups([groupId])).groups[0],
      g => g.state === 'Stable')
    assert.equal(described.members.length, 2)

    await produce(topic, RECORDS, 2 * RECORDS)
    const seen = () => new Set([...a.records, ...b.records].map(r => r.key.toString())).size
    await eventually('the second hundred, over both members', seen, n => n === 2 * RECORDS)
    await b.consumer.disconnect()
    await eventually('every partition back at the first member', () => a.owned.length, n => n === PARTITIONS)

    const end = 2 * RECORDS / PARTITIONS
    await eventually('committed offsets at the end',
      async () => (await admin.fetchOffsets({ groupId, topics: [topic] }))[0].partitions.map(p => p.offset),
      o => o.length === PARTITIONS && o.every(x => x === String(end)))

    step('seek')
    const before = a.records.length
    a.consumer.seek({ topic, partition: 0, offset: '7' })
    const again = await eventually('the record at offset 7',
      () => a.records.slice(before).find(r => r.partition === 0), r => r !== undefined)
    assert.equal(again.offset, '7')
  } finally {
    await a.consumer.disconnect()
    await b?.consumer.disconnect()
  }
  await eventually('an empty group', async () => (await admin.describeGroups([groupId])).groups[0].state,
    s => s === 'Empty')

  step('offsets and deletion of a group by admin')
  await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: '3' }] })
  const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] })
  assert.equal(partitions.find(p => p.partition === 0).offset, '3')
  assert.ok((await admin.listGroups()).groups.some(g => g.groupId === groupId))
  await admin.deleteGroups([groupId])
  assert.ok(!(await admin.listGroups()).groups.some(g => g.groupId === groupId))
}

async function administration(admin) {
  step('admin: topics, configs, offsets')
  const topic = unique('node-admin')
  const cluster = await admin.describeCluster()
  assert.ok(cluster.clusterId && cluster.brokers.length > 0)
  await createTopic(admin, topic)
  assert.equal(await admin.createTopics({ topics: [{ topic }] }), false, 'an existing topic')
  assert.ok((await admin.listTopics()).includes(topic))
  await produce(topic, 0, RECORDS)

  const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
  await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries: [{ name: 'segment.ms', value: '60000' }] }] })
  // What the controller has accepted, a broker may describe a moment later. alterConfigs replaces the whole set:
  // retention.ms is the default again.
  await eventually('the configs as they were set', async () => {
    const { resources } = await admin.describeConfigs({ includeSynonyms: true, resources: [resource] })
    const value = name => resources[0].configEntries.find(e => e.configName === name).configValue
    return [value('segment.ms'), value('retention.ms')]
  }, values => values[0] === '60000' && values[1] === '604800000')
  await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '-1' }] }] })

  const end = String(RECORDS / PARTITIONS)
  for (const o of await admin.fetchTopicOffsets(topic)) {
    assert.deepEqual([o.low, o.high], ['0', end])
  }
  const at = await admin.fetchTopicOffsetsByTimestamp(topic, 1042)
  assert.equal(at.find(o => o.partition === 0).offset, '11', 'record 44 is the first of partition 0 from 42 on')
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '5' }] })
  assert.equal((await admin.fetchTopicOffsets(topic)).find(o => o.partition === 0).low, '5')

  await admin.createPartitions({ topicPartitions: [{ topic, count: PARTITIONS + 1 }] })
  await eventually('the new partition',
    async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length, n => n === PARTITIONS + 1)
  await admin.deleteTopics({ topics: [topic] })
  await eventually('the topic gone', () => admin.listTopics(), names => !names.includes(topic))
}

try {
  const admin = kafka.admin()
  await admin.connect()
  await codecs(admin)
  await group(admin)
  await administration(admin)
  await admin.disconnect()
  console.log('PASS kafkajs')
  process.exit(0)
} catch (e) {
  console.log(e)
  console.log(`FAIL kafkajs: ${e}`)
  process.exit(1)
}
