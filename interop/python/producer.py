"""The producer: idempotent with every codec, headers, delivery reports, a refused record."""

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

import check

RECORDS = 60
PARTITIONS = 3


def round_trip(bootstrap, topic, config):
    delivered = {}
    errors = []

    def report(error, message):
        if error is not None:
            errors.append(error)
        else:
            delivered[(message.partition(), message.offset())] = message

    p = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, **config})
    check.equal(PARTITIONS, len(p.list_topics(topic, check.LIMIT).topics[topic].partitions), "partitions")
    for i in range(RECORDS):
        p.produce(
            topic,
            None if i % 7 == 0 else f"value-{i}" + "-" * i * 40,
            None if i % 5 == 0 else f"key-{i}",
            partition=i % PARTITIONS,
            timestamp=1_700_000_000_000 + i,
            headers=[("index", str(i).encode()), ("null", None), ("index", b"\x00\xff")],
            on_delivery=report,
        )
    check.equal(0, p.flush(check.LIMIT), "records not delivered in time")
    check.equal([], errors, "delivery errors")
    want = {(q, o) for q in range(PARTITIONS) for o in range(RECORDS // PARTITIONS)}
    check.equal(want, set(delivered), "offsets in the delivery reports")
    read_back(bootstrap, topic, delivered)


def read_back(bootstrap, topic, delivered):
    c = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "check.crcs": True})
    c.assign([TopicPartition(topic, q, 0) for q in range(PARTITIONS)])
    got = []

    def poll():
        for m in c.consume(RECORDS, 0.2):
            if m.error():
                raise KafkaException(m.error())
            got.append(m)
        return len(got)

    check.eventually("records read back", poll, lambda n: n >= RECORDS)
    for m in got:
        w = delivered[(m.partition(), m.offset())]
        i = m.offset() * PARTITIONS + m.partition()
        check.equal((w.key(), w.value()), (m.key(), m.value()), f"record {i}")
        check.equal(1_700_000_000_000 + i, m.timestamp()[1], f"timestamp of record {i}")
        check.equal([("index", str(i).encode()), ("null", None), ("index", b"\x00\xff")], m.headers(), "headers")
    c.close()


def refused(bootstrap, a):
    topic = check.unique("python-producer-small")
    a.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": "1000"})])[topic].result(check.LIMIT)
    errors = []
    p = Producer({"bootstrap.servers": bootstrap})
    p.produce(topic, "x" * 5000, on_delivery=lambda e, m: errors.append(e and e.code()))
    p.flush(check.LIMIT)
    check.equal([KafkaError.MSG_SIZE_TOO_LARGE], errors, "error for a batch beyond max.message.bytes")


def run(bootstrap):
    a = check.admin(bootstrap)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        check.step(f"idempotent, compression.type={codec}")
        topic = check.unique(f"python-producer-{codec}")
        check.create_topic(a, topic, PARTITIONS)
        round_trip(bootstrap, topic, {"enable.idempotence": True, "compression.type": codec})
    check.step("acks=1")
    topic = check.unique("python-producer-acks-1")
    check.create_topic(a, topic, PARTITIONS)
    round_trip(bootstrap, topic, {"acks": 1})
    check.step("a batch larger than max.message.bytes")
    refused(bootstrap, a)


check.main("python producer", run)
