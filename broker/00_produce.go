package broker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/logvalidator"
	"kshare/protocol/describe"
	"kshare/protocol/errorcode"
)

// Produce (0), v3 to v13.
//
// Behaviour:
//   - ApiVersions offers v0 to v2 as well, because old clients look for them (KAFKA-18659); a request of those versions closes the connection.
//   - Each partition stands by itself. What is checked in a batch, and in which order, is package logvalidator's.
//   - A partition that is named twice takes the last batch and is answered once. Null records close the connection.
//   - acks 0 has no answer; if a partition fails the connection is closed. acks 1 and -1 do not differ: every replica has a record as soon
//     as it is appended.
//   - From v13 on topics are named by id.

const (
	produceKey           = 0
	firstProduceVersion  = 3
	latestProduceVersion = 13
)

func init() {
	handlers[produceKey] = needing(&handler{writes: true, handle: handleProduce},
		onOne(acl.Write, acl.TransactionalID, produceTransaction, fault.Partition).when(isTransactional),
		onEach(acl.Write, acl.Topic, fault.Partition),
	)
}

// produceTransaction is the transactional id of a request, "" for none.
func produceTransaction(q *kmsg.ProduceRequest) string {
	if q.TransactionID == nil {
		return ""
	}
	return *q.TransactionID
}

// isTransactional tells whether a request has a transactional id that its batches are to be written for.
func isTransactional(q kmsg.Request) bool {
	p := q.(*kmsg.ProduceRequest)
	return p.TransactionID != nil && slices.ContainsFunc(p.Topics, func(t kmsg.ProduceRequestTopic) bool {
		return slices.ContainsFunc(t.Partitions, func(x kmsg.ProduceRequestTopicPartition) bool {
			is, no := logvalidator.IsTransactional(x.Records)
			return is && no == nil
		})
	})
}

// produceEntry is one partition of a Produce on its way.
type produceEntry struct {
	topic     int // index into the answer's topics
	partition int // index into that topic's partitions
	records   []byte
	target    *partition
	params    logvalidator.Params
	result    logvalidator.Result
	// transactional tells that the batch is part of a transaction, refused that its coordinator has something against it.
	transactional, refused bool
}

var errNullRecords = errors.New("a partition's records are null")

func handleProduce(r *request) (answer, error) {
	q, err := decode[*kmsg.ProduceRequest](r)
	if err != nil {
		return nil, err
	}
	p := response[*kmsg.ProduceResponse](q)
	entries, err := produceEntries(q, p)
	if err != nil {
		return nil, err
	}
	pr := &produce{request: r, cluster: r.cluster, q: q, p: p}
	if !pr.refuseRequest(entries) {
		entries = pr.find(entries)
		if pr.transactional && !pr.enrol(entries) {
			return nil, nil
		}
		pr.append(pr.validate(unrefused(entries)))
	}
	return pr.answer()
}

// answer is the answer once all entries have come to their end.
func (pr *produce) answer() (answer, error) {
	r, p := pr.request, pr.p
	if pr.q.Acks != 0 {
		return p, nil
	}
	r.silent = true
	for _, t := range p.Topics {
		for _, e := range t.Partitions {
			if e.ErrorCode != errorcode.None {
				return nil, fmt.Errorf("acks is 0 and %s%s-%d failed with %s", t.Topic, idSuffix(t.TopicID), e.Partition, errorcode.Name(e.ErrorCode))
			}
		}
	}
	return nil, nil
}

func idSuffix(id [16]byte) string {
	if id == [16]byte{} {
		return ""
	}
	return describe.UUIDText(id)
}

// produceEntries makes an entry in the answer for each partition of a request and lists what is to be appended.
func produceEntries(q *kmsg.ProduceRequest, p *kmsg.ProduceResponse) ([]*produceEntry, error) {
	type topicKey struct {
		name string
		id   [16]byte
	}
	type key struct {
		topic int
		index int32
	}
	topics := map[topicKey]int{}
	byKey := map[key]*produceEntry{}
	var entries []*produceEntry
	for i := range q.Topics {
		t := &q.Topics[i]
		at, ok := topics[topicKey{t.Topic, t.TopicID}]
		if !ok && len(t.Partitions) > 0 {
			at = len(p.Topics)
			topics[topicKey{t.Topic, t.TopicID}] = at
			entry := kmsg.NewProduceResponseTopic()
			entry.Topic, entry.TopicID = t.Topic, t.TopicID
			p.Topics = append(p.Topics, entry)
		}
		for j := range t.Partitions {
			asked := &t.Partitions[j]
			if asked.Records == nil {
				return nil, errNullRecords
			}
			if e := byKey[key{at, asked.Partition}]; e != nil {
				e.records = asked.Records
				continue
			}
			pe := kmsg.NewProduceResponseTopicPartition()
			pe.Partition, pe.BaseOffset, pe.LogAppendTime, pe.LogStartOffset = asked.Partition, -1, -1, -1
			e := &produceEntry{topic: at, partition: len(p.Topics[at].Partitions), records: asked.Records}
			p.Topics[at].Partitions = append(p.Topics[at].Partitions, pe)
			byKey[key{at, asked.Partition}] = e
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// produce is a Produce request on its way.
type produce struct {
	request *request
	cluster *Cluster
	q       *kmsg.ProduceRequest
	p       *kmsg.ProduceResponse
	// transactional tells that a batch is part of a transaction.
	transactional bool
}

// entry is an entry's place in the answer.
func (pr *produce) entry(e *produceEntry) *kmsg.ProduceResponseTopicPartition {
	return &pr.p.Topics[e.topic].Partitions[e.partition]
}

// fail answers an entry with an error.
func (pr *produce) fail(e *produceEntry, code int16, message string) {
	pe := pr.entry(e)
	pe.ErrorCode = code
	if message != "" {
		pe.ErrorMessage = &message
	}
}

// refuse answers an entry with what the validator found.
func (pr *produce) refuse(e *produceEntry, no *logvalidator.Refusal) {
	pr.fail(e, no.Code, no.Message)
	pe := pr.entry(e)
	for _, re := range no.RecordErrors {
		er := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		er.RelativeOffset, er.ErrorMessage = re.BatchIndex, &re.Message
		pe.ErrorRecords = append(pe.ErrorRecords, er)
	}
	if no.LogStartOffset {
		pe.LogStartOffset = e.target.log.StartOffset()
	}
}

// refuseRequest looks for what refuses every partition of the request: a batch so broken that Kafka cannot tell whether the request is
// transactional, or a transactional batch in a request without a transactional id.
func (pr *produce) refuseRequest(entries []*produceEntry) bool {
	for _, e := range entries {
		is, no := logvalidator.IsTransactional(e.records)
		if no == nil {
			no = logvalidator.CheckFormat(e.records, pr.q.Version)
		}
		if no != nil && no.WholeRequest {
			for _, e := range entries {
				pr.fail(e, no.Code, no.Message)
			}
			return true
		}
		pr.transactional = pr.transactional || is
	}
	if !pr.transactional || pr.q.TransactionID != nil {
		return false
	}
	for _, e := range entries {
		pr.fail(e, errorcode.TransactionalIDAuthorizationFailed, "")
	}
	return true
}

// find looks up the partitions and makes the checks that need no look into the batches; it returns the entries that go on.
func (pr *produce) find(entries []*produceEntry) []*produceEntry {
	c := pr.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expireProducers()
	found := entries[:0]
	for _, e := range entries {
		at := &pr.p.Topics[e.topic]
		t, unknown := c.topics[at.Topic], errorcode.UnknownTopicOrPartition
		if pr.q.Version >= 13 {
			t, unknown = c.topicsByID[at.TopicID], errorcode.UnknownTopicID
		}
		if t == nil {
			pr.fail(e, unknown, "")
			continue
		}
		e.target = t.partition(pr.entry(e).Partition)
		if e.target == nil {
			pr.fail(e, errorcode.UnknownTopicOrPartition, "")
			continue
		}
		if no := logvalidator.CheckFormat(e.records, pr.q.Version); no != nil {
			pr.refuse(e, no)
			continue
		}
		switch {
		case pr.q.Acks < -1 || pr.q.Acks > 1:
			pr.fail(e, errorcode.InvalidRequiredAcks, "")
			continue
		case isInternal(t.name) && pr.request.header.ClientID != adminClientID:
			pr.fail(e, errorcode.InvalidTopicException, "")
			continue
		case e.target.leader != pr.request.node.id:
			pr.notLeader(e)
			continue
		case pr.q.Acks == -1 && len(e.target.isr) < e.target.minISR():
			pr.fail(e, errorcode.NotEnoughReplicas, "")
			continue
		}
		e.params = t.config.params
		e.params.Partition, e.params.Version, e.params.NowMs = e.target.index, pr.q.Version, c.now()
		found = append(found, e)
	}
	return found
}

// adminClientID is the client id that may write to internal topics (AclAuthorizer's and KafkaApis' AdminUtils.ADMIN_CLIENT_ID).
const adminClientID = "__admin_client"

// notLeader answers an entry whose partition another node leads.
func (pr *produce) notLeader(e *produceEntry) {
	pr.fail(e, errorcode.NotLeaderOrFollower, "")
	pe, hint := pr.entry(e), e.target.hint()
	pe.CurrentLeader.LeaderID, pe.CurrentLeader.LeaderEpoch = hint.leader, hint.epoch
	for _, n := range pr.request.addEndpoint(nil, hint) {
		if slices.ContainsFunc(pr.p.Brokers, func(b kmsg.ProduceResponseBroker) bool { return b.NodeID == n.id }) {
			return
		}
		b := kmsg.NewProduceResponseBroker()
		b.NodeID, b.Host, b.Port = n.id, n.host, n.port
		pr.p.Brokers = append(pr.p.Brokers, b)
	}
}

// validate checks the batches. It runs without the lock, since it reads every byte.
func (pr *produce) validate(entries []*produceEntry) []*produceEntry {
	valid := entries[:0]
	for _, e := range entries {
		result, no := logvalidator.Validate(e.records, &e.params)
		if no != nil {
			pr.cluster.log.Debug("records refused", "partition", e.target, "client", pr.request.header.ClientID, "error", no)
			pr.refuse(e, no)
			continue
		}
		e.result = result
		valid = append(valid, e)
	}
	return valid
}

// append appends the batches that passed, unless their producers' state forbids it.
func (pr *produce) append(entries []*produceEntry) {
	pr.cluster.mu.Lock()
	defer pr.cluster.mu.Unlock()
	pr.appendAll(entries)
	if pr.q.Acks != 0 {
		pr.request.takeCommit()
	}
}

func (pr *produce) appendAll(entries []*produceEntry) {
	for _, e := range entries {
		pr.appendEntry(e)
	}
}

func (pr *produce) appendEntry(e *produceEntry) {
	p := e.target
	switch {
	case p.gone:
		pr.fail(e, errorcode.UnknownTopicOrPartition, "")
		return
	case p.leader != pr.request.node.id:
		pr.notLeader(e)
		return
	}
	pe := pr.entry(e)
	duplicate, no := p.producers.Check(&e.result.Header, logvalidator.Client, pr.verified(e))
	switch {
	case no != nil:
		pr.refuse(e, no)
		return
	case duplicate != nil:
		pe.BaseOffset, pe.LogAppendTime = duplicate.BaseOffset, duplicate.TimestampMs
		pe.LogStartOffset = p.log.StartOffset()
		return
	}
	offset, err := p.append(&e.result.Header, e.result.Batch)
	if err != nil {
		pr.cluster.log.Error("records could not be appended", "partition", p, "error", err)
		pr.fail(e, errorcode.KafkaStorageError, "")
		return
	}
	pe.BaseOffset, pe.LogAppendTime, pe.LogStartOffset = offset, e.result.LogAppendTimeMs, p.log.StartOffset()
}
