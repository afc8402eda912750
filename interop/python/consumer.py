"""The consumer with each group protocol: two members, rebalance, commit, seek, offsets for times."""

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupType,
    KafkaException,
    TopicPartition,
)

import check

PARTITIONS = 4
RECORDS = 100


class Member:
    def __init__(self, bootstrap, protocol, group, topic, **more):
        self.owned = set()
        self.values = []
        self.revocations = 0
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **more,
        }
        if protocol == "classic":
            # A native group takes both from the broker.
            config.update({"heartbeat.interval.ms": 300, "session.timeout.ms": 10000})
        self.consumer = Consumer(config)
        self.consumer.subscribe([topic], on_assign=self.assigned, on_revoke=self.revoked)

    def assigned(self, consumer, partitions):
        self.owned |= {p.partition for p in partitions}

    def revoked(self, consumer, partitions):
        self.revocations += 1
        self.owned -= {p.partition for p in partitions}

    def poll(self):
        for m in self.consumer.consume(500, 0.1):
            if m.error():
                raise KafkaException(m.error())
            if m.partition() not in self.owned:
                raise AssertionError(f"a record of partition {m.partition()}, which is not owned")
            self.values.append(m.value())


def group_life(bootstrap, a, protocol, group, topic):
    check.step(f"{protocol}: the first member gets every partition and record")
    one = Member(bootstrap, protocol, group, topic)

    def poll_one():
        one.poll()
        return len(one.values)

    check.eventually("records of the first member", poll_one, lambda n: n >= RECORDS)
    check.equal(RECORDS, len(set(one.values)), "distinct records")
    check.equal(set(range(PARTITIONS)), one.owned, "partitions of the only member")
    for tp in one.consumer.commit(asynchronous=False):
        check.equal((None, RECORDS // PARTITIONS), (tp.error, tp.offset), "commit")

    check.step(f"{protocol}: a second member takes half of the partitions")
    two = Member(bootstrap, protocol, group, topic)

    def poll_both():
        one.poll()
        two.poll()
        return len(one.owned), len(two.owned)

    check.eventually("two members with two partitions each", poll_both, lambda n: n == (2, 2))
    if one.revocations == 0:
        raise AssertionError("the first member was never asked to give a partition back")
    d = check.eventually(
        "a stable group",
        lambda: a.describe_consumer_groups([group])[group].result(check.LIMIT),
        lambda d: d.state == ConsumerGroupState.STABLE,
    )
    check.equal(2, len(d.members), "members")
    check.equal(ConsumerGroupType[protocol.upper()], d.type, "group type")
    check.produce(bootstrap, topic, PARTITIONS, RECORDS, 2 * RECORDS)
    check.eventually(
        "the second hundred, over both members",
        lambda: (poll_both(), len(one.values) + len(two.values))[1],
        lambda n: n >= 2 * RECORDS,
    )
    check.equal(2 * RECORDS, len(set(one.values + two.values)), "distinct records over both members")
    check.equal(RECORDS // 2, len(two.values), "records of the second member")
    one.consumer.commit(asynchronous=False)
    two.consumer.commit(asynchronous=False)

    check.step(f"{protocol}: a member that closes gives its partitions to the other")
    two.consumer.close()
    check.eventually(
        "every partition back at the first member", lambda: (one.poll(), len(one.owned))[1], lambda n: n == PARTITIONS
    )
    check.equal(3 * RECORDS // 2, len(one.values), "records of the first member")
    one.consumer.close()
    check.eventually(
        "an empty group",
        lambda: a.describe_consumer_groups([group])[group].result(check.LIMIT).state,
        lambda s: s == ConsumerGroupState.EMPTY,
    )


def positions(bootstrap, protocol, group, topic):
    check.step(f"{protocol}: committed, seek, watermarks, offsets_for_times")
    end = 2 * RECORDS // PARTITIONS
    p0, p1 = TopicPartition(topic, 0), TopicPartition(topic, 1)
    c = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol,
                  "enable.auto.commit": False, "auto.offset.reset": "error"})
    check.equal([end, end], [tp.offset for tp in c.committed([p0, p1], check.LIMIT)], "committed")
    check.equal((0, end), c.get_watermark_offsets(p0, check.LIMIT), "watermarks")
    # Record i has timestamp 1000+i and lies in partition i mod 4 at offset i / 4.
    times = c.offsets_for_times([TopicPartition(topic, 0, 1042), TopicPartition(topic, 1, 9999)], check.LIMIT)
    check.equal(11, times[0].offset, "offset for timestamp 1042: record 44")
    check.equal(-1, times[1].offset, "offset past the last record (OFFSET_END)")
    c.assign([TopicPartition(topic, 0, 3)])
    m = check.eventually("a record", lambda: c.poll(0.2), lambda m: m is not None)
    check.equal((None, 3, b"12"), (m.error(), m.offset(), m.value()), "record at offset 3")
    c.seek(TopicPartition(topic, 0, 7))
    m = check.eventually("a record", lambda: c.poll(0.2), lambda m: m is not None)
    check.equal((None, 7, b"28"), (m.error(), m.offset(), m.value()), "record after seek")
    c.commit(offsets=[TopicPartition(topic, 0, 5, "five")], asynchronous=False)
    got = c.committed([p0], check.LIMIT)[0]
    check.equal((5, "five"), (got.offset, got.metadata), "committed offset and metadata")
    c.close()


def run(bootstrap):
    a = check.admin(bootstrap)
    for protocol in ("classic", "consumer"):
        topic = check.unique(f"python-consumer-{protocol}")
        group = f"{topic}-group"
        check.create_topic(a, topic, PARTITIONS)
        check.produce(bootstrap, topic, PARTITIONS, 0, RECORDS)
        group_life(bootstrap, a, protocol, group, topic)
        positions(bootstrap, protocol, group, topic)


check.main("python consumer", run)
