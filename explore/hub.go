package explore

import (
	"io"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"kshare"
	"kshare/protocol"
	"kshare/protocol/describe"
	"kshare/protocol/errorcode"
	"kshare/requestlog"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
)

// maxEventBytes bounds what the events of a session keep of messages, in bytes.
const maxEventBytes = 16 << 20

// stateTopic is the topic that share partitions keep their state in.
const stateTopic = "__share_group_state"

// hub is told what happens in a cluster and remembers the last of it. It may be used from several goroutines.
type hub struct {
	mu      sync.Mutex
	command int // of the events that come now
	events  []*happened
	first   uint64 // the number of events[0], or of the next event where there is none
	bytes   int
	count   uint64 // of what may have changed a view

	markers     tail[Marker]
	states      tail[stateRecord]
	deadLetters tail[DeadLetter]

	wakeup func()  // called after everything, without the lock, nil for nobody
	tracer *tracer // is told of what a trace holds, nil for nobody
}

// happened is an event with its message.
type happened struct {
	event  Event
	entry  *requestlog.Entry
	weight int
}

// stateRecord is a record of the state log as it stands there.
type stateRecord struct {
	partition int32
	offset    int64
	at        time.Time
	record    sharecoordinator.Record
}

// tail is the last MaxLog of a list that grows.
type tail[T any] struct {
	last  []T
	total int // also those that are forgotten
}

func (t *tail[T]) add(x T) {
	if t.total++; len(t.last) == MaxLog {
		t.last = append(t.last[:0], t.last[1:]...)
	}
	t.last = append(t.last, x)
}

func newHub() *hub { return &hub{first: 1} }

// lastEvent is the number of the last event.
func (h *hub) lastEvent() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last()
}

func (h *hub) last() uint64 { return h.first + uint64(len(h.events)) - 1 }

// changes counts what may have changed a view.
func (h *hub) changes() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// begin says which command is run from now on.
func (h *hub) begin(command int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.command = command
}

// Requested implements kshare.Follower.
func (h *hub) Requested(number uint64, e *requestlog.Entry) { h.happen(number, e, KindRequest) }

// Answered implements kshare.Follower.
func (h *hub) Answered(number uint64, e *requestlog.Entry) {
	if e.Outcome == requestlog.Answered {
		h.happen(number, e, KindAnswer)
	} else {
		h.happen(number, e, KindEnd)
	}
}

func (h *hub) happen(number uint64, e *requestlog.Entry, kind string) {
	x := &happened{entry: e, weight: e.Weight()}
	x.event = Event{Kind: kind, Request: number, Time: e.Arrived.UTC(), Node: e.Node, Connection: e.Connection, ClientID: clip(e.ClientID), API: e.API, Key: e.Key, Version: e.Version,
		Bytes: e.RequestBytes, Groups: []string{}, Members: []string{}, Partitions: []string{}, Errors: []string{}, Faults: e.Faults}
	if kind != KindRequest {
		x.event.Time, x.event.Bytes, x.event.Reason = e.Answered.UTC(), e.AnswerBytes, e.Reason
		x.event.TookMs = float64(e.Answered.Sub(e.Arrived).Microseconds()) / 1000
		if kind == KindEnd {
			x.event.Outcome = string(e.Outcome)
		}
	}
	if s := e.Subject; s != nil {
		x.event.Groups, x.event.Members = firstNames(s.Groups), firstNames(s.Members)
		x.event.Partitions = partitionNames(s.Topics)
	}
	h.mu.Lock()
	x.event.N, x.event.Command = h.first+uint64(len(h.events)), h.command
	h.events = append(h.events, x)
	h.bytes += x.weight
	forget := 0
	for n := len(h.events); n-forget > MaxEvents || h.bytes > maxEventBytes && n-forget > 1; forget++ {
		h.bytes -= h.events[forget].weight
		h.events[forget] = nil
	}
	h.events = h.events[forget:]
	h.first += uint64(forget)
	h.count++
	h.mu.Unlock()
	h.wake()
}

func (h *hub) wake() {
	if h.wakeup != nil {
		h.wakeup()
	}
}

// firstNames are the first names of a list, each once.
func firstNames(all []string) []string {
	names := []string{}
	for _, name := range all {
		if name = clip(name); len(names) < MaxNames && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// partitionNames are the first partitions of a request.
func partitionNames(topics []describe.Topic) []string {
	names := []string{}
	for _, t := range topics {
		name := clip(t.Name)
		if name == "" && t.ID != [16]byte{} {
			name = describe.UUIDText(t.ID)
		}
		if len(t.Partitions) == 0 && len(names) < MaxNames && !slices.Contains(names, name) {
			names = append(names, name)
		}
		for _, p := range t.Partitions {
			if x := name + "-" + strconv.Itoa(int(p)); len(names) < MaxNames && !slices.Contains(names, x) {
				names = append(names, x)
			}
		}
	}
	return names
}

// clip bounds a name that a client has given.
func clip(s string) string {
	const most = 300
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// Appended implements kshare.Follower.
func (h *hub) Appended(a *kshare.Appended) {
	h.mu.Lock()
	h.appended(a)
	if h.tracer != nil {
		h.tracer.appended(a, h.command)
	}
	h.count++
	h.mu.Unlock()
	h.wake()
}

func (h *hub) appended(a *kshare.Appended) {
	at := a.At.UTC()
	switch {
	case a.Header.IsControl():
		kind, epoch, ok := protocol.ParseEndTxnMarker(a.Header, a.Batch)
		if !ok {
			return
		}
		m := Marker{Topic: a.Topic, Partition: a.Partition, Offset: a.Header.BaseOffset, Time: at, ProducerID: a.Header.ProducerID, ProducerEpoch: a.Header.ProducerEpoch, Type: "ABORT", CoordinatorEpoch: epoch}
		if kind == protocol.ControlCommit {
			m.Type = "COMMIT"
		}
		h.markers.add(m)
	case a.Topic == stateTopic:
		eachRecord(a.Header, a.Batch, func(offset int64, r *protocol.Record) {
			if x, ok := decodeState(a, offset, r); ok {
				h.states.add(x)
			}
		})
	case a.DeadLetters:
		eachRecord(a.Header, a.Batch, func(offset int64, r *protocol.Record) {
			if d, ok := deadLetter(r); ok {
				d.Topic, d.Partition, d.Offset, d.Time = a.Topic, a.Partition, offset, at
				h.deadLetters.add(d)
			}
		})
	}
}

// decodeState reads a record of the state log.
func decodeState(a *kshare.Appended, offset int64, r *protocol.Record) (stateRecord, bool) {
	record, err := sharecoordinator.Decode(slices.Clone(r.Key), slices.Clone(r.Value))
	return stateRecord{a.Partition, offset, a.At.UTC(), record}, err == nil
}

// eachRecord calls f for each record of a batch that can be read.
func eachRecord(header *protocol.BatchHeader, batch []byte, f func(offset int64, r *protocol.Record)) {
	reader, err := protocol.OpenRecords(header, batch, maxBatch)
	if err != nil {
		return
	}
	defer reader.Close()
	var r protocol.Record
	for {
		if err := reader.Next(&r); err == io.EOF || err != nil {
			return
		}
		f(header.BaseOffset+int64(r.OffsetDelta), &r)
	}
}

// maxBatch bounds what a batch is decompressed to, in bytes.
const maxBatch = 16 << 20

// deadLetter is a record of a dead-letter queue, false where its headers are not those of one (KIP-1191).
func deadLetter(r *protocol.Record) (d DeadLetter, ok bool) {
	values := map[string]string{}
	for headers, n := r.Headers, r.NumHeaders; n > 0; n-- {
		var x protocol.Header
		var err error
		if x, headers, err = protocol.NextHeader(headers); err != nil {
			return d, false
		}
		values[string(x.Key)] = string(x.Value)
	}
	const prefix = "__dlq.errors."
	partition, err1 := strconv.ParseInt(values[prefix+"partition"], 10, 32)
	offset, err2 := strconv.ParseInt(values[prefix+"offset"], 10, 64)
	count, err3 := strconv.Atoi(values[prefix+"delivery.count"])
	if err1 != nil || err2 != nil || err3 != nil {
		return d, false
	}
	return DeadLetter{Group: values[prefix+"group"], SourceTopic: values[prefix+"topic"], SourcePartition: int32(partition), SourceOffset: offset, DeliveryCount: count,
		Reason: clip(values[prefix+"message"])}, true
}

// ShareChanged implements kshare.Follower.
func (h *hub) ShareChanged(s *kshare.ShareChange) {
	h.mu.Lock()
	h.count++
	if h.tracer != nil {
		h.tracer.shareChanged(s, h.command)
	}
	h.mu.Unlock()
	h.wake()
}

// find returns events above since, the newest limit of them, and how many above since are forgotten or beyond the limit.
func (h *hub) find(since uint64, limit int) (found []Event, last, lost uint64) {
	h.mu.Lock()
	from := max(since+1, h.first)
	last = h.last()
	if from+uint64(limit) <= last {
		from = last - uint64(limit) + 1
	}
	var all []*happened
	if from <= last {
		all = slices.Clone(h.events[from-h.first:])
	}
	h.mu.Unlock()
	found = make([]Event, len(all))
	for i, x := range all {
		found[i] = x.whole()
	}
	if since < last {
		lost = last - since - uint64(len(found))
	}
	return found, last, lost
}

// whole is the event with the errors of its answer.
func (x *happened) whole() Event {
	e := x.event
	if e.Kind != KindAnswer {
		return e
	}
	if p, err := x.entry.Answer(); err == nil && p != nil {
		e.Errors = errorNames(p)
		e.Refused = len(e.Errors) > 0
	}
	return e
}

// decoded returns an event with its message, false where it is forgotten or did not happen.
func (h *hub) decoded(n uint64) (d Decoded, ok bool) {
	h.mu.Lock()
	var x *happened
	if n >= h.first && n <= h.last() {
		x = h.events[n-h.first]
	}
	h.mu.Unlock()
	if x == nil {
		return d, false
	}
	d.Event = x.whole()
	d.LeftOut = x.entry.LeftOut()
	if d.Kind == KindRequest {
		if q, err := x.entry.Request(); err != nil {
			d.Undecodable = err.Error()
		} else {
			d.Fields = describe.Message(q)
		}
		return d, true
	}
	p, err := x.entry.Answer()
	switch {
	case err != nil:
		d.Undecodable = err.Error()
	case p != nil:
		d.Fields = describe.Message(p)
	}
	return d, true
}

// errorNames are the names of the error codes in an answer, each once.
func errorNames(answer any) []string {
	names := []string{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Struct:
			for f, x := range v.Fields() {
				if (f.Name == "ErrorCode" || f.Name == "AcknowledgeErrorCode") && x.Kind() == reflect.Int16 {
					if code := int16(x.Int()); code != errorcode.None {
						if name := errorcode.Name(code); len(names) < MaxNames && !slices.Contains(names, name) {
							names = append(names, name)
						}
					}
				} else if f.IsExported() {
					walk(x)
				}
			}
		case reflect.Slice:
			if k := v.Type().Elem().Kind(); k == reflect.Struct || k == reflect.Pointer {
				for i := range v.Len() {
					walk(v.Index(i))
				}
			}
		}
	}
	walk(reflect.ValueOf(answer))
	return names
}

// stateName is the name of a state that was persisted.
func stateName(state int8) string { return sharepartition.State(state).String() }
