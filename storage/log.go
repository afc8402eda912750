// Package storage keeps what a cluster must not forget: the record logs of its partitions and its metadata.
//
// There are two stores behind one interface. Memory keeps everything in chunks of memory and lives as long as
// the process. Directory keeps users' records in segment files and the internal topics and metadata in pebble,
// and survives a kill of the process at any moment.
//
// A store has no lock of its own for its callers: one goroutine at a time uses a Store and its Logs, which the
// broker's lock ensures. Only Commit.Wait runs beside them. Slices that Read returns are never written again,
// so they may be read without the lock.
package storage

import (
	"errors"
	"fmt"
	"slices"

	"kshare/protocol"
)

// ErrOutOfRange is returned by Read for an offset below StartOffset or above EndOffset.
var ErrOutOfRange = errors.New("offset is outside the log")

// PartitionID names a log. The topic is named by its id, so a topic made again under the same name starts empty.
type PartitionID struct {
	Topic     [16]byte
	Partition int32
}

// Batch is where a batch of a log lies in offsets and time: what is known of it without reading it.
type Batch struct {
	BaseOffset   int64
	LastOffset   int64
	MaxTimestamp int64 // ms
	LeaderEpoch  int32
	Size         int32 // bytes
}

// Segment is a part of a log that retention and compaction deal with as a whole.
type Segment struct {
	BaseOffset     int64 // at or below that of its first batch
	Size           int64 // bytes of its batches, those too that the log's start has passed
	FirstTimestamp int64 // max timestamp of its first batch, ms; -1 for none
	MaxTimestamp   int64 // the largest of all its batches, ms; -1 for none
}

// Note takes in a batch that is put behind the segment's last.
func (s *Segment) Note(b *Batch) {
	if s.Size == 0 {
		s.FirstTimestamp, s.MaxTimestamp = b.MaxTimestamp, -1
	}
	s.Size += int64(b.Size)
	s.MaxTimestamp = max(s.MaxTimestamp, b.MaxTimestamp)
}

// Log is the record log of one partition: batches of magic 2 in offset order. They lie in segments, of which the last, the active one, is appended to. An
// internal log need have none.
// Invariant: StartOffset() <= EndOffset(); every batch has LastOffset >= StartOffset().
type Log interface {
	// Append adds a batch at the end. Its header names its base offset, which is at least EndOffset, and the
	// bytes belong to the log from now on. On an error the log is as it was before.
	Append(header *protocol.BatchHeader, batch []byte) error
	// StartOffset is the first offset that can be read.
	StartOffset() int64
	// EndOffset is the offset that the next record gets.
	EndOffset() int64
	// SetStartOffset moves the start to an offset in [StartOffset(), EndOffset()]; batches that lie wholly
	// below it are dropped. An offset inside a batch leaves that batch readable.
	SetStartOffset(offset int64) error
	// Truncate drops every batch whose last offset is at or above the offset. The log then ends behind the last
	// batch left, or at its start offset where none is.
	Truncate(offset int64) error
	// Read returns whole batches, from the one that holds offset (or the first behind it where offset lies in a
	// hole) up to but not including the first whose base offset is at or above end. They take no more than
	// maxBytes, except that the first is returned whatever its size where atLeastOne is set. Batches of one slice
	// follow each other in it without a gap. offset == EndOffset() reads nothing.
	Read(offset, end int64, maxBytes int, atLeastOne bool) ([][]byte, error)
	// Batches calls f for the batches from the one that holds offset (or the first behind it) on, in order, until
	// f returns false. f may not change the log.
	Batches(offset int64, f func(Batch) bool) error
	// Size is the number of bytes that the log's batches take.
	Size() int64
	// Roll has the next batch begin a segment. A store may begin one earlier by itself.
	Roll()
	// Active is the active segment; its Size is 0 where there is none.
	Active() Segment
	// SegmentEnd is where the segment ends that holds offset, or the first batch behind it: the next one's BaseOffset, math.MaxInt64 for the active one.
	SegmentEnd(offset int64) int64
	// Segments are all segments in order. Those whose batches the start has passed are gone.
	Segments() []Segment
	// Replace puts batches in place of the segments that begin in [base, end), which are some of the log's and do not include the active one, as one
	// segment; without batches those segments go. The batches lie in [base, end) too, and the log's offsets stay as they are. A crash leaves either the
	// segments, the first of them perhaps gone where there are no batches, or the batches. On an error either holds too.
	Replace(base, end int64, batches [][]byte) error
}

// Replaced finds the segments that a Log.Replace means.
func Replaced(segments []Segment, base, end int64) (from, to int, err error) {
	at := func(offset int64) int {
		return slices.IndexFunc(segments, func(s Segment) bool { return s.BaseOffset == offset })
	}
	if from, to = at(base), at(end); from < 0 || to <= from {
		return 0, 0, fmt.Errorf("replace: no segments of the log begin at %d and end at %d", base, end)
	}
	return from, to, nil
}

// Commit is a write that may not be durable yet.
type Commit interface {
	// Wait returns once everything appended before the Commit was taken survives what the store's flush policy
	// promises, or with the error that keeps it from doing so. It may be called once the broker's lock is left.
	Wait() error
}

// Store keeps the logs and the metadata of one cluster.
type Store interface {
	// OpenLog opens a partition's log, making it where there is none. An internal log is kept where small
	// writes are cheap and durable in order; a user's log is kept where large ones are.
	OpenLog(id PartitionID, internal bool) (Log, error)
	// Logs lists logs that hold data, in any order: all of users, at least.
	Logs() []PartitionID
	// DeleteLog removes a log and all its data. A log that is not there is no error.
	DeleteLog(id PartitionID) error
	// PutMetadata stores a value under a key; an empty value removes the key.
	PutMetadata(key string, value []byte) error
	// Metadata calls f for each stored key that begins with the prefix, in the order of the keys' bytes. f may
	// neither keep nor change the value, nor put metadata.
	Metadata(prefix string, f func(key string, value []byte) error) error
	// Commit stands for everything appended and put so far. It is nil where there is nothing to wait for.
	Commit() Commit
	// Push hands what internal logs and metadata were given so far to the operating system. Other logs hand theirs over at once: what a kill of the
	// process may not leave without the internal record that it follows from is appended behind a Push.
	Push() error
	// Close writes what is left and closes the store. Neither it nor its logs may be used afterwards.
	Close() error
}
