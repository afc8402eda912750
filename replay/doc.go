// Package replay plays recorded sessions against a broker and compares what it answers with what was recorded.
//
// The recordings in testdata/vectors are of Apache Kafka 4.4.0, frame by frame. [Play] does what their recorder
// did, in the same order and at the same times: it puts the lines of a session back into the order in which their
// requests were sent, sends each at its time over the connection that the recorder used, and does in between what
// was not recorded ([Scripts]): polling until a topic has a leader, joining a share group, closing a connection.
// In a testing/synctest bubble with an in-memory network, time jumps whenever everything waits.
//
// What a broker makes up differs from run to run. Ids are mapped: a recorded one stands for one of ours from the
// answer that shows it first, in every later request and answer, one to one. Everything else is compared as it
// stands but for [Rules], which are few and counted; the comparison knows null from empty, and an answer must be
// encoded the way Kafka encodes it. Waits are compared by the clock (judge.go has the rule).
//
// Each step agrees or is listed in divergences.txt with its fields and a class of reasons; docs/divergences.md is
// made of it. To look into a step:
//
//	go test ./replay -run TestReplay/topics -v -step create-again-cdef   # both sides as a difference of JSON
//	KSHARE_REPLAY=all go test ./replay -run TestReplay -v               # also the sessions outside the gate
//	go test ./replay -run TestBroker -v -broker HOST:PORT -session share # against another broker, in real time
//	go test ./replay -update                                            # write docs/divergences.md
//
// The harness itself is proven by playing each session against its own recording with other ids, by altering
// every field of the recorded answers, and by playing sessions against Apache Kafka.
package replay
