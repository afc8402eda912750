"""AdminClient: topics, configs, logs, consumer groups."""

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AlterConfigOpType,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

import check

RECORDS = 30


def cluster_and_topics(a, topic):
    check.step("describe_cluster, create_topics, describe_topics")
    c = a.describe_cluster().result(check.LIMIT)
    if not c.cluster_id or not c.nodes or c.controller is None:
        raise AssertionError(f"cluster without id, nodes or controller: {vars(c)}")
    new = NewTopic(topic, 3, 1, config={"retention.ms": "-1"})
    a.create_topics([new], validate_only=True)[topic].result(check.LIMIT)
    if topic in a.list_topics(timeout=check.LIMIT).topics:
        raise AssertionError("validate_only created the topic")
    a.create_topics([new])[topic].result(check.LIMIT)
    check.code_of(KafkaError.TOPIC_ALREADY_EXISTS, a.create_topics([new])[topic], "the same topic again")
    bad = f"{topic}-x"
    check.code_of(
        KafkaError.INVALID_REPLICATION_FACTOR, a.create_topics([NewTopic(bad, 1, 9)])[bad], "nine replicas"
    )
    d = a.describe_topics(TopicCollection([topic]))[topic].result(check.LIMIT)
    check.equal([0, 1, 2], [p.id for p in d.partitions], "partitions")
    for p in d.partitions:
        check.equal(1, len(p.isr), f"isr of partition {p.id}")
        check.equal(p.leader.id, p.isr[0].id, f"leader of partition {p.id}")
    a.create_partitions([NewPartitions(topic, 4)])[topic].result(check.LIMIT)
    check.eventually(
        "the new partition",
        lambda: len(a.describe_topics(TopicCollection([topic]))[topic].result(check.LIMIT).partitions),
        lambda n: n == 4,
    )


def becomes(a, kind, name, key, value):
    """Waits for a value: what the controller has accepted, a broker may describe a moment later."""
    check.eventually(f"{key} as {value}", lambda: check.describe(a, kind, name)[key].value, lambda v: v == value)


def configs(a, topic):
    check.step("incremental_alter_configs, describe_configs of a topic, a broker and a group")
    check.alter(a, ResourceType.TOPIC, topic, "cleanup.policy", "compact", AlterConfigOpType.APPEND)
    becomes(a, ResourceType.TOPIC, topic, "cleanup.policy", "delete,compact")
    check.alter(a, ResourceType.TOPIC, topic, "cleanup.policy", None, AlterConfigOpType.DELETE)
    becomes(a, ResourceType.TOPIC, topic, "cleanup.policy", "delete")
    broker = str(a.describe_cluster().result(check.LIMIT).nodes[0].id)
    if "log.retention.ms" not in check.describe(a, ResourceType.BROKER, broker):
        raise AssertionError("a broker's configs lack log.retention.ms")
    group = f"{topic}-share"
    check.share_group_from_earliest(a, group)
    becomes(a, ResourceType.GROUP, group, "share.auto.offset.reset", "earliest")


def logs(a, bootstrap, topic):
    check.step("list_offsets, delete_records")
    check.produce(bootstrap, topic, 4, 0, 4 * RECORDS)
    tp = TopicPartition(topic, 0)

    def offset(spec):
        return a.list_offsets({tp: spec})[tp].result(check.LIMIT).offset

    check.equal(0, offset(OffsetSpec.earliest()), "earliest")
    check.equal(RECORDS, offset(OffsetSpec.latest()), "latest")
    check.equal(RECORDS - 1, offset(OffsetSpec.max_timestamp()), "max timestamp")
    check.equal(3, offset(OffsetSpec.for_timestamp(1010)), "first record from timestamp 1010 on (value 12)")
    deleted = a.delete_records([TopicPartition(topic, 0, 6)])[tp].result(check.LIMIT)
    check.equal(6, deleted.low_watermark, "low watermark")
    check.equal(6, offset(OffsetSpec.earliest()), "earliest after delete_records")


def groups(a, bootstrap, topic):
    check.step("consumer groups: list, describe, offsets, delete")
    group = f"{topic}-group"
    c = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    c.subscribe([topic])
    check.eventually("an assignment", lambda: (c.poll(0.2), len(c.assignment()))[1], lambda n: n == 4)
    listed = {g.group_id: g for g in a.list_consumer_groups().result(check.LIMIT).valid}
    check.equal(ConsumerGroupType.CLASSIC, listed[group].type, "type in list_consumer_groups")
    check.code_of(KafkaError.NON_EMPTY_GROUP, a.delete_consumer_groups([group])[group], "a group with a member")
    c.close()

    wanted = [TopicPartition(topic, 0, 7), TopicPartition(topic, 1, 8)]
    request = ConsumerGroupTopicPartitions(group, wanted)
    a.alter_consumer_group_offsets([request])[group].result(check.LIMIT)
    got = a.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(check.LIMIT)
    check.equal([(0, 7), (1, 8)], sorted((p.partition, p.offset) for p in got.topic_partitions), "offsets after alter")
    a.delete_consumer_groups([group])[group].result(check.LIMIT)
    if group in {g.group_id for g in a.list_consumer_groups().result(check.LIMIT).valid}:
        raise AssertionError("a deleted group is still listed")


def run(bootstrap):
    a = check.admin(bootstrap)
    topic = check.unique("python-admin")
    cluster_and_topics(a, topic)
    configs(a, topic)
    logs(a, bootstrap, topic)
    groups(a, bootstrap, topic)
    check.step("delete_topics")
    a.delete_topics([topic])[topic].result(check.LIMIT)
    check.code_of(KafkaError.UNKNOWN_TOPIC_OR_PART, a.delete_topics([topic])[topic], "a topic deleted twice")


check.main("python admin", run)
