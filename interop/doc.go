// Package interop runs real clients of other projects and languages against kshare: Apache Kafka's Java clients and
// command line tools, franz-go with kadm and kgo's own tests, confluent-kafka for Python, kafkajs, and krafka for Rust;
// and the clients for KIP-1289, which no project has yet: the example of package shareclient, and kshare.kip1289 in Java.
//
// Its tests run only when KSHARE_INTEROP is set, since they need JDK 17, Maven, Python, Node and Rust, and fetch the
// pinned clients once. With KSHARE_BOOTSTRAP=host:port they run against that broker instead of a kshare of their own;
// it must have one node, auto.create.topics.enable=false and group.share.min.record.lock.duration.ms=1000.
//
// Each program takes the bootstrap address as its argument, makes topics and groups of its own, prints what it does
// and ends with PASS and status 0, or FAIL and another. Those that drive a kshare over its control interface, by the
// examples of the directory examples, take the path of the binary instead and start one of their own.
package interop
