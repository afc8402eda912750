"""A member of a consumer group, of KIP-848 or of the classic protocol."""

import time

import confluent_kafka

SETTINGS = {"protocol": "group.protocol", "instance_id": "group.instance.id", "isolation": "isolation.level", "assignor": "partition.assignment.strategy"}


class GroupMember:
    """What driver.Member is for share groups. say and code are the driver's, crc32c too."""

    def __init__(self, conf, number, topics, limit, driver):
        self.number, self.limit, self.driver, self.polls, self.running = number, limit, driver, 0, False
        self.consumer = confluent_kafka.Consumer({**conf, "auto.offset.reset": "earliest", "enable.auto.commit": False, "error_cb": self.told})
        self.consumer.subscribe(topics)

    def told(self, error):
        self.driver.say(ev="error", where="event", code=self.driver.code(error), text=str(error))

    def poll(self, poll_ms, hold_ms=0):
        n = 0
        self.polls += 1
        try:
            for m in self.consumer.consume(self.limit, poll_ms / 1000):
                if m.error():
                    self.driver.say(ev="error", where="poll", code=self.driver.code(m.error()), text=str(m.error()))
                    continue
                n += 1
                parts = [m.key(), m.value()] + [x for k, v in m.headers() or [] for x in (k.encode(), v)]
                self.driver.say(ev="rec", t=m.topic(), p=m.partition(), o=m.offset(), dc=0, h=self.driver.crc32c(*parts), poll=self.polls, consumer=self.number)
        except Exception as e:  # whatever the client raises is what the application gets
            self.driver.say(ev="error", where="poll", code=self.driver.code(e), text=str(e))
            time.sleep(0.001)
        if n:
            self.commit("sync")
        return n, False

    def commit(self, _):
        try:
            self.consumer.commit(asynchronous=False)
            self.driver.say(ev="result", what="commit", ok=True)
        except Exception as e:
            self.driver.say(ev="result", what="commit", ok=False, code=self.driver.code(e), text=str(e))
