package explore

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/protocol"
	"kshare/scenario"
	"kshare/txn"
)

// TraceEvent is a line of a trace: something that changed the state, in the order in which it happened. docs/traces.md describes it.
type TraceEvent struct {
	N         int          `json:"n"` // its position, from 1 on
	Time      time.Time    `json:"time"`
	Command   int          `json:"command"` // the place in the script of the command during which it happened
	Actor     string       `json:"actor"`
	Action    string       `json:"action"`
	Group     string       `json:"group,omitempty"`
	Topic     string       `json:"topic,omitempty"`
	Partition *int32       `json:"partition,omitempty"`
	Arguments any          `json:"arguments,omitempty"`
	Records   []TraceState `json:"records,omitempty"`
	// Start and End are those of the share partition afterwards.
	Start *int64 `json:"start,omitempty"`
	End   *int64 `json:"end,omitempty"`
}

// TraceState is records that an event has changed, as they are afterwards.
type TraceState struct {
	First         int64      `json:"first"`
	Last          int64      `json:"last"` // inclusive
	From          string     `json:"from"` // their state before
	State         string     `json:"state"`
	DeliveryCount int        `json:"deliveryCount"`
	Member        string     `json:"member,omitempty"`
	LockEnds      *time.Time `json:"lockEnds,omitempty"`
	Pending       bool       `json:"pending,omitempty"` // the write of this state is unanswered
	Producer      *Staged    `json:"producer,omitempty"`
}

// Arguments of events.
type (
	traceMember struct {
		Member string `json:"member"`
	}
	traceAcks struct {
		Member   string         `json:"member"`
		Acks     []traceAck     `json:"acks"`
		Producer *traceProducer `json:"producer,omitempty"` // of stage
	}
	traceAck struct {
		First int64    `json:"first"`
		Last  int64    `json:"last"`
		Types []string `json:"types"` // one for all or one for each
	}
	traceProducer struct {
		ProducerID    int64 `json:"producerId"`
		ProducerEpoch int16 `json:"producerEpoch"`
	}
	traceRecord struct {
		LogPartition  int32      `json:"logPartition"`
		Offset        int64      `json:"offset"`
		Type          string     `json:"type"`
		SnapshotEpoch int32      `json:"snapshotEpoch"`
		State         *Persisted `json:"state"`
	}
	traceCode struct {
		ErrorCode int16 `json:"errorCode"`
	}
	traceAppend struct {
		First         int64 `json:"first"`
		Last          int64 `json:"last"`
		ProducerID    int64 `json:"producerId"`
		ProducerEpoch int16 `json:"producerEpoch"`
		Transactional bool  `json:"transactional"`
	}
	traceTransaction struct {
		TransactionalID string   `json:"transactionalId"`
		State           string   `json:"state"`
		ProducerID      int64    `json:"producerId"`
		ProducerEpoch   int16    `json:"producerEpoch"`
		TimeoutMs       int32    `json:"timeoutMs"`
		Partitions      []string `json:"partitions"`
	}
)

// tracer writes what happens. It is called while something happens, by one goroutine.
type tracer struct {
	out    *bufio.Writer
	n      int
	size   int
	err    error
	ended  bool
	known  map[string]*SharePartition // by group and partition, as they were
	looker looker
}

// maxTrace bounds a trace, in bytes.
const maxTrace = 1 << 30

// Export runs a script and writes what has changed the state, an event a line. Equal scripts write equal bytes.
func Export(ctx context.Context, script string, to io.Writer) error {
	entries, f, err := parse(script)
	if err != nil {
		return err
	}
	t := &tracer{out: bufio.NewWriter(to), known: map[string]*SharePartition{}}
	s := newSession()
	s.tracer = t
	s.begin()
	for i := range entries {
		if err = s.attempt(ctx, &entries[i], f, i); err != nil {
			break
		}
		if err = t.err; err != nil {
			break
		}
	}
	if err == nil {
		err = t.out.Flush()
	}
	t.ended = true // what closing the run changes is no part of it
	if end := s.Close(); err == nil {
		err = end
	}
	return err
}

func (t *tracer) write(e *TraceEvent) {
	if t.err != nil || t.ended {
		return
	}
	t.n++
	e.N = t.n
	b, err := json.Marshal(e)
	if t.size += len(b) + 1; err == nil && t.size > maxTrace {
		err = fmt.Errorf("the trace would have more than %d bytes", maxTrace)
	}
	if err == nil {
		_, err = t.out.Write(append(b, '\n'))
	}
	t.err = err
}

// actors are who acts, by action; a member where there is none here.
var actors = map[string]string{
	kshare.ActionLoad: "leader", kshare.ActionForget: "leader", kshare.ActionSkipAborted: "leader", kshare.ActionRelease: "leader", kshare.ActionExpire: "clock",
	kshare.ActionResolve: "transaction coordinator", kshare.ActionWritten: "share coordinator", kshare.ActionArchived: "dead-letter queue", kshare.ActionLogStartMove: "log",
}

// shareChanged writes a change of a share partition, if it is one.
func (t *tracer) shareChanged(s *kshare.ShareChange, command int) {
	key := fmt.Sprintf("%q %s %d", s.Group, s.Topic, s.Partition)
	old := t.known[key]
	if old == nil {
		old = &SharePartition{}
	}
	now := &SharePartition{}
	if now.StartOffset, now.EndOffset, now.Known = s.Offsets(); now.Known {
		now.Runs = t.looker.runs(s.Runs(nil), s.At)
	}
	t.known[key] = now
	e := &TraceEvent{Time: s.At.UTC(), Command: command, Actor: actors[s.Action], Action: s.Action, Group: s.Group, Topic: s.Topic, Partition: &s.Partition}
	if e.Actor == "" {
		e.Actor = t.looker.member(s.Member)
	}
	if now.Known {
		e.Start, e.End = &now.StartOffset, &now.EndOffset
		for _, x := range transitions(old, now, nil) {
			y := TraceState{First: x.first, Last: x.last, From: x.from.state(), State: x.to.state()}
			if r := x.to.Run; r != nil {
				y.DeliveryCount, y.Member, y.LockEnds, y.Pending, y.Producer = r.DeliveryCount, r.Member, r.LockEnds, r.Pending, r.Producer
			}
			e.Records = append(e.Records, y)
		}
	}
	if old.Known == now.Known && len(e.Records) == 0 && old.StartOffset == now.StartOffset && old.EndOffset == now.EndOffset {
		return
	}
	switch s.Action {
	case kshare.ActionAcquire, kshare.ActionRelease:
		e.Arguments = traceMember{t.looker.member(s.Member)}
	case kshare.ActionAcknowledge, kshare.ActionStage:
		a := traceAcks{Member: t.looker.member(s.Member), Acks: []traceAck{}}
		for i := range s.Acks {
			x := traceAck{First: s.Acks[i].FirstOffset, Last: s.Acks[i].LastOffset}
			for _, kind := range s.Acks[i].Types {
				x.Types = append(x.Types, scenario.AcknowledgeTypeName(kind))
			}
			a.Acks = append(a.Acks, x)
		}
		if s.Action == kshare.ActionStage {
			a.Producer = &traceProducer{s.Staged.ProducerID, s.Staged.ProducerEpoch}
		}
		e.Arguments = a
	case kshare.ActionResolve:
		e.Arguments = traceProducer{s.Staged.ProducerID, s.Staged.ProducerEpoch}
	case kshare.ActionWritten:
		e.Arguments = traceCode{s.ErrorCode}
	}
	t.write(e)
}

// appended writes what was appended to a log: to that of a user's topic, a marker, a record of share state or of a transaction.
func (t *tracer) appended(a *kshare.Appended, command int) {
	e := &TraceEvent{Time: a.At.UTC(), Command: command, Actor: "log", Topic: a.Topic, Partition: &a.Partition}
	h := a.Header
	if h.IsControl() {
		if kind, _, ok := protocol.ParseEndTxnMarker(h, a.Batch); ok {
			e.Action, e.Actor = "abort-marker", "transaction coordinator"
			if kind == protocol.ControlCommit {
				e.Action = "commit-marker"
			}
			e.Arguments = traceAppend{h.BaseOffset, h.LastOffset(), h.ProducerID, h.ProducerEpoch, true}
			t.write(e)
		}
		return
	}
	switch a.Topic {
	case stateTopic:
		eachRecord(h, a.Batch, func(offset int64, r *protocol.Record) {
			if x, ok := decodeState(a, offset, r); ok {
				y := t.looker.stateRecord(&x)
				t.write(&TraceEvent{Time: e.Time, Command: command, Actor: "share coordinator", Action: "state-record", Group: y.Group, Topic: y.Topic, Partition: &y.Partition,
					Arguments: traceRecord{y.LogPartition, y.Offset, y.Type, y.SnapshotEpoch, y.State}})
			}
		})
	case transactionTopic:
		eachRecord(h, a.Batch, func(_ int64, r *protocol.Record) {
			if x, ok := decodeTransaction(r); ok {
				t.write(&TraceEvent{Time: e.Time, Command: command, Actor: "transaction coordinator", Action: "transaction", Arguments: x})
			}
		})
	case offsetsTopic:
	default:
		e.Action = "append"
		if a.DeadLetters {
			e.Action = "dead-letter"
		}
		e.Arguments = traceAppend{h.BaseOffset, h.LastOffset(), h.ProducerID, h.ProducerEpoch, h.IsTransactional()}
		t.write(e)
	}
}

// decodeTransaction reads a record of __transaction_state.
func decodeTransaction(r *protocol.Record) (x traceTransaction, ok bool) {
	key, value := kmsg.NewTxnMetadataKey(), kmsg.NewTxnMetadataValue()
	if key.ReadFrom(r.Key) != nil || r.Value == nil || value.ReadFrom(r.Value) != nil {
		return x, false
	}
	x = traceTransaction{key.TransactionalID, txn.State(value.State).String(), value.ProducerID, value.ProducerEpoch, value.TimeoutMillis, []string{}}
	for _, t := range value.Topics {
		for _, p := range t.Partitions {
			x.Partitions = append(x.Partitions, partitionText(t.Topic, p))
		}
	}
	return x, true
}

// transactionTopic is the topic of the transaction coordinators, offsetsTopic that of the group coordinators.
const (
	transactionTopic = "__transaction_state"
	offsetsTopic     = "__consumer_offsets"
)
