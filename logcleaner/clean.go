package logcleaner

import (
	"encoding/binary"
	"io"

	"kshare/protocol"
)

// Producer is the last that a producer has written to a partition.
type Producer struct {
	LastOffset int64 // of its last data batch, -1 where that is not known
	Epoch      int16
}

// Aborted is an aborted transaction of the partition.
type Aborted struct {
	ProducerID, FirstOffset int64
}

// Cleaning is one round of cleaning. First Map is called for every batch of the dirty part, in order, then Clean for all below its end.
type Cleaning struct {
	From, To          int64 // the dirty part: offsets
	Now               int64 // ms
	DeleteRetentionMs int64
	MaxRecordBody     int // bytes, of a compressed batch
	Producers         map[int64]Producer
	// Aborted are the aborted transactions that begin below To, by where they begin.
	Aborted []Aborted

	last    map[string]int64 // the last offset of each key in the dirty part
	mapped  *transactions
	cleaned *transactions
	builder protocol.BatchBuilder
	keep    []bool
}

// Kept are the aborted transactions that readers are still to be told of.
func (c *Cleaning) Kept() []Aborted {
	if c.cleaned == nil {
		return nil
	}
	return c.cleaned.kept
}

// Map notes the keys of a batch. Those of aborted transactions do not count.
func (c *Cleaning) Map(h *protocol.BatchHeader, batch []byte) error {
	if c.mapped == nil {
		c.last, c.mapped = map[string]int64{}, follow(c.Aborted)
	}
	if discard := c.mapped.read(h, batch); discard || h.IsControl() {
		return nil
	}
	return c.each(h, batch, func(r *protocol.Record) error {
		if offset := h.BaseOffset + int64(r.OffsetDelta); r.KeySize >= 0 && offset >= c.From {
			c.last[string(r.Key)] = offset
		}
		return nil
	})
}

// each calls f for the records of a batch.
func (c *Cleaning) each(h *protocol.BatchHeader, batch []byte, f func(*protocol.Record) error) error {
	records, err := protocol.OpenRecords(h, batch, c.MaxRecordBody)
	if err != nil {
		return err
	}
	defer records.Close()
	var r protocol.Record
	for {
		if err := records.Next(&r); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := f(&r); err != nil {
			return err
		}
	}
}

// Clean returns what is left of a batch: itself, a smaller one, one without records, or nothing.
func (c *Cleaning) Clean(h *protocol.BatchHeader, batch []byte) ([]byte, error) {
	if c.cleaned == nil {
		c.cleaned = follow(c.Aborted)
	}
	discard := c.cleaned.read(h, batch)
	emptyTransaction := discard && h.IsControl() // the marker of a transaction of which no record is left
	if horizon := h.DeleteHorizon(); h.IsControl() && (horizon < 0 || horizon > c.Now) {
		discard = false
	}
	stays := c.isLast(h) || h.LastOffset()+1 == c.To
	if discard && !stays {
		return nil, nil
	}
	kept, tombstones := 0, false
	c.keep = c.keep[:0]
	err := c.each(h, batch, func(r *protocol.Record) error {
		keep := !discard && (h.IsControl() || c.keeps(h, r))
		c.keep = append(c.keep, keep)
		if keep {
			kept++
			tombstones = tombstones || r.ValueSize < 0
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	horizon := h.DeleteHorizon()
	marks := horizon < 0 && (tombstones || emptyTransaction)
	switch {
	case kept == 0 && stays:
		return emptyBatch(h), nil
	case kept == 0:
		return nil, nil
	case kept == len(c.keep) && !marks:
		return batch, nil
	case marks:
		horizon = c.Now + c.DeleteRetentionMs
	}
	return c.rebuild(h, batch, horizon)
}

// isLast tells whether a batch is the last of its producer, which tells its sequence or, if it is a marker, its epoch.
func (c *Cleaning) isLast(h *protocol.BatchHeader) bool {
	p, ok := c.Producers[h.ProducerID]
	switch {
	case h.ProducerID < 0 || !ok:
		return false
	case p.LastOffset >= 0:
		return h.LastOffset() == p.LastOffset
	}
	return h.IsControl() && h.ProducerEpoch == p.Epoch
}

// keeps tells whether a record stays: it is the last one of its key, and no tombstone whose time is over.
func (c *Cleaning) keeps(h *protocol.BatchHeader, r *protocol.Record) bool {
	offset := h.BaseOffset + int64(r.OffsetDelta)
	if offset >= c.To {
		return true
	}
	if r.KeySize < 0 {
		return false
	}
	if last, ok := c.last[string(r.Key)]; ok && last > offset {
		return false
	}
	horizon := h.DeleteHorizon()
	return r.ValueSize >= 0 || horizon < 0 || c.Now < horizon
}

// rebuild makes a batch of the records that stay. Offsets, sequence and codec are those of before; a horizon of 0 or more is set.
func (c *Cleaning) rebuild(h *protocol.BatchHeader, batch []byte, horizon int64) ([]byte, error) {
	b := &c.builder
	*b = protocol.BatchBuilder{
		Compression: protocol.DefaultCompression(h.Compression()), BaseOffset: h.BaseOffset, LeaderEpoch: h.PartitionLeaderEpoch,
		ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, BaseSequence: h.BaseSequence,
		Transactional: h.IsTransactional(), Control: h.IsControl(), LogAppendTime: -1, DeleteHorizon: horizon,
	}
	if h.IsLogAppendTime() {
		b.LogAppendTime = h.MaxTimestamp
	}
	if err := b.Reset(nil); err != nil {
		return nil, err
	}
	i := 0
	err := c.each(h, batch, func(r *protocol.Record) error {
		i++
		if !c.keep[i-1] {
			return nil
		}
		b.SkipTo(r.OffsetDelta)
		return b.AppendRecord(h.RecordTimestamp(r), r)
	})
	if err != nil {
		return nil, err
	}
	b.SkipTo(h.LastOffsetDelta + 1)
	return b.Finish()
}

// emptyBatch is what stays of a batch without its records (DefaultRecordBatch.writeEmptyHeader).
func emptyBatch(h *protocol.BatchHeader) []byte {
	e := *h
	e.Attributes &= protocol.AttributeLogAppendTime | protocol.AttributeTransactional | protocol.AttributeControl
	e.Length, e.BaseTimestamp, e.NumRecords = protocol.BatchHeaderSize-12, -1, 0
	b := e.AppendTo(nil)
	binary.BigEndian.PutUint32(b[17:], protocol.BatchCRC(b))
	return b
}
