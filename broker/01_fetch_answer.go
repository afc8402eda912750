package broker

import "kshare/protocol"

// fetchAnswer is the answer to a Fetch, encoded by hand because the records of a log are sent from where they lie.
type fetchAnswer struct {
	version   int16
	errorCode int16
	sessionID int32
	topics    []fetchAnswerTopic
	nodes     []*endpoint // where the leaders that partitions name can be reached (v16+)
	size      int         // record bytes of all partitions
}

type fetchAnswerTopic struct {
	name       string
	id         [16]byte
	partitions []fetchResult
}

// fetchResult is what a Fetch found in one partition.
type fetchResult struct {
	index            int32
	errorCode        int16
	highWatermark    int64
	lastStableOffset int64
	logStartOffset   int64
	aborted          []abortedTransaction // nil where the reader is not read_committed
	diverging        *epochEnd            // v12+
	leader           *leaderHint          // names the current leader (v16+)
	records          [][]byte
	size             int
	older            bool // the records are not of the active segment, which there is something in too
}

type abortedTransaction struct{ producerID, firstOffset int64 }

// epochEnd is a leader epoch and the offset at which it ended.
type epochEnd struct {
	epoch  int32
	offset int64
}

// failedFetch is the result for a partition that cannot be read.
func failedFetch(index int32, code int16) fetchResult {
	return fetchResult{index: index, errorCode: code, highWatermark: -1, lastStableOffset: -1, logStartOffset: -1}
}

// AppendTo implements answer.
func (a *fetchAnswer) AppendTo(b []byte) []byte {
	e := protocol.Encoder{Out: b, Flexible: a.version >= 12}
	a.encode(&e)
	return e.Out
}

// AppendSpliced implements splicedAnswer.
func (a *fetchAnswer) AppendSpliced(b []byte) ([]byte, []protocol.Splice) {
	e := protocol.Encoder{Out: b, Flexible: a.version >= 12, Splicing: a.size >= protocol.SpliceFrom}
	a.encode(&e)
	return e.Out, e.Splices
}

func (a *fetchAnswer) encode(e *protocol.Encoder) {
	e.Int32(0) // throttle time
	if a.version >= 7 {
		e.Int16(a.errorCode)
		e.Int32(a.sessionID)
	}
	e.ArrayLen(len(a.topics))
	for i := range a.topics {
		t := &a.topics[i]
		if a.version >= 13 {
			e.UUID(t.id)
		} else {
			e.String(t.name)
		}
		e.ArrayLen(len(t.partitions))
		for j := range t.partitions {
			a.encodePartition(e, &t.partitions[j])
		}
		e.EndTags()
	}
	if !e.Flexible {
		return
	}
	if a.version < 16 || len(a.nodes) == 0 {
		e.EndTags()
		return
	}
	e.Uvarint(1)
	e.Tag(0, func() {
		e.ArrayLen(len(a.nodes))
		for _, n := range a.nodes {
			encodeNode(e, n)
		}
	})
}

func (a *fetchAnswer) encodePartition(e *protocol.Encoder, p *fetchResult) {
	e.Int32(p.index)
	e.Int16(p.errorCode)
	e.Int64(p.highWatermark)
	e.Int64(p.lastStableOffset)
	if a.version >= 5 {
		e.Int64(p.logStartOffset)
	}
	if p.aborted == nil {
		e.ArrayLen(-1)
	} else {
		e.ArrayLen(len(p.aborted))
	}
	for _, t := range p.aborted {
		e.Int64(t.producerID)
		e.Int64(t.firstOffset)
		e.EndTags()
	}
	if a.version >= 11 {
		e.Int32(-1) // preferred read replica
	}
	e.Records(p.records, p.size)
	if !e.Flexible {
		return
	}
	tags := uint32(0)
	leader := p.leader != nil && *p.leader != noHint && a.version >= 16
	if p.diverging != nil {
		tags++
	}
	if leader {
		tags++
	}
	e.Uvarint(tags)
	if p.diverging != nil {
		e.Tag(0, func() {
			e.Int32(p.diverging.epoch)
			e.Int64(p.diverging.offset)
			e.EndTags()
		})
	}
	if leader {
		e.Tag(1, func() {
			e.Int32(p.leader.leader)
			e.Int32(p.leader.epoch)
			e.EndTags()
		})
	}
}

// encodeNode appends a NodeEndpoints entry.
func encodeNode(e *protocol.Encoder, n *endpoint) {
	e.Int32(n.id)
	e.String(n.host)
	e.Int32(n.port)
	e.NullableString(nil)
	e.EndTags()
}
