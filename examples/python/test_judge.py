"""A client keeps the rules of share groups: run with pytest, confluent-kafka and KSHARE, the path of the kshare binary."""
import os

from confluent_kafka import ShareConsumer
from kshare_control import running


def test_the_client_keeps_the_rules():
    with running(os.environ["KSHARE"], "--topic", "orders:1", "--judge") as kshare:
        with ShareConsumer({"bootstrap.servers": kshare.bootstrap, "group.id": "workers"}) as consumer:
            consumer.subscribe(["orders"])
            consumer.poll(2)
        assert kshare.get("/v1/judge")["failures"] == []
