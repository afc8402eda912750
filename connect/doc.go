// Package connect runs sink connectors in share groups (KIP-1302, which is proposed only): a Go counterpart of Kafka Connect's worker whose tasks are members of a
// share group, so that there may be more of them than partitions and none has to wait for another. docs/kip-1302.md has what the KIP leaves open and what
// is decided here.
//
// A Worker runs connectors, each a SinkConnector with a number of tasks. A task polls, converts and transforms, puts, acknowledges and commits:
//
//	Put returned          its records are accepted, once Flush has returned too
//	RetriableError        they are released, and delivered again
//	any other error       the records that cause it are rejected
//
// With exactly.once.support=required what a task writes and what it acknowledges are one transaction (KIP-1289). Connectors with another group.protocol than share are
// members of an ordinary consumer group and may run in the same worker.
//
// Time is package time's alone: in a testing/synctest bubble a whole worker runs on virtual time.
package connect
