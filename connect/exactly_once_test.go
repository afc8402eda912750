package connect

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare"
	"kshare/protocol/errorcode"
	"kshare/shareclient"
)

// mockProducer is a transactional producer whose errors a test has written, by call and in order.
type mockProducer struct {
	log  *[]string
	errs map[string][]error
}

func (p *mockProducer) call(name string, more ...any) error {
	note(p.log, "%s", strings.TrimSpace(fmt.Sprint(append([]any{name + " "}, more...)...)))
	if len(p.errs[name]) == 0 {
		return nil
	}
	err := p.errs[name][0]
	p.errs[name] = p.errs[name][1:]
	return err
}

func (p *mockProducer) BeginTransaction() error { return p.call("begin") }
func (p *mockProducer) Produce(_ context.Context, records ...*kgo.Record) error {
	return p.call("produce", len(records))
}
func (p *mockProducer) SendShareAcknowledgementsToTransaction(context.Context, shareclient.Acknowledgements, shareclient.GroupMetadata) error {
	return p.call("stage")
}
func (p *mockProducer) CommitTransaction(context.Context) error { return p.call("commit-txn") }
func (p *mockProducer) AbortTransaction(context.Context) error  { return p.call("abort-txn") }
func (p *mockProducer) Close()                                  { _ = p.call("close-producer") }

// transactional is a mock consumer that may have lost records.
type transactional struct {
	mockConsumer
	lost map[int64]bool
}

func (c *transactional) Acknowledge(r *shareclient.Record, t shareclient.AcknowledgeType) error {
	if c.lost[r.Offset] {
		return shareclient.ErrNotHeld
	}
	return c.mockConsumer.Acknowledge(r, t)
}

// Calls of a transaction, in their order, whatever goes wrong in it.
func TestTransactions(t *testing.T) {
	abortable := &shareclient.Error{API: "TxnShareAcknowledge", Code: errorcode.InvalidRecordState, Class: shareclient.Abortable}
	tooLarge := &shareclient.Error{API: "Produce", Code: errorcode.MessageTooLarge, Class: shareclient.Abortable}
	forbidden := &shareclient.Error{API: "Produce", Code: errorcode.TopicAuthorizationFailed, Class: shareclient.Abortable}
	fenced := &shareclient.Error{API: "EndTxn", Code: errorcode.ProducerFenced, Class: shareclient.Fatal}
	unknown := &shareclient.Error{API: "EndTxn", Class: shareclient.Abortable, Cause: context.DeadlineExceeded}
	for name, c := range map[string]struct {
		errs       map[string][]error
		lost       map[int64]bool
		iterations int
		want       string
		failed     string
	}{
		"all goes well":               {nil, nil, 1, "begin, produce 2, ACCEPT 0, ACCEPT 1, stage, commit-txn", ""},
		"a record is lost":            {nil, map[int64]bool{1: true}, 1, "begin, produce 2, ACCEPT 0, abort-txn, RELEASE 0, commit", ""},
		"a stage is refused":          {map[string][]error{"stage": {abortable}}, nil, 1, "begin, produce 2, ACCEPT 0, ACCEPT 1, stage, abort-txn, RELEASE 0, RELEASE 1, commit", ""},
		"an abort is asked for again": {map[string][]error{"stage": {abortable}, "abort-txn": {unknown}}, nil, 1, "begin, produce 2, ACCEPT 0, ACCEPT 1, stage, abort-txn, abort-txn, RELEASE 0, RELEASE 1, commit", ""},
		"a commit is asked for again": {map[string][]error{"commit-txn": {unknown, unknown}}, nil, 1, "begin, produce 2, ACCEPT 0, ACCEPT 1, stage, commit-txn, commit-txn, commit-txn", ""},
		"a commit that has to abort":  {map[string][]error{"commit-txn": {shareclient.ErrAborting}}, nil, 1, "begin, produce 2, ACCEPT 0, ACCEPT 1, stage, commit-txn, abort-txn, RELEASE 0, RELEASE 1, commit", ""},
		"a record is to blame": {map[string][]error{"produce": {tooLarge, nil, tooLarge}}, nil, 1,
			"begin, produce 2, abort-txn, begin, produce 1, ACCEPT 0, stage, commit-txn, begin, produce 1, abort-txn, REJECT 1, commit", "MESSAGE_TOO_LARGE"},
		"the task may not write": {map[string][]error{"produce": {forbidden}}, nil, 1, "begin, produce 2, abort-txn, RELEASE 0, RELEASE 1, commit", "TOPIC_AUTHORIZATION_FAILED"},
		"the producer is fenced": {map[string][]error{"commit-txn": {fenced}}, nil, 2, "begin, produce 2, ACCEPT 0, ACCEPT 1, stage, commit-txn, close-producer, RELEASE 0, RELEASE 1, commit, new producer", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set, err := resolve(workerProperties(), config(exactlyOnceKey+"=required"))
				require.NoError(t, err)
				sink := &testSink{outputs: func(records []*SinkRecord) (outputs []*kgo.Record, err error) {
					for range records {
						outputs = append(outputs, &kgo.Record{})
					}
					return outputs, nil
				}}
				var log []string
				tk := &task{set: set, plugin: sink.NewTask(), log: discard, metrics: &taskMetrics{share: true}, changed: func() {}}
				tk.life, tk.kill = context.WithCancel(t.Context())
				defer tk.kill()
				in := &transactional{mockConsumer{log: &log, polls: [][]*shareclient.Record{records(0, 1)}}, c.lost}
				made := 0
				s := newShareSource(tk, in, func(context.Context) (transaction, error) {
					if made++; made > 1 {
						note(&log, "new producer")
					}
					return &mockProducer{&log, c.errs}, nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				for range c.iterations {
					err = s.iteration(ctx)
				}
				assert.Equal(t, c.want, strings.Join(log, ", "))
				if c.failed == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, c.failed)
				}
			})
		})
	}
}

// A task whose lock has ended while it made its outputs commits none of them: others have the records by then.
func TestOutputsThatComeTooLate(t *testing.T) {
	inBubble(t, func(h *house) {
		_, err := h.cluster.AddFault(kshare.Fault{API: "ShareAcknowledge", Error: "INVALID_SHARE_SESSION_EPOCH", Stage: "before", Times: 20}) // no renewal
		require.NoError(t, err)
		slow := true
		sink := &testSink{outputs: func(records []*SinkRecord) (outputs []*kgo.Record, err error) {
			if slow {
				slow = false
				time.Sleep(100 * time.Second)
			}
			for _, r := range records {
				outputs = append(outputs, &kgo.Record{Topic: "invoices", Value: []byte(valueOf(r))})
			}
			return outputs, nil
		}}
		w, _ := h.worker(sink)
		defer w.Close()
		h.batch("orders", numbered(6)...)
		require.NoError(t, w.Put(config("tasks.max=2", exactlyOnceKey+"=required")))
		h.eventually(time.Hour, func() bool { return h.lag("connect-copy", "orders") == 0 && !slow }, "all is done")
		time.Sleep(3 * time.Minute)
		assert.Equal(t, numbered(6), h.read("invoices"), "each once")
	})
}

// A worker without KIP-1289 in the cluster says so.
func TestExactlyOnceNeedsKIP1289(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithTopic("orders", 1))
		require.NoError(t, err)
		defer func() { require.NoError(t, cluster.Close()) }()
		h := &house{t: t, cluster: cluster}
		w, _ := h.worker(&testSink{})
		defer w.Close()
		require.NoError(t, w.Put(config("connector.class=KafkaSink", "kafka.topic=invoices", exactlyOnceKey+"=required")))
		h.eventually(time.Minute, func() bool { return trace(w) != "" }, "it fails")
		assert.Equal(t, `exactly.once.support "required" needs brokers that take acknowledgements of share groups in transactions (KIP-1289)`, trace(w))
	})
}
