"""The preview ShareConsumer: implicit and explicit acknowledgement, delivery counts, close."""

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer

import check

RECORDS = 30


def prepare(bootstrap, a, name, partitions):
    """A topic with RECORDS records and a share group of the same name that starts at the earliest."""
    name = check.unique(f"python-share-{name}")
    check.create_topic(a, name, partitions)
    check.produce(bootstrap, name, partitions, 0, RECORDS)
    check.share_group_from_earliest(a, name)
    return name


def member(bootstrap, name, mode):
    c = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": name, "share.acknowledgement.mode": mode})
    c.subscribe([name])
    return c


def poll(c):
    messages = list(c.poll(0.2))
    for m in messages:
        if m.error():
            raise KafkaException(m.error())
    return messages


def committed(results):
    for tp, error in results.items():
        check.equal(None, error, f"acknowledgement of {tp}")


def implicit(bootstrap, a):
    check.step("implicit acknowledgement")
    name = prepare(bootstrap, a, "implicit", 2)
    values = []
    with member(bootstrap, name, "implicit") as c:
        check.equal([name], c.subscription(), "subscription")

        def collect():
            for m in poll(c):
                check.equal(1, m.delivery_count(), f"delivery count of {m.value()}")
                values.append(m.value())
            return len(values)

        check.eventually("all records", collect, lambda n: n >= RECORDS)
        committed(c.commit_sync(check.LIMIT))
        check.equal(RECORDS, len(set(values)), "distinct records")
    with member(bootstrap, name, "implicit") as c:
        check.produce(bootstrap, name, 2, RECORDS, RECORDS + 2)
        more = []
        check.eventually("new records alone", lambda: (more.extend(poll(c)), len(more))[1], lambda n: n >= 2)
        check.equal({b"30", b"31"}, {m.value() for m in more}, "records after all earlier ones are accepted")


def explicit(bootstrap, a):
    check.step("explicit acknowledgement: accept, release, reject")
    name = prepare(bootstrap, a, "explicit", 2)
    deliveries = {}
    settled = []
    with member(bootstrap, name, "explicit") as c:

        def collect():
            messages = poll(c)
            for m in messages:
                i = int(m.value())
                deliveries[i] = deliveries.get(i, 0) + 1
                check.equal(deliveries[i], m.delivery_count(), f"delivery count of record {i}")
                # Of each three, one is accepted, one released once and then accepted, one rejected.
                if i % 3 == 2:
                    c.acknowledge(m, AcknowledgeType.REJECT)
                elif i % 3 == 1 and deliveries[i] == 1:
                    c.acknowledge_offset(m.topic(), m.partition(), m.offset(), AcknowledgeType.RELEASE)
                    continue
                else:
                    c.acknowledge(m)
                settled.append(i)
            if messages:
                committed(c.commit_sync(check.LIMIT))
            return len(settled)

        check.eventually("a final acknowledgement for every record", collect, lambda n: n >= RECORDS)
    check.equal(list(range(RECORDS)), sorted(settled), "settled records")
    check.equal({i: 2 if i % 3 == 1 else 1 for i in range(RECORDS)}, deliveries, "deliveries")


def closing(bootstrap, a):
    check.step("a closed member's records come again at once")
    name = prepare(bootstrap, a, "closing", 1)
    held = []
    with member(bootstrap, name, "explicit") as c:
        check.eventually("records", lambda: (held.extend(m.value() for m in poll(c)), len(held))[1], lambda n: n > 0)
    counts = {}

    def collect():
        counts.update({m.value(): m.delivery_count() for m in poll(c)})
        return len(counts)

    with member(bootstrap, name, "implicit") as c:
        check.eventually("all records, those of the closed member with them", collect, lambda n: n == RECORDS)
        committed(c.commit_sync(check.LIMIT))
    for value in held:
        check.equal(2, counts[value], f"delivery count of {value}")


def run(bootstrap):
    a = check.admin(bootstrap)
    implicit(bootstrap, a)
    explicit(bootstrap, a)
    closing(bootstrap, a)


check.main("python share consumer", run)
