"""What the programs share: the PASS/FAIL frame, waits, and set-up steps."""

import os
import sys
import time
import traceback
import uuid

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

# The longest that any single wait on the broker may take, in seconds.
LIMIT = 40.0


def main(name, body):
    """Runs body(bootstrap), prints PASS or FAIL, and ends with status 0 or 1."""
    code = 0
    try:
        body(sys.argv[1])
        print(f"PASS {name}", flush=True)
    except BaseException as e:  # noqa: BLE001 - whatever ends the program is its verdict
        traceback.print_exc(file=sys.stdout)
        print(f"FAIL {name}: {e!r}", flush=True)
        code = 1
    # Clients of a failed run may still wait for the broker in their destructors.
    os._exit(code)


def step(what):
    print(f"- {what}", flush=True)


def that(ok, what):
    if not ok:
        raise AssertionError(what)


def equal(want, got, what):
    if want != got:
        raise AssertionError(f"{what}: want {want!r}, got {got!r}")


def eventually(what, probe, done):
    """Repeats probe() until done(value), at most LIMIT seconds; returns the value."""
    end = time.monotonic() + LIMIT
    while True:
        last = probe()
        if done(last):
            return last
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {LIMIT} s; last seen {last!r}")
        time.sleep(0.02)


def code_of(error_code, future, what):
    """Requires a future to fail with a KafkaError of this code."""
    try:
        got = future.result(LIMIT)
    except Exception as e:  # noqa: BLE001
        equal(error_code, e.args[0].code(), what)
        return
    raise AssertionError(f"{what}: want error {error_code}, got {got!r}")


def unique(prefix):
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def admin(bootstrap):
    return AdminClient({"bootstrap.servers": bootstrap})


def create_topic(a, topic, partitions):
    """Keeps records of any age: the programs' timestamps are old."""
    new = NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})
    a.create_topics([new])[topic].result(LIMIT)


def alter(a, kind, name, key, value, op=AlterConfigOpType.SET):
    entry = ConfigEntry(key, value, incremental_operation=op)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    a.incremental_alter_configs([resource])[resource].result(LIMIT)


def describe(a, kind, name):
    resource = ConfigResource(kind, name)
    return a.describe_configs([resource])[resource].result(LIMIT)


def share_group_from_earliest(a, group):
    alter(a, ResourceType.GROUP, group, "share.auto.offset.reset", "earliest")


def produce(bootstrap, topic, partitions, start, end):
    """Values start..end-1, value i to partition i mod partitions with timestamp 1000+i."""
    failed = []
    p = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for i in range(start, end):
        p.produce(
            topic,
            str(i),
            f"k{i}",
            partition=i % partitions,
            timestamp=1000 + i,
            on_delivery=lambda e, m: failed.append(e) if e else None,
        )
    equal(0, p.flush(LIMIT), "records not delivered in time")
    equal([], failed, "delivery errors")
