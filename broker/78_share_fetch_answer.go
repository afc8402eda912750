package broker

import (
	"kshare/protocol"
	"kshare/sharepartition"
)

// shareFetchAnswer is the answer to a ShareFetch, encoded by hand because the records of a log are sent from where they lie.
type shareFetchAnswer struct {
	errorCode     int16
	lockTimeoutMs int32
	topics        []shareFetchTopic
	nodes         []*endpoint
	size          int // record bytes of all partitions

	places map[[16]byte]int // of topics in topics, where there is more than one
}

// topic is the entry of a topic, which is added where there is none.
func (a *shareFetchAnswer) topic(id [16]byte) *shareFetchTopic {
	n := len(a.topics)
	if n > 0 && a.topics[n-1].id == id {
		return &a.topics[n-1]
	}
	if at, ok := a.places[id]; ok {
		return &a.topics[at]
	}
	if n == 1 {
		a.places = map[[16]byte]int{a.topics[0].id: 0}
	}
	if n > 0 {
		a.places[id] = n
	}
	a.topics = append(a.topics, shareFetchTopic{id: id})
	return &a.topics[n]
}

type shareFetchTopic struct {
	id         [16]byte
	partitions []shareFetchResult
}

// shareFetchResult is what a ShareFetch says of one partition.
type shareFetchResult struct {
	index        int32
	errorCode    int16
	errorMessage *string
	acknowledged bool // the request had acknowledgements for it
	ackCode      int16
	ackMessage   *string
	leader       *leaderHint // names the current leader after an error that a leader change explains
	records      [][]byte
	size         int
	acquired     []sharepartition.AcquiredRange
}

// AppendTo implements answer.
func (a *shareFetchAnswer) AppendTo(b []byte) []byte {
	e := protocol.Encoder{Out: b, Flexible: true}
	a.encode(&e)
	return e.Out
}

// AppendSpliced implements splicedAnswer.
func (a *shareFetchAnswer) AppendSpliced(b []byte) ([]byte, []protocol.Splice) {
	e := protocol.Encoder{Out: b, Flexible: true, Splicing: a.size >= protocol.SpliceFrom}
	a.encode(&e)
	return e.Out, e.Splices
}

func (a *shareFetchAnswer) encode(e *protocol.Encoder) {
	e.Int32(0) // throttle time
	e.Int16(a.errorCode)
	e.NullableString(nil)
	e.Int32(a.lockTimeoutMs)
	e.ArrayLen(len(a.topics))
	for i := range a.topics {
		t := &a.topics[i]
		e.UUID(t.id)
		e.ArrayLen(len(t.partitions))
		for j := range t.partitions {
			t.partitions[j].encode(e)
		}
		e.EndTags()
	}
	e.ArrayLen(len(a.nodes))
	for _, n := range a.nodes {
		encodeNode(e, n)
	}
	e.EndTags()
}

func (r *shareFetchResult) encode(e *protocol.Encoder) {
	e.Int32(r.index)
	e.Int16(r.errorCode)
	e.NullableString(r.errorMessage)
	e.Int16(r.ackCode)
	e.NullableString(r.ackMessage)
	encodeShareLeader(e, r.leader)
	e.Records(r.records, r.size) // never null: a Java client could not read the answer
	e.ArrayLen(len(r.acquired))
	for _, a := range r.acquired {
		e.Int64(a.FirstOffset)
		e.Int64(a.LastOffset)
		e.Int16(a.DeliveryCount)
		e.EndTags()
	}
	e.EndTags()
}

// encodeShareLeader appends a CurrentLeader: 0 and 0, as Kafka, where there is nothing to say.
func encodeShareLeader(e *protocol.Encoder, hint *leaderHint) {
	if hint == nil {
		hint = &leaderHint{}
	}
	e.Int32(hint.leader)
	e.Int32(hint.epoch)
	e.EndTags()
}
