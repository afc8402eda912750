package sharecoordinator

import (
	"encoding/binary"
	"errors"
	"fmt"

	"kshare/protocol"
)

// Record is a record of __share_group_state: a snapshot, an update, or with neither a tombstone.
type Record struct {
	Key      Key
	Snapshot *Snapshot
	Update   *UpdateRecord
}

// IsEmpty tells that there is nothing to append.
func (r *Record) IsEmpty() bool { return r.Key == Key{} }

// IsTombstone tells that the record removes the share partition's state.
func (r *Record) IsTombstone() bool { return r.Snapshot == nil && r.Update == nil }

// Snapshot is the whole state of a share partition (ShareSnapshotValue.json).
type Snapshot struct {
	State
	SnapshotEpoch   int32
	CreateTimestamp int64 // ms
	WriteTimestamp  int64 // ms; what is written again unchanged keeps its CreateTimestamp
}

// UpdateRecord is a change since the last snapshot (ShareUpdateValue.json).
type UpdateRecord struct {
	SnapshotEpoch         int32
	LeaderEpoch           int32 // -1: unchanged
	StartOffset           int64 // -1: unchanged
	DeliveryCompleteCount int32
	Batches               []Batch
}

// Types of records, which begin their keys (ShareCoordinator's CoordinatorRecordType).
const (
	snapshotType int16 = 0
	updateType   int16 = 1
)

// batchSize is the least number of bytes of an encoded batch: two offsets, state, count and an empty tag section.
const batchSize = 8 + 8 + 1 + 2 + 1

// Encode returns the record's key and value in Kafka's own format; a tombstone's value is nil.
func (r *Record) Encode() (key, value []byte) {
	kind := snapshotType
	if r.Update != nil {
		kind = updateType
	}
	key = make([]byte, 0, 2+2+len(r.Key.Group)+16+4)
	key = binary.BigEndian.AppendUint16(key, uint16(kind))
	key = binary.BigEndian.AppendUint16(key, uint16(len(r.Key.Group)))
	key = append(key, r.Key.Group...)
	key = append(key, r.Key.Topic[:]...)
	key = binary.BigEndian.AppendUint32(key, uint32(r.Key.Partition))

	e := protocol.Encoder{Flexible: true}
	switch {
	case r.Snapshot != nil:
		s := r.Snapshot
		e.Out = make([]byte, 0, 64+batchSize*len(s.Batches))
		e.Int16(0) // version
		e.Int32(s.SnapshotEpoch)
		e.Int32(s.StateEpoch)
		e.Int32(s.LeaderEpoch)
		e.Int64(s.StartOffset)
		e.Int64(s.CreateTimestamp)
		e.Int64(s.WriteTimestamp)
		encodeBatches(&e, s.Batches, s.DeliveryCompleteCount)
	case r.Update != nil:
		u := r.Update
		e.Out = make([]byte, 0, 48+batchSize*len(u.Batches))
		e.Int16(0) // version
		e.Int32(u.SnapshotEpoch)
		e.Int32(u.LeaderEpoch)
		e.Int64(u.StartOffset)
		encodeBatches(&e, u.Batches, u.DeliveryCompleteCount)
	}
	return key, e.Out
}

func encodeBatches(e *protocol.Encoder, batches []Batch, deliveryCompleteCount int32) {
	e.ArrayLen(len(batches))
	for _, b := range batches {
		e.Int64(b.FirstOffset)
		e.Int64(b.LastOffset)
		e.Int8(b.State)
		e.Int16(b.DeliveryCount)
		encodeStaged(e, &b)
	}
	if deliveryCompleteCount == -1 { // the tag's default
		e.EndTags()
		return
	}
	e.Uvarint(1)
	e.Tag(0, func() { e.Int32(deliveryCompleteCount) })
}

var errShort = errors.New("the record is cut short")

// ErrUnknownType is the error of records that a later Kafka may have written, which are passed over (CoordinatorLoaderImpl).
var ErrUnknownType = errors.New("share state record of unknown type")

// Decode reads a record of __share_group_state. A nil value is a tombstone. A record that Kafka 4.4 does not know is ErrUnknownType; after any other error
// nothing of the partition may be served.
func Decode(key, value []byte) (Record, error) {
	d := decoder{b: key}
	kind := d.int16()
	if d.err != nil {
		return Record{}, fmt.Errorf("key of a share state record: %w", d.err)
	}
	if kind != snapshotType && kind != updateType {
		return Record{}, fmt.Errorf("%w %d", ErrUnknownType, kind)
	}
	r := Record{}
	r.Key.Group = string(d.take(int(d.int16())))
	copy(r.Key.Topic[:], d.take(16))
	r.Key.Partition = d.int32()
	if d.err != nil {
		return Record{}, fmt.Errorf("key of a share state record: %w", d.err)
	}
	switch {
	case value == nil && kind == updateType:
		return Record{}, fmt.Errorf("share state record of %s: an update without a value", r.Key)
	case value == nil:
		return r, nil
	}
	d = decoder{b: value}
	if version := d.int16(); version != 0 {
		return Record{}, fmt.Errorf("share state record of %s has the unknown version %d", r.Key, version)
	}
	if kind == snapshotType {
		s := &Snapshot{SnapshotEpoch: d.int32()}
		s.StateEpoch, s.LeaderEpoch, s.StartOffset = d.int32(), d.int32(), d.int64()
		s.CreateTimestamp, s.WriteTimestamp = d.int64(), d.int64()
		s.Batches, s.DeliveryCompleteCount = d.batches()
		r.Snapshot = s
	} else {
		u := &UpdateRecord{SnapshotEpoch: d.int32(), LeaderEpoch: d.int32(), StartOffset: d.int64()}
		u.Batches, u.DeliveryCompleteCount = d.batches()
		r.Update = u
	}
	if d.err != nil {
		return Record{}, fmt.Errorf("share state record of %s: %w", r.Key, d.err)
	}
	return r, nil
}

// decoder reads a record's fields; after an error everything is zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.err = errShort
		d.b = nil
		return make([]byte, max(0, min(n, 16)))
	}
	t := d.b[:n]
	d.b = d.b[n:]
	return t
}

func (d *decoder) int8() int8   { return int8(d.take(1)[0]) }
func (d *decoder) int16() int16 { return int16(binary.BigEndian.Uint16(d.take(2))) }
func (d *decoder) int32() int32 { return int32(binary.BigEndian.Uint32(d.take(4))) }
func (d *decoder) int64() int64 { return int64(binary.BigEndian.Uint64(d.take(8))) }

func (d *decoder) uvarint() int {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > 1<<31 {
		d.err = errShort
		d.b = nil
		return 0
	}
	d.b = d.b[n:]
	return int(v)
}

func (d *decoder) batches() ([]Batch, int32) {
	n := d.uvarint() - 1
	if n > len(d.b)/batchSize {
		d.err = errShort
		return nil, -1
	}
	var batches []Batch
	for range n {
		b := Batch{FirstOffset: d.int64(), LastOffset: d.int64(), State: d.int8(), DeliveryCount: d.int16()}
		if b.State == txPending {
			b.Staged = NoStaged
		}
		d.tags(func(tag int, value []byte) { b.Staged.decode(tag, value) })
		batches = append(batches, b)
	}
	count := int32(-1)
	d.tags(func(tag int, value []byte) {
		if tag == 0 && len(value) == 4 {
			count = int32(binary.BigEndian.Uint32(value))
		}
	})
	return batches, count
}

// tags calls f for each tagged field of a section.
func (d *decoder) tags(f func(tag int, value []byte)) {
	for n := d.uvarint(); n > 0 && d.err == nil; n-- {
		tag := d.uvarint()
		f(tag, d.take(d.uvarint()))
	}
}
