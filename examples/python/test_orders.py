"""What a share group does with records that are late, or fail: tests with a real client that wait for nothing.

Run with pytest, confluent-kafka and KSHARE, the path of the kshare binary.
"""

import os
import time

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer

from kshare_control import Refused, running

TOPIC, GROUP = "orders", "workers"


@pytest.fixture(scope="module")
def process():
    with running(os.environ["KSHARE"], "--topic", f"{TOPIC}:1", "--clock", "virtual") as control:
        yield control


@pytest.fixture
def kshare(process):
    """A cluster that is empty: emptying one takes about a millisecond, starting one many."""
    process.reset()
    process.run(f"config group {GROUP} share.auto.offset.reset=earliest")
    return process


def produce(kshare, value):
    reports = []
    p = Producer({"bootstrap.servers": kshare.bootstrap})
    p.produce(TOPIC, value, on_delivery=lambda error, message: reports.append((error, message)))
    assert p.flush(40) == 0
    return reports[0]


def worker(kshare):
    c = ShareConsumer({"bootstrap.servers": kshare.bootstrap, "group.id": GROUP, "share.acknowledgement.mode": "explicit"})
    c.subscribe([TOPIC])
    return c


def receive(consumer):
    """The next record."""
    end = time.monotonic() + 40
    while time.monotonic() < end:
        for message in consumer.poll(0.2):
            assert message.error() is None
            return message
    raise AssertionError("no record within 40 s")


def test_a_record_whose_lock_ends_goes_to_another_worker(kshare):
    produce(kshare, "teapot")
    with worker(kshare) as slow, worker(kshare) as other:
        assert receive(slow).delivery_count() == 1
        run = kshare.share_partition(GROUP, TOPIC)["runs"][0]
        assert (run["state"], run["lockLeftMs"]) == ("ACQUIRED", 30_000)

        kshare.advance("29.999s")
        assert kshare.share_partition(GROUP, TOPIC)["runs"][0]["state"] == "ACQUIRED"
        kshare.advance("1ms")
        again = receive(other)
        assert (again.value(), again.delivery_count()) == (b"teapot", 2)
        other.acknowledge(again, AcknowledgeType.ACCEPT)
        other.commit_sync(40)


def test_a_producer_tries_again(kshare):
    fault = kshare.add_fault(f"api=Produce topic={TOPIC} times=1 error=NOT_LEADER_OR_FOLLOWER")
    error, message = produce(kshare, "teapot")
    assert error is None and message.offset() == 0
    assert kshare.fault(fault)["acts"] == 1


def test_a_reset_leaves_nothing(kshare):
    produce(kshare, "teapot")
    kshare.reset()
    topics = {t["name"]: t for t in kshare.get("/v1/topics")["topics"]}
    assert topics[TOPIC]["partitions"][0]["endOffset"] == 0


def test_a_mistake_is_told(kshare):
    with pytest.raises(Refused, match="31 is not a duration as text"):
        kshare.advance(31)
