"""The judge's driver of confluent-kafka-python (librdkafka): docs/drivers.md says what it is told and what it says."""

import base64
import json
import os
import queue
import sys
import threading
import time

import confluent_kafka
from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, ShareConsumer

import group

EXPLICIT = os.environ["KSJ_ACK"] == "explicit"
SETTINGS = {
    "client_id": "client.id", "rack": "client.rack", "max_poll_records": "max.poll.records", "max_wait_ms": "fetch.wait.max.ms", "min_bytes": "fetch.min.bytes", "max_bytes": "fetch.max.bytes",
    "max_poll_interval_ms": "max.poll.interval.ms", "sasl_mechanism": "sasl.mechanism", "sasl_username": "sasl.username", "sasl_password": "sasl.password", "tls_ca": "ssl.ca.location",
}
TYPES = {"accept": AcknowledgeType.ACCEPT, "release": AcknowledgeType.RELEASE, "reject": AcknowledgeType.REJECT}


def table():
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        yield n


TABLE = list(table())


def crc32c(*parts):
    crc = 0xFFFFFFFF
    for part in parts:
        for b in part or b"":
            crc = crc >> 8 ^ TABLE[(crc ^ b) & 0xFF]
    return f"{crc ^ 0xFFFFFFFF:08x}"


def say(**event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def code(error):
    if isinstance(error, KafkaException):
        error = error.args[0]
    if isinstance(error, KafkaError) and error.code() > 0 or isinstance(error, KafkaError) and error.code() == -1:
        return error.code()
    return str(error)


class Member:
    def __init__(self, conf, number):
        self.number, self.polls, self.held, self.running = number, 0, [], False  # nothing is kept while op run polls
        self.consumer = ShareConsumer(dict(conf, error_cb=lambda e: say(ev="error", where="event", code=code(e), text=str(e))))
        self.consumer.set_acknowledgement_commit_callback(self.committed)
        self.consumer.subscribe(os.environ["KSJ_TOPICS"].split(","))

    def committed(self, offsets, exception):
        for tp, of in offsets.items():
            self.result("ack", tp, exception, sorted(of))

    def result(self, what, tp, exception, offsets=None):
        say(ev="result", what=what, t=tp.topic, p=tp.partition, offs=offsets, ok=exception is None, code=0 if exception is None else code(exception),
            text="" if exception is None else str(exception), consumer=self.number)

    def poll(self, poll_ms, hold_ms=0):
        """The number of records that came, and whether the application is to pause."""
        stop, n = False, 0
        self.polls += 1
        try:
            for m in self.consumer.poll(poll_ms / 1000):
                if m.error():
                    say(ev="error", where="poll", code=code(m.error()), text=str(m.error()))
                    continue
                if n == 0:
                    self.held = []
                n += 1
                headers = m.headers() or []
                small = m.value() is None or len(m.value()) < 1 << 20  # a checksum in Python takes its time
                parts = [m.key(), m.value()] + [x for k, v in headers for x in (k.encode(), v)]
                say(ev="rec", t=m.topic(), p=m.partition(), o=m.offset(), dc=m.delivery_count(), h=crc32c(*parts) if small else "", poll=self.polls, consumer=self.number)
                if EXPLICIT:
                    stop |= self.obey(m, dict(headers))
        except Exception as e:  # whatever the client raises is what the application gets
            say(ev="error", where="poll", code=code(e), text=str(e))
            time.sleep(0.001)
        if hold_ms and n:
            time.sleep(hold_ms / 1000)
        return n, stop

    def obey(self, m, headers):
        word = headers.get("ksj", b"accept")
        if m.delivery_count() > 1:
            word = headers.get("ksj2", word)
        word = word.decode()
        if word == "hold" and not self.running:
            self.held.append(m)
            return False
        if word.startswith("slow:"):
            time.sleep(int(word[5:]) / 1000)
        if word == "renew":
            say(ev="unsupported", what="renew")
        self.consumer.acknowledge(m, TYPES.get(word, AcknowledgeType.ACCEPT))
        if word == "commit":
            self.commit("sync")
        return word == "stop"

    def ack(self, do, selected):
        if do not in TYPES:
            say(ev="unsupported", what="ack " + do)
            return
        n = 0
        for i, m in enumerate(self.held):
            if selected == "all":
                chosen = True
            elif isinstance(selected, str):
                _, every, rest = selected.split(":")
                chosen = i % int(every) == int(rest)
            else:
                chosen = [m.topic(), m.partition(), m.offset()] in selected
            if chosen:
                try:
                    self.consumer.acknowledge(m, TYPES[do])
                    n += 1
                except Exception as e:
                    say(ev="error", where="api", code=code(e), text=str(e))
        say(ev="acked", n=n)

    def commit(self, how):
        try:
            if how == "async":
                self.consumer.commit_async()
            elif how == "sync":
                for tp, error in self.consumer.commit_sync(30).items():
                    self.result("commit", tp, error)
        except Exception as e:
            say(ev="error", where="api", code=code(e), text=str(e))


def token(user, seconds):
    """An unsecured one that lasts from now on, and its end."""

    def part(x):
        return base64.urlsafe_b64encode(json.dumps(x).encode()).decode().rstrip("=")

    now = time.time()
    return part({"alg": "none"}) + "." + part({"sub": user, "iat": now, "exp": now + seconds}) + ".", now + seconds


def main():
    say(ev="hello", client="confluent-kafka-python", version=confluent_kafka.__version__, caps=["exp", "cg", "sasl", "tls"])
    kind = os.environ["KSJ_KIND"]
    if kind not in ("share", "consumer"):
        say(ev="unsupported", what="kind " + os.environ["KSJ_KIND"])
        return
    conf = {"bootstrap.servers": os.environ["KSJ_BOOTSTRAP"], "group.id": os.environ["KSJ_GROUP"]}
    settings = json.loads(os.environ["KSJ_PROPS"])
    known, topics, limit = SETTINGS, os.environ["KSJ_TOPICS"].split(","), 500
    if kind == "share":
        conf["share.acknowledgement.mode"] = os.environ["KSJ_ACK"]
    else:
        known, limit = {**SETTINGS, **group.SETTINGS}, settings.pop("max_poll_records", 500)
        topics = ["^" + t for t in topics] if settings.pop("regex", False) else topics
    if settings.get("sasl_mechanism") == "OAUTHBEARER":
        conf["oauth_cb"] = lambda _: token(settings["sasl_username"], settings["sasl_token_s"])
        del settings["sasl_username"], settings["sasl_password"], settings["sasl_token_s"]
    if "sasl_mechanism" in settings:
        conf["security.protocol"] = "SASL_PLAINTEXT"
    if "tls_ca" in settings:
        conf["security.protocol"] = "SSL"
    for name, value in settings.items():
        if name not in known:
            say(ev="unsupported", what=name)
            return
        conf[known[name]] = value
    ops = queue.Queue()

    def read():
        for line in sys.stdin:
            ops.put(json.loads(line))
        ops.put({"op": "end"})

    def member(number):
        if kind == "share":
            return Member(conf, number)
        return group.GroupMember(conf, number, topics, limit, sys.modules[__name__])

    threading.Thread(target=read, daemon=True).start()
    try:
        members = [member(0)]
    except Exception as e:
        say(ev="error", where="api", code=code(e), text=str(e), fatal=True)
        say(ev="unsupported", what=str(e))
        return
    running = None
    while True:
        try:
            o = ops.get(block=running is None)
        except queue.Empty:
            for m in members:
                m.running = True
                if m.poll(running["poll_ms"], running["hold_ms"])[1]:
                    running = None
                    break
            continue
        op, m = o["op"], members[0]
        if op == "end":
            os._exit(0)
        try:
            if op == "run":
                running = o
            elif op == "pause":
                running = None
            elif op == "poll":
                running = None
                m.running = False
                say(ev="polled", n=sum(m.poll(1000)[0] for _ in range(o["n"])))
            elif op == "ack":
                m.ack(o["do"], o["sel"])
            elif op == "commit":
                m.commit(o["how"])
            elif op == "subscribe":
                m.consumer.subscribe(o["topics"])
            elif op == "unsubscribe":
                m.consumer.unsubscribe()
            elif op == "second":
                members.append(member(len(members)))
            elif op == "close":
                times = o.get("times", 1)
                for x in members * times:
                    x.consumer.close()
                say(ev="closed", n=times)
                os._exit(0)
            else:
                say(ev="unsupported", what=op)
                continue
        except Exception as e:
            say(ev="error", where="api", code=code(e), text=str(e))
        if op in ("pause", "commit", "subscribe", "unsubscribe", "second"):
            say(ev="done", op=op)


main()
