// Package logvalidator decides what a Produce request's records become in a partition's log: which batches are refused
// and with what words, what the broker changes in an accepted one, and whether a producer's sequence numbers, epoch and
// transaction allow it.
//
// Validate looks at the bytes alone; ProducerState is what a partition remembers of its producers. Both are pure: time is
// an argument, nothing is written, and a caller appends what it gets back.
//
// Sources: storage/src/main/java/org/apache/kafka/storage/internals/log/{LogValidator,UnifiedLog,ProducerAppendInfo,
// ProducerStateEntry,ProducerStateManager}.java, clients/src/main/java/org/apache/kafka/common/requests/ProduceRequest.java.
package logvalidator
