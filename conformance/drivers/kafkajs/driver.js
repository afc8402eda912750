// The judge's driver of kafkajs, of its consumer of classic groups and its transactional producer: docs/drivers.md says what it is told and what it says.

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import kafkajs from 'kafkajs';

const { Kafka, logLevel } = kafkajs;
const env = process.env;
const settings = JSON.parse(env.KSJ_PROPS);
const version = JSON.parse(readFileSync(new URL('./node_modules/kafkajs/package.json', import.meta.url))).version;

const say = (event) => process.stdout.write(JSON.stringify(event) + '\n');

const code = (e) => (typeof e.code === 'number' ? e.code : e.message);

const outcome = async (what, step) => {
  try {
    await step();
    say({ ev: 'result', what, ok: true });
  } catch (e) {
    say({ ev: 'result', what, ok: false, code: code(e), text: e.message });
  }
};

const table = Array.from({ length: 256 }, (_, n) => {
  for (let i = 0; i < 8; i++) n = (n >>> 1) ^ (n & 1 ? 0x82f63b78 : 0);
  return n >>> 0;
});

// crc32c is the checksum of buffers one behind the other.
function crc32c(parts) {
  let crc = 0xffffffff;
  for (const part of parts) for (const b of part ?? []) crc = (crc >>> 8) ^ table[(crc ^ b) & 0xff];
  return ((crc ^ 0xffffffff) >>> 0).toString(16).padStart(8, '0');
}

// Member is a consumer of the group. kafkajs hands records out by itself, to a function: there is no poll.
class Member {
  constructor(kafka, number) {
    this.number = number;
    this.batches = 0;
    this.consumer = kafka.consumer({
      groupId: env.KSJ_GROUP, rackId: settings.rack ?? '', maxWaitTimeInMs: settings.max_wait_ms ?? 500, minBytes: settings.min_bytes ?? 1,
      maxBytes: settings.max_bytes ?? 10485760, heartbeatInterval: 1000, readUncommitted: settings.isolation !== 'read_committed',
    });
    this.consumer.on(this.consumer.events.CRASH, ({ payload }) => say({ ev: 'error', where: 'event', code: code(payload.error), text: payload.error.message, fatal: !payload.restart }));
  }

  async open() {
    await this.consumer.connect();
    const topics = env.KSJ_TOPICS.split(',');
    await this.consumer.subscribe({ topics: settings.regex ? topics.map((t) => new RegExp(`^${t}$`)) : topics, fromBeginning: true });
  }

  run() {
    return this.consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch, resolveOffset }) => {
        this.batches++;
        let last = null;
        for (const m of batch.messages) {
          const parts = [m.key, m.value];
          for (const [k, v] of Object.entries(m.headers ?? {})) for (const one of [v].flat()) parts.push(Buffer.from(k), one);
          say({ ev: 'rec', t: batch.topic, p: batch.partition, o: Number(m.offset), dc: 0, h: crc32c(parts), poll: this.batches, consumer: this.number });
          resolveOffset(m.offset);
          last = m.offset;
        }
        if (last !== null)
          await outcome('commit', () => this.consumer.commitOffsets([{ topic: batch.topic, partition: batch.partition, offset: String(BigInt(last) + 1n) }]));
      },
    });
  }
}

const kafka = () => new Kafka({ brokers: env.KSJ_BOOTSTRAP.split(','), clientId: settings.client_id, logLevel: logLevel.NOTHING });

async function consume(ops) {
  const members = [new Member(kafka(), 0)];
  let running = false;
  const start = async (m) => {
    await m.open();
    await m.run();
  };
  for await (const line of ops) {
    const o = JSON.parse(line);
    switch (o.op) {
      case 'run':
        if (!running) start(members[0]).catch((e) => say({ ev: 'error', where: 'api', code: code(e), text: e.message, fatal: true }));
        running = true;
        break;
      case 'second': {
        const m = new Member(kafka(), members.length);
        members.push(m);
        start(m).catch((e) => say({ ev: 'error', where: 'api', code: code(e), text: e.message, fatal: true }));
        say({ ev: 'done', op: o.op });
        break;
      }
      case 'close':
        for (const m of members) await m.consumer.disconnect();
        say({ ev: 'closed' });
        process.exit(0);
      // falls through: there is no way here
      default:
        say({ ev: 'unsupported', what: o.op });
    }
  }
  process.exit(0);
}

async function transact(ops) {
  const producer = kafka().producer({ transactionalId: settings.transactional_id, maxInFlightRequests: 1, idempotent: true, createPartitioner: () => ({ message }) => message.partition });
  let transaction = null;
  let sent = 0;
  for await (const line of ops) {
    const o = JSON.parse(line);
    switch (o.op) {
      case 'begin':
        await outcome('begin', async () => {
          await producer.connect();
          transaction = await producer.transaction();
        });
        break;
      case 'send':
        await outcome('send', async () => {
          const messages = Array.from({ length: o.n }, () => ({ value: 'v', partition: sent++ % 3 }));
          await transaction.send({ topic: o.topic, messages });
        });
        break;
      case 'offsets':
        await outcome('offsets', () => transaction.sendOffsets({ consumerGroupId: 'copied', topics: [{ topic: 't', partitions: [{ partition: 0, offset: '1' }] }] }));
        break;
      case 'end':
        await outcome('end', () => (o.commit ? transaction.commit() : transaction.abort()));
        break;
      case 'close':
        await producer.disconnect();
        say({ ev: 'closed' });
        process.exit(0);
      // falls through: there is no way here
      default:
        say({ ev: 'unsupported', what: o.op });
    }
  }
  process.exit(0);
}

say({ ev: 'hello', client: 'kafkajs', version, caps: ['cg', 'txn'] });
const known = { consumer: ['client_id', 'rack', 'max_wait_ms', 'min_bytes', 'max_bytes', 'isolation', 'regex', 'protocol'], producer: ['client_id', 'transactional_id'] }[env.KSJ_KIND];
const strange = known ? Object.keys(settings).find((k) => !known.includes(k)) : `kind ${env.KSJ_KIND}`;
if (strange !== undefined) {
  say({ ev: 'unsupported', what: strange });
} else if (settings.protocol === 'consumer') {
  say({ ev: 'unsupported', what: 'protocol consumer' });
} else {
  const ops = createInterface({ input: process.stdin });
  await (env.KSJ_KIND === 'producer' ? transact(ops) : consume(ops));
}
