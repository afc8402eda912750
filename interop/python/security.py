"""TLS, SASL and rules of the authorizer. The arguments are the addresses of the listeners PLAINTEXT, SASL_SSL and SSL, and the directory of the certificates."""

import os
import sys

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

import check

PLAIN, SASL_SSL, SSL, CERTIFICATES = sys.argv[1:5]
AUTHORITY = {"ssl.ca.location": os.path.join(CERTIFICATES, "ca.pem")}
ALICE, BOB = "User:alice", "User:CN=bob"


def login(mechanism, user, password):
    return {
        "bootstrap.servers": SASL_SSL,
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        **AUTHORITY,
    }


def alice(**more):
    return login("SCRAM-SHA-512", "alice", "alice-secret") | more


def bob(**more):
    own = {
        "bootstrap.servers": SSL,
        "security.protocol": "SSL",
        "ssl.certificate.location": os.path.join(CERTIFICATES, "bob.pem"),
        "ssl.key.location": os.path.join(CERTIFICATES, "bob.key"),
    }
    return own | AUTHORITY | more


def lets_in(config):
    check.that(AdminClient(config).list_topics(timeout=check.LIMIT).brokers, "no broker listed")


def refuses(config, code, what):
    """Requires that a client cannot connect, for a reason with this code."""
    told = []
    a = AdminClient(config | {"error_cb": told.append})
    check.eventually(what, lambda: (a.poll(0.1), [e.code() for e in told])[1], lambda codes: code in codes)


def rule(permission, principal, operation, kind, name, pattern=ResourcePatternType.LITERAL):
    return AclBinding(kind, name, pattern, principal, "*", operation, permission)


def allow(root, *args, **more):
    b = rule(AclPermissionType.ALLOW, *args, **more)
    root.create_acls([b])[b].result(check.LIMIT)


def deny(root, *args):
    b = rule(AclPermissionType.DENY, *args)
    root.create_acls([b])[b].result(check.LIMIT)
    return b


def produced(config, topic, value):
    """The error of a record, None where it is delivered."""
    told = []
    p = Producer(config)
    p.produce(topic, value, on_delivery=lambda e, _: told.append(e.code() if e else None))
    check.equal(0, p.flush(check.LIMIT), "records not delivered in time")
    return told[0]


def who_gets_in(root):
    check.step("who is not trusted, or gives a wrong password, is refused")
    refuses({"bootstrap.servers": SSL, "security.protocol": "SSL"}, KafkaError._SSL, "a broker that the client does not trust")
    refuses(login("PLAIN", "alice", "wrong"), KafkaError._AUTHENTICATION, "a wrong password, by PLAIN")
    refuses(login("SCRAM-SHA-256", "alice", "wrong"), KafkaError._AUTHENTICATION, "a wrong password, by SCRAM")
    check.step("the others get in")
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        lets_in(login(mechanism, "alice", "alice-secret"))
    lets_in(bob())
    check.step("a user who is made, and removed")
    carol = check.unique("carol")
    made = UserScramCredentialUpsertion(carol, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"carol-secret")
    root.alter_user_scram_credentials([made])[carol].result(check.LIMIT)
    lets_in(login("SCRAM-SHA-256", carol, "carol-secret"))
    removed = UserScramCredentialDeletion(carol, ScramMechanism.SCRAM_SHA_256)
    root.alter_user_scram_credentials([removed])[carol].result(check.LIMIT)
    refuses(login("SCRAM-SHA-256", carol, "carol-secret"), KafkaError._AUTHENTICATION, "a user who is removed")


def who_may_write(root, topic):
    check.step("only who may write writes")
    check.equal(KafkaError.TOPIC_AUTHORIZATION_FAILED, produced(bob(), topic, "one"), "a record of who may not write")
    allow(root, BOB, AclOperation.WRITE, ResourceType.TOPIC, topic)
    check.equal(None, produced(bob(), topic, "one"), "a record of who may")


def polled(c):
    got = c.poll(0.2)
    if got is None:
        return []
    return list(got) if isinstance(c, ShareConsumer) else [got]


def consumed(c, n):
    values = []

    def more():
        for m in polled(c):
            if m.error():
                raise KafkaException(m.error())
            values.append(m.value())
        return values

    return check.eventually(f"{n} records", more, lambda got: len(got) >= n)


def refused(c, code, what):
    """Requires that polls bring this error."""

    def told():
        try:
            return [m.error().code() for m in polled(c) if m.error()]
        except KafkaException as e:
            return [e.args[0].code()]

    check.eventually(what, told, lambda codes: code in codes)


def who_may_read(root, topic):
    check.step("only who may read reads, in a group that it may be in")
    ours = check.unique("readers")
    settings = {"group.id": f"{ours}-ordinary", "auto.offset.reset": "earliest"}
    reader = Consumer(alice(**settings))
    reader.subscribe([topic])
    refused(reader, KafkaError.GROUP_AUTHORIZATION_FAILED, "a group that alice may not be in")
    reader.close()
    allow(root, ALICE, AclOperation.READ, ResourceType.GROUP, ours, pattern=ResourcePatternType.PREFIXED)
    allow(root, ALICE, AclOperation.READ, ResourceType.TOPIC, topic)
    reader = Consumer(alice(**settings))
    reader.subscribe([topic])
    check.equal([b"one"], consumed(reader, 1), "values")
    reader.close()

    check.step("a share group needs the same")
    share = f"{ours}-share"
    check.share_group_from_earliest(root, share)
    with ShareConsumer(alice(**{"group.id": share})) as c:
        c.subscribe([topic])
        check.equal([b"one"], consumed(c, 1), "values")

    check.step("a rule that denies wins")
    no = deny(root, ALICE, AclOperation.READ, ResourceType.TOPIC, topic)
    reader = Consumer(alice(**settings | {"group.id": f"{ours}-denied"}))
    reader.subscribe([topic])
    refused(reader, KafkaError.TOPIC_AUTHORIZATION_FAILED, "a topic that is denied")
    reader.close()
    f = AclBindingFilter(no.restype, no.name, no.resource_pattern_type, no.principal, no.host, no.operation, no.permission_type)
    check.equal([no], list(root.delete_acls([f])[f].result(check.LIMIT)), "rules that were removed")


def body(_):
    root = check.admin(PLAIN)
    topic = check.unique("python-security")
    check.create_topic(root, topic, 1)
    who_gets_in(root)
    who_may_write(root, topic)
    who_may_read(root, topic)


check.main("python security", body)
