package shareclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// ProducerConfig says how a producer works. TransactionalID is needed.
type ProducerConfig struct {
	TransactionalID    string
	TransactionTimeout time.Duration // after which the coordinator aborts by itself (transaction.timeout.ms); 0 stands for 60 s
	MaxBlock           time.Duration // how long a call tries (max.block.ms); 0 stands for 60 s
	APIKey             int16         // of TxnShareAcknowledge; 0 stands for protocol.TxnShareAcknowledgeKey
}

// Producer is a transactional producer that takes acknowledgements of share groups. Its methods may be called by several goroutines, and are served one after the other.
type Producer struct {
	cfg    ProducerConfig
	client *kgo.Client
	routes *routes

	mu          sync.Mutex
	partitioner kgo.Partitioner
	partition   map[string]kgo.TopicPartitioner
	id          int64
	epoch       int16
	state       producerState
	started     bool  // the coordinator may know of the transaction, so that EndTxn is due
	fatal       error // why the producer is of no more use
	sequences   map[Partition]int32
}

type producerState int

const (
	idle producerState = iota
	inTransaction
	failed     // only AbortTransaction is left
	committing // EndTxn was sent and its outcome is not known: only CommitTransaction is left
	closed
)

// NewProducer makes a producer and initialises its transactions (InitProducerId): what another producer with its transactional id has begun is aborted, and
// that one is fenced. opts are for the kgo.Client that carries the requests: seeds, dialer, TLS. It fails where the cluster has no
// transaction.version 2 or does not list TxnShareAcknowledge.
func NewProducer(ctx context.Context, cfg ProducerConfig, opts ...kgo.Opt) (*Producer, error) {
	if cfg.TransactionalID == "" {
		return nil, errors.New("a producer needs a transactional id")
	}
	cfg.TransactionTimeout = cmp.Or(cfg.TransactionTimeout, time.Minute)
	cfg.MaxBlock = cmp.Or(cfg.MaxBlock, time.Minute)
	client, err := newClient(opts)
	if err != nil {
		return nil, err
	}
	p := &Producer{cfg: cfg, client: client, routes: newRoutes(client), partitioner: kgo.StickyKeyPartitioner(nil), partition: map[string]kgo.TopicPartitioner{}}
	if err := p.init(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return p, nil
}

// newClient makes the carrier of requests. kgo knows no key 95, so that it is not to have a list of keys.
func newClient(opts []kgo.Opt) (*kgo.Client, error) {
	// A connection that is closed for want of use takes a share session and all that is acquired in it along: as long as Kafka's clients keep theirs.
	opts = append([]kgo.Opt{kgo.ConnIdleTimeout(9 * time.Minute)}, opts...)
	return kgo.NewClient(append(opts, kgo.MaxVersions(nil))...)
}

// init gets the producer id and epoch.
func (p *Producer) init(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.MaxBlock)
	defer cancel()
	versions, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, p.client)
	if err != nil {
		return &Error{API: "ApiVersions", Of: p.cfg.TransactionalID, Class: unanswered(err), Cause: err}
	}
	if !slices.ContainsFunc(versions.FinalizedFeatures, func(f kmsg.ApiVersionsResponseFinalizedFeature) bool {
		return f.Name == "transaction.version" && f.MaxVersionLevel >= 2
	}) {
		return &Error{API: "ApiVersions", Of: p.cfg.TransactionalID, Code: errorcode.UnsupportedVersion, Message: "transaction.version is below 2", Class: Fatal, Cause: errTooOld}
	}
	if key := p.stageKey(); !slices.ContainsFunc(versions.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == key }) {
		return &Error{API: "ApiVersions", Of: p.cfg.TransactionalID, Code: errorcode.UnsupportedVersion, Message: fmt.Sprintf("there is no API with the key %d", key), Class: Fatal, Cause: errTooOld}
	}
	return p.retry(ctx, "InitProducerId", p.cfg.TransactionalID, coordinatorClass, func() (int16, string, error) {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID = &p.cfg.TransactionalID
		req.TransactionTimeoutMillis = int32(p.cfg.TransactionTimeout.Milliseconds())
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp, err := req.RequestWith(ctx, p.client)
		if err != nil {
			return 0, "", err
		}
		p.id, p.epoch = resp.ProducerID, resp.ProducerEpoch
		return resp.ErrorCode, "", nil
	})
}

// stageKey is the API key of TxnShareAcknowledge.
func (p *Producer) stageKey() int16 { return cmp.Or(p.cfg.APIKey, protocol.TxnShareAcknowledgeKey) }

// retry asks until there is an answer that is no retriable error, or the context ends, which is abortable.
func (p *Producer) retry(ctx context.Context, api, of string, class func(int16) Class, ask func() (code int16, message string, err error)) error {
	var last *Error
	for ctx.Err() == nil {
		code, message, err := ask()
		switch {
		case err != nil && ctx.Err() != nil && last != nil: // what was tried for so long says more
		case err != nil:
			last = &Error{API: api, Of: of, Class: unanswered(err), Cause: err}
		case code == errorcode.None:
			return nil
		default:
			last = &Error{API: api, Of: of, Code: code, Message: message, Class: class(code)}
		}
		if last.Class != Retriable && ctx.Err() == nil {
			return last
		}
		pause(ctx, retryBackoff)
	}
	if last == nil {
		return &Error{API: api, Of: of, Class: Abortable, Cause: context.Cause(ctx)}
	}
	return &Error{API: api, Of: of, Code: last.Code, Message: last.Message, Class: Abortable, Cause: errors.Join(context.Cause(ctx), last.Cause)}
}

// BeginTransaction begins a transaction, which nobody else learns of yet.
func (p *Producer) BeginTransaction() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.over(); err != nil {
		return err
	}
	if p.state != idle {
		return errors.New("a transaction has begun: commit or abort it first")
	}
	p.state, p.started, p.sequences = inTransaction, false, map[Partition]int32{}
	return nil
}

// over is the error of a producer that can do nothing any more.
func (p *Producer) over() error {
	if p.state == closed && p.fatal == nil {
		return ErrClosed
	}
	return p.fatal
}

// usable is the error of what belongs in a transaction that has not failed.
func (p *Producer) usable() error {
	if err := p.over(); err != nil {
		return err
	}
	switch {
	case p.state == failed:
		return ErrAborting
	case p.state != inTransaction:
		return ErrNotInTransaction
	}
	return nil
}

// note keeps what an error means for the transaction.
func (p *Producer) note(err error) error {
	switch {
	case err == nil:
	case IsFatal(err):
		p.fatal = err
	default:
		p.state = failed
	}
	return err
}

// Produce writes records as part of the transaction and returns once all are stored, or the first error: a batch for each partition, in the order of the
// records. A record with a key goes where the Java client would put it; Partition is set to where it went.
func (p *Producer) Produce(ctx context.Context, records ...*kgo.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.usable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.MaxBlock)
	defer cancel()
	var order []Partition
	of := map[Partition][]*kgo.Record{}
	for _, r := range records {
		var t topic
		if err := p.retry(ctx, "Metadata", r.Topic, produceClass, func() (_ int16, _ string, err error) {
			t, err = p.routes.find(ctx, r.Topic)
			return 0, "", err
		}); err != nil {
			return p.note(err)
		}
		tp := p.partition[r.Topic]
		if tp == nil {
			tp = p.partitioner.ForTopic(r.Topic)
			p.partition[r.Topic] = tp
		}
		r.Partition = int32(tp.Partition(r, len(t.leaders)))
		key := Partition{t.id, r.Topic, r.Partition}
		if of[key] == nil {
			order = append(order, key)
		}
		of[key] = append(of[key], r)
	}
	for _, key := range order {
		if err := p.produce(ctx, key, of[key]); err != nil {
			return p.note(err)
		}
	}
	return nil
}

func (p *Producer) produce(ctx context.Context, to Partition, records []*kgo.Record) error {
	b := protocol.NewBatchBuilder()
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = p.id, p.epoch, p.sequences[to], true
	if err := b.Reset(nil); err != nil {
		return err
	}
	for _, r := range records {
		at := r.Timestamp
		if at.IsZero() {
			at = time.Now()
		}
		headers := make([]protocol.Header, len(r.Headers))
		for i, h := range r.Headers {
			headers[i] = protocol.Header{Key: []byte(h.Key), Value: h.Value}
		}
		if err := b.Append(at.UnixMilli(), r.Key, r.Value, headers...); err != nil {
			return err
		}
	}
	batch, err := b.Finish()
	if err != nil {
		return err
	}
	p.started = true
	err = p.retry(ctx, "Produce", to.String(), produceClass, func() (int16, string, error) {
		node, err := p.routes.leader(ctx, to.Topic, to.Partition)
		if err != nil {
			return 0, "", err
		}
		req := kmsg.NewPtrProduceRequest()
		req.TransactionID = &p.cfg.TransactionalID
		req.Acks, req.TimeoutMillis = -1, 30_000
		req.Topics = []kmsg.ProduceRequestTopic{{Topic: to.Topic, TopicID: to.TopicID, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: to.Partition, Records: batch}}}}
		resp, err := ask[*kmsg.ProduceResponse](ctx, p.client, node, req)
		if err == nil && (len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1) {
			err = errors.New("the answer is not about the partition")
		}
		if err != nil {
			p.routes.forget(to.Topic)
			return 0, "", err
		}
		answer := resp.Topics[0].Partitions[0]
		switch {
		case answer.ErrorCode == errorcode.DuplicateSequenceNumber:
			return errorcode.None, "", nil // it was stored before, and the answer was lost
		case produceClass(answer.ErrorCode) == Retriable:
			p.routes.forget(to.Topic)
		}
		return answer.ErrorCode, textOf(answer.ErrorMessage), nil
	})
	if err == nil {
		p.sequences[to] += int32(len(records))
	}
	return err
}

func textOf(message *string) string {
	if message == nil {
		return ""
	}
	return *message
}

// SendShareAcknowledgementsToTransaction makes acknowledgements part of the transaction: a commit has them take effect, an abort gives the records back. There is
// one TxnShareAcknowledge for each partition, to the partition's leader; the first error decides. Nothing is sent for no acknowledgements. It may be
// called more than once in a transaction, and for several members. It blocks up to MaxBlock.
func (p *Producer) SendShareAcknowledgementsToTransaction(ctx context.Context, acks Acknowledgements, group GroupMetadata) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.usable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.MaxBlock)
	defer cancel()
	for _, of := range slices.SortedFunc(maps.Keys(acks), func(a, b Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	}) {
		if len(acks[of]) == 0 {
			continue
		}
		p.started = true
		if err := p.stage(ctx, of, acks[of], group); err != nil {
			return p.note(err)
		}
	}
	return nil
}

// stage sends the acknowledgements of a partition. The broker takes the same ones twice, so that what was not answered can be sent again.
func (p *Producer) stage(ctx context.Context, of Partition, batches []AcknowledgementBatch, group GroupMetadata) error {
	return p.retry(ctx, "TxnShareAcknowledge", of.String(), acknowledgeClass, func() (int16, string, error) {
		node, err := p.routes.leader(ctx, of.Topic, of.Partition)
		if err != nil {
			return 0, "", err
		}
		req := &protocol.TxnShareAcknowledgeRequest{
			APIKey: p.stageKey(), TransactionalID: &p.cfg.TransactionalID, ProducerID: p.id, ProducerEpoch: p.epoch,
			GroupID: group.GroupID, MemberID: group.MemberID, MemberEpoch: group.MemberEpoch, Topics: of.request(batches),
		}
		resp, err := ask[*protocol.TxnShareAcknowledgeResponse](ctx, p.client, node, req)
		if err != nil {
			p.routes.forget(of.Topic)
			return 0, "", err
		}
		code, message := acknowledgeCode(resp)
		if acknowledgeClass(code) == Retriable {
			p.routes.forget(of.Topic)
		}
		return code, message, nil
	})
}

// acknowledgeCode is the error of an answer about one partition.
func acknowledgeCode(resp *protocol.TxnShareAcknowledgeResponse) (code int16, message string) {
	if resp.ErrorCode != errorcode.None {
		return resp.ErrorCode, ""
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			return p.ErrorCode, textOf(p.ErrorMessage)
		}
	}
	return errorcode.UnknownServerError, "the answer is not about the partition"
}

// CommitTransaction commits: what was produced is visible to read_committed, and what was acknowledged has taken effect, soon after it returns. After an abortable
// error it is refused. Where its own error is abortable the outcome is not known, and it can be called again.
func (p *Producer) CommitTransaction(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != committing {
		if err := p.usable(); err != nil {
			return err
		}
	}
	p.state = committing
	return p.end(ctx, true)
}

// AbortTransaction aborts: what was produced is never visible to read_committed, and records whose acknowledgements were staged are delivered again. Where its
// own error is abortable it can be called again.
func (p *Producer) AbortTransaction(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.over(); err != nil {
		return err
	}
	switch {
	case p.state == committing:
		return errors.New("the outcome of the commit is not known: call CommitTransaction again")
	case p.state == idle:
		return ErrNotInTransaction
	}
	p.state = failed // until it has succeeded
	return p.end(ctx, false)
}

// end sends EndTxn where the coordinator may know of the transaction. Its answer has the producer epoch of the next transaction.
func (p *Producer) end(ctx context.Context, commit bool) error {
	if !p.started {
		p.state = idle
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.MaxBlock)
	defer cancel()
	err := p.retry(ctx, "EndTxn", p.cfg.TransactionalID, coordinatorClass, func() (int16, string, error) {
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = p.cfg.TransactionalID, p.id, p.epoch, commit
		resp, err := req.RequestWith(ctx, p.client)
		if err != nil {
			return 0, "", err
		}
		if resp.ErrorCode == errorcode.None {
			if resp.Version < 5 {
				return errorcode.UnsupportedVersion, "EndTxn has no version 5", nil
			}
			p.id, p.epoch = resp.ProducerID, resp.ProducerEpoch
		}
		return resp.ErrorCode, "", nil
	})
	var e *Error
	switch {
	case err == nil:
		p.state = idle
	case IsFatal(err):
		p.fatal = err
	case commit && errors.As(err, &e) && e.Code == errorcode.TransactionAbortable:
		p.state = failed
	}
	return err
}

// Close closes the producer. A transaction that is open stays so until another producer with the transactional id begins, or the coordinator aborts it.
func (p *Producer) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != closed {
		p.state = closed
		p.client.Close()
	}
}
