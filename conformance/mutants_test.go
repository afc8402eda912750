package conformance_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/conformance"
	"kshare/protocol"
)

// mutant is a client that does one thing wrong. The rule of its name tells so, and no other but those that cannot but be broken too.
type mutant struct {
	rule string
	what string
	also []string // rules that are broken too, because they say the same from another side
	note string   // of a rule of level INFO: what it tells
	opts []kshare.Option
	run  func(*consumer)
}

var threeNodes = []kshare.Option{kshare.WithBrokers(3)}

// TestMutants has each mutant caught by its rule, and every rule that is judged catch one. A rule that does not look makes its mutants fail here.
func TestMutants(t *testing.T) {
	caught := map[string]bool{}
	for _, m := range slices.Concat(wireMutants, memberMutants, sessionMutants, fetchMutants, acknowledgeMutants, groupMutants, transactionMutants, kip1289Mutants) {
		caught[m.rule] = true
		t.Run(m.rule+"/"+m.what, func(t *testing.T) {
			w := newWorld(t, m.opts...)
			if strings.HasPrefix(m.rule, "ktx.") {
				w.judge = conformance.New(conformance.Options{APIs: protocol.WithTxnShareAcknowledge(protocol.TxnShareAcknowledgeKey)})
			}
			m.run(w.consumer("a"))
			r := w.report()
			of := r.Rule(m.rule)
			require.NotNil(t, of)
			wrong := append([]string{}, m.also...)
			switch of.Level {
			case conformance.Info:
				require.Equal(t, conformance.Noted, of.Verdict)
				require.True(t, slices.ContainsFunc(of.Evidence, func(e conformance.Evidence) bool { return strings.Contains(e.Says, m.note) }), "%v", of.Evidence)
			default:
				want := map[conformance.Level]conformance.Verdict{conformance.Must: conformance.Fail, conformance.Should: conformance.Warn}[of.Level]
				require.Equal(t, want, of.Verdict, "broken: %v", broken(r))
				require.NotEmpty(t, of.Evidence)
				wrong = append(wrong, m.rule)
			}
			got := broken(r)
			slices.Sort(wrong)
			slices.Sort(got)
			require.Equal(t, wrong, got, show(t, r))
		})
	}
	for i := range conformance.Rules {
		r := &conformance.Rules[i]
		require.Equal(t, r.Judged(), caught[r.ID], "%s: a rule that is judged has a mutant", r.ID)
	}
}

// errorOnce makes the next answer of a type an error at its top.
func errorOnce[P kmsg.Response](w *world, set func(P)) {
	w.Helper()
	done := false
	w.edit = func(_ kmsg.Request, p kmsg.Response) {
		if p, ok := p.(P); ok && !done {
			done = true
			set(p)
		}
	}
}

// always changes all answers of a type.
func always[P kmsg.Response](w *world, set func(P)) {
	w.edit = func(_ kmsg.Request, p kmsg.Response) {
		if p, ok := p.(P); ok {
			set(p)
		}
	}
}

func pointer[T any](v T) *T { return &v }

var wireMutants = []mutant{
	{rule: "wire.api.1", what: "joins straight after connecting", run: func(c *consumer) {
		c.dial(1, "a").call(c.heartbeat(0))
	}},
	{rule: "wire.api.2", what: "a version beyond those advertised", run: func(c *consumer) {
		always(c.world, func(p *kmsg.ApiVersionsResponse) {
			for i := range p.ApiKeys {
				if p.ApiKeys[i].ApiKey == 78 {
					p.ApiKeys[i].MaxVersion = 1
				}
			}
		})
		c.steady()
	}},
	{rule: "wire.api.3", what: "always version 1", run: func(c *consumer) {
		c.steady()
		q := c.share(1)
		q.Version = 1
		c.send(1, q)
	}},
	{rule: "wire.api.4", what: "version 0", also: []string{"wire.api.2", "wire.api.3"}, run: func(c *consumer) {
		c.find()
		q := c.heartbeat(0)
		q.Version = 0
		c.link(1).call(q)
	}},
	{rule: "wire.api.5", what: "renews in version 1", also: []string{"share.ack.types.2", "wire.api.3"}, run: func(c *consumer) {
		c.steady()
		c.produce(0, 1)
		c.hold(1)
		q := c.acknowledgement(1, 4)
		q.Version = 1
		c.sendAck(1, q)
	}},
	{rule: "wire.schema.1", what: "a byte too many", run: func(c *consumer) {
		c.find()
		q := c.heartbeat(0)
		l := c.link(1)
		l.raw(append(l.frame(q), 0), q)
		l.await(q)
	}},
	{rule: "wire.schema.1", what: "a string that is not UTF-8", run: func(c *consumer) {
		c.find()
		q := c.heartbeat(0)
		q.SubscribedTopicNames = []string{"\xff"}
		c.link(1).call(q)
	}},
	{rule: "wire.schema.2", what: "a partition twice", run: func(c *consumer) {
		c.join()
		q := c.share(1)
		add(q, c.assigned[0])
		c.send(1, q)
	}},
	{rule: "wire.schema.3", what: "a topic in two entries", run: func(c *consumer) {
		c.join()
		q := c.share(1)
		parts := q.Topics[0].Partitions
		q.Topics = []kmsg.ShareFetchRequestTopic{{TopicID: q.Topics[0].TopicID, Partitions: parts[:1]}, {TopicID: q.Topics[0].TopicID, Partitions: parts[1:]}}
		c.send(1, q)
	}},
	{rule: "wire.schema.4", what: "the zero id", also: []string{"share.member.assign.1"}, run: func(c *consumer) {
		c.join()
		q := c.share(1)
		add(q, tp{})
		c.send(1, q)
	}},
	{rule: "wire.head.1", what: "the same correlation id", run: func(c *consumer) {
		c.steady()
		q := c.share(1)
		c.link(1).post(q)
		c.link(1).corr--
		m := kmsg.NewPtrMetadataRequest()
		m.Version = 12
		c.link(1).post(m)
	}},
	{rule: "wire.head.2", what: "another client id", note: `changes from "a" to "other"`, run: func(c *consumer) {
		c.steady()
		c.link(1).client = "other"
		c.poll(1)
	}},
	{rule: "wire.head.2", what: "an illegal name of the software", note: `"-"`, run: func(c *consumer) {
		q := kmsg.NewPtrApiVersionsRequest()
		q.Version, q.ClientSoftwareName, q.ClientSoftwareVersion = 4, "-", "1"
		c.dial(1, "a").call(q)
	}},
	{rule: "wire.bounds.1", what: "MaxWaitMs -1", run: func(c *consumer) {
		c.steady()
		q := c.share(1)
		q.MaxWaitMillis = -1
		c.send(1, q)
	}},
	{rule: "wire.bounds.2", what: "MaxRecords 0", run: func(c *consumer) {
		c.steady()
		q := c.share(1)
		q.MaxRecords = 0
		c.send(1, q)
	}},
	{rule: "wire.bounds.3", what: "ShareAcquireMode 2", run: func(c *consumer) {
		c.join()
		q := c.share(1)
		q.ShareAcquireMode = 2
		c.send(1, q)
	}},
	{rule: "wire.group.1", what: "null", run: func(c *consumer) {
		c.steady()
		c.produce(0, 1)
		c.hold(1)
		q := c.acknowledgement(1, 1)
		q.GroupID = nil
		c.sendAck(1, q)
	}},
	{rule: "wire.group.1", what: "another group", also: []string{"wire.member.1"}, run: func(c *consumer) {
		c.steady()
		q := c.share(1)
		q.ShareSessionEpoch, q.GroupID = 0, pointer("others")
		c.send(1, q)
	}},
	{rule: "wire.member.1", what: "37 characters", also: []string{"wire.member.2"}, run: func(c *consumer) {
		c.find()
		c.member = strings.Repeat("m", 37)
		c.link(1).call(c.heartbeat(0))
	}},
	{rule: "wire.member.2", what: "consumer-1", run: func(c *consumer) {
		c.member = "consumer-1"
		c.steady()
	}},
	{rule: "wire.member.2", what: "the id of another consumer", run: func(c *consumer) {
		c.steady()
		other := c.consumer("b")
		other.member = c.member
		other.find()
		other.link(1).call(other.heartbeat(0))
	}},
	{rule: "wire.flight.1", what: "the same epoch twice", also: []string{"wire.flight.2", "share.session.epoch.2"}, run: func(c *consumer) {
		c.steady()
		c.link(1).post(c.share(1))
		c.link(1).post(c.share(1))
	}},
	{rule: "wire.flight.2", what: "acknowledges while a fetch waits", run: func(c *consumer) {
		c.steady()
		c.produce(0, 1)
		c.hold(1)
		c.link(1).post(c.share(1))
		q := c.acknowledgement(1, 1)
		q.ShareSessionEpoch++
		c.link(1).post(q)
	}},
	{rule: "wire.throttle.1", what: "goes on", run: func(c *consumer) {
		c.steady()
		errorOnce(c.world, func(p *kmsg.ShareFetchResponse) { p.ThrottleMillis = 2000 })
		c.poll(1)
		c.wait(200 * time.Millisecond)
		c.poll(1)
	}},
	{rule: "wire.conn.1", what: "connects in a loop", run: func(c *consumer) {
		for range 25 {
			c.hello(1, "a").close()
		}
	}},
	{rule: "wire.conn.2", what: "a connection for each request", note: "had 2 connections", run: func(c *consumer) {
		c.hello(1, "a")
		c.hello(1, "a")
	}},
}

var memberMutants = []mutant{
	{rule: "share.member.join.1", what: "begins with the epoch 1", run: func(c *consumer) {
		c.find()
		c.beat(c.heartbeat(1))
	}},
	{rule: "share.member.join.2", what: "without names", run: func(c *consumer) {
		c.find()
		c.names = nil
		c.beat(c.heartbeat(0))
	}},
	{rule: "share.member.join.3", what: "an empty rack", run: func(c *consumer) {
		c.find()
		c.rack = pointer("")
		c.beat(c.heartbeat(0))
	}},
	{rule: "share.member.epoch.1", what: "keeps the first epoch", run: func(c *consumer) {
		c.steady()
		first := c.epoch
		c.consumer("b").join()
		c.pass(6 * time.Second)
		require.NotEqual(c, first, c.epoch)
		c.wait(time.Second)
		c.beat(c.heartbeat(first))
	}},
	{rule: "share.member.epoch.2", what: "the epoch -5", run: func(c *consumer) {
		c.steady()
		c.beat(c.heartbeat(-5))
	}},
	{rule: "share.member.id.1", what: "a new id after being fenced", run: func(c *consumer) {
		c.steady()
		errorOnce(c.world, func(p *kmsg.ShareGroupHeartbeatResponse) { p.ErrorCode = 110 })
		c.beat(c.heartbeat(c.epoch))
		c.member = "7e0a7c3c-2f6b-4d2e-9f1a-6a4b2f1f0c09"
		c.beat(c.heartbeat(0))
	}},
	{rule: "share.member.beat.1", what: "no heartbeats", run: func(c *consumer) {
		c.steady()
		c.wait(20 * time.Second)
	}},
	{rule: "share.member.beat.2", what: "a heartbeat for each poll", run: func(c *consumer) {
		c.steady()
		for range 30 {
			c.beat(c.heartbeat(c.epoch))
			c.wait(100 * time.Millisecond)
		}
	}},
	{rule: "share.member.beat.3", what: "does not wait", run: func(c *consumer) {
		c.steady()
		c.link(1).post(c.heartbeat(c.epoch))
		c.link(1).post(c.heartbeat(c.epoch))
	}},
	{rule: "share.member.names.1", what: "repeats the names", run: func(c *consumer) {
		c.steady()
		q := c.heartbeat(c.epoch)
		q.SubscribedTopicNames = c.names
		c.beat(q)
	}},
	{rule: "share.member.rack.1", what: "repeats the rack", run: func(c *consumer) {
		c.steady()
		q := c.heartbeat(c.epoch)
		q.RackID = pointer("r1")
		c.beat(q)
	}},
	{rule: "share.member.coord.1", what: "another node", opts: threeNodes, run: func(c *consumer) {
		c.steady()
		c.coordinator = c.coordinator%3 + 1
		c.beat(c.heartbeat(c.epoch))
	}},
	{rule: "share.member.coord.2", what: "key type 2", run: func(c *consumer) {
		q := kmsg.NewPtrFindCoordinatorRequest()
		q.Version, q.CoordinatorType, q.CoordinatorKeys = 6, 2, []string{"workers:8vVe8FdcStulRcSN5A2dvw:0"}
		c.link(1).call(q)
	}},
	{rule: "share.member.rate.1", what: "joins for ever", run: func(c *consumer) {
		c.steady()
		always(c.world, func(p *kmsg.ShareGroupHeartbeatResponse) { p.ErrorCode = 25 })
		for range 25 {
			c.beat(c.heartbeat(0))
		}
	}},
	{rule: "share.member.fence.1", what: "goes on fetching", run: func(c *consumer) {
		c.steady()
		errorOnce(c.world, func(p *kmsg.ShareGroupHeartbeatResponse) { p.ErrorCode = 110 })
		c.beat(c.heartbeat(c.epoch))
		c.wait(time.Second)
		c.sessions = map[int32]*session{}
		c.poll(1)
	}},
	{rule: "share.member.fence.1", what: "goes on with its epoch", also: []string{"share.member.join.1"}, run: func(c *consumer) {
		c.steady()
		errorOnce(c.world, func(p *kmsg.ShareGroupHeartbeatResponse) { p.ErrorCode = 25 })
		c.beat(c.heartbeat(c.epoch))
		c.beat(c.heartbeat(c.epoch))
	}},
	{rule: "share.member.leave.1", what: "closes its sessions long after it has left", run: func(c *consumer) {
		c.steady()
		c.beat(c.heartbeat(-1))
		c.wait(time.Second)
		q := c.acknowledgement(1, 1)
		q.ShareSessionEpoch = -1
		c.link(1).call(q)
		c.disconnect()
	}},
	{rule: "share.member.leave.2", what: "fetches after it has left", run: func(c *consumer) {
		c.steady()
		q := c.acknowledgement(1, 1)
		q.ShareSessionEpoch = -1
		c.link(1).call(q)
		c.beat(c.heartbeat(-1))
		c.wait(time.Second)
		c.sessions = map[int32]*session{}
		c.poll(1)
	}},
	{rule: "share.member.assign.1", what: "a partition of another member", run: func(c *consumer) {
		all := c.shared()
		c.poll(1)
		c.wait(time.Second)
		q := c.share(1)
		for _, p := range all {
			if !slices.Contains(c.assigned, p) {
				add(q, p)
			}
		}
		c.send(1, q)
	}},
	{rule: "share.member.assign.3", what: "never forgets", run: func(c *consumer) {
		c.shared()
		for range 7 {
			q := c.share(1)
			q.ForgottenTopicsData = nil
			c.send(1, q)
			c.pass(time.Second)
		}
	}},
	{rule: "share.member.assign.4", what: "takes null for empty", run: func(c *consumer) {
		c.steady()
		c.pass(12 * time.Second)
		c.assigned = nil
		c.poll(1)
	}},
	{rule: "share.member.assign.4", what: "takes empty for null", also: []string{"share.member.assign.3"}, run: func(c *consumer) {
		c.steady()
		errorOnce(c.world, func(p *kmsg.ShareGroupHeartbeatResponse) {
			p.Assignment = &kmsg.ShareGroupHeartbeatResponseAssignment{}
		})
		was := c.assigned
		c.beat(c.heartbeat(c.epoch))
		c.assigned = was
		for range 7 {
			c.poll(1)
			c.pass(time.Second)
		}
	}},
}

// shared joins and has another consumer take a partition away. It returns what was assigned before.
func (c *consumer) shared() []tp {
	c.steady()
	was := c.assigned
	c.beside = []*consumer{c.consumer("b")}
	c.beside[0].join()
	for range 10 {
		if len(c.assigned) < len(was) {
			return was
		}
		c.beat(c.heartbeat(c.epoch))
		c.wait(time.Second)
	}
	require.Fail(c, "nothing was taken away")
	return nil
}

var sessionMutants = []mutant{
	{rule: "share.session.epoch.1", what: "begins with 1", run: func(c *consumer) {
		c.join()
		q := c.share(1)
		q.ShareSessionEpoch = 1
		c.send(1, q)
	}},
	{rule: "share.session.epoch.2", what: "adds 2", run: func(c *consumer) {
		c.steady()
		c.sessions[1].epoch++
		c.poll(1)
	}},
	{rule: "share.session.epoch.2", what: "does not count acknowledgements", run: func(c *consumer) {
		c.steady()
		c.sessions[1].epoch--
		c.poll(1)
	}},
	{rule: "share.session.epoch.3", what: "acknowledges with the first request", run: func(c *consumer) {
		c.steady()
		c.produce(0, 1)
		at := c.hold(1)
		held := c.sessions[1].held[at]
		c.sessions = map[int32]*session{}
		q := c.share(1)
		acknowledge(q, at, held, 1)
		c.send(1, q)
	}},
	{rule: "share.session.epoch.4", what: "ShareAcknowledge with 0", run: func(c *consumer) {
		c.steady()
		c.produce(0, 1)
		c.hold(1)
		q := c.acknowledgement(1, 1)
		q.ShareSessionEpoch = 0
		c.sendAck(1, q)
	}},
	{rule: "share.session.epoch.5", what: "-2", run: func(c *consumer) {
		c.steady()
		c.sessions[1].epoch = -2
		c.poll(1)
	}},
	{rule: "share.session.epoch.6", what: "goes on", run: func(c *consumer) {
		c.steady()
		errorOnce(c.world, func(p *kmsg.ShareFetchResponse) { p.ErrorCode = 122 })
		c.poll(1)
		c.sessions[1].epoch++
		c.poll(1)
	}},
	{rule: "share.session.epoch.7", what: "the same epoch again", note: "the same epoch is used again", run: func(c *consumer) {
		c.steady()
		errorOnce(c.world, func(p *kmsg.ShareFetchResponse) { p.ErrorCode = 29 })
		c.poll(1)
		c.poll(1)
	}},
	{rule: "share.session.conn.1", what: "goes on over a new connection", note: "the epoch of a session whose connection has ended is used on a new one", run: func(c *consumer) {
		c.steady()
		c.link(1).close()
		c.poll(1)
	}},
	{rule: "share.session.conn.2", what: "acknowledges over another connection", run: func(c *consumer) {
		c.steady()
		c.produce(0, 1)
		c.hold(1)
		c.hello(1, "a").call(c.acknowledgement(1, 1))
	}},
	{rule: "share.session.conn.2", what: "acknowledges over another connection while a fetch waits", also: []string{"wire.flight.2"}, run: func(c *consumer) {
		c.steady()
		c.produce(0, 1)
		c.hold(1)
		fetch := c.share(1)
		c.link(1).post(fetch)
		q := c.acknowledgement(1, 1)
		q.ShareSessionEpoch++
		c.edit = func(_ kmsg.Request, p kmsg.Response) {
			switch p := p.(type) {
			case *kmsg.ShareAcknowledgeResponse:
				p.ErrorCode = 0
			case *kmsg.ShareFetchResponse:
				p.ErrorCode = 0
			}
		}
		c.hello(1, "a").call(q)
		c.took(1, fetch, c.link(1).await(fetch).(*kmsg.ShareFetchResponse))
		c.sessions[1].epoch++
		c.poll(1)
	}},
	{rule: "share.session.full.1", what: "the first partition alone", run: func(c *consumer) {
		c.join()
		c.wait(time.Second)
		q := c.share(1)
		q.Topics[0].Partitions = q.Topics[0].Partitions[:1]
		c.send(1, q)
		q = c.share(1)
		q.Topics = nil
		c.send(1, q)
	}},
	{rule: "share.session.incr.1", what: "lists all again", run: func(c *consumer) {
		c.steady()
		q := c.share(1)
		for _, p := range c.assigned {
			add(q, p)
		}
		c.send(1, q)
	}},
	{rule: "share.session.forget.1", what: "stays with what it only acknowledges", run: func(c *consumer) {
		c.steady()
		c.produce(0, 1)
		c.produce(1, 1)
		c.hold(1)
		c.hold(1)
		was := c.assigned
		c.consumer("b").join()
		for range 10 {
			if len(c.assigned) < len(was) {
				break
			}
			c.beat(c.heartbeat(c.epoch))
			c.wait(500 * time.Millisecond)
		}
		c.poll(1)
		q := c.share(1)
		for _, p := range was {
			if !slices.Contains(c.assigned, p) {
				acknowledge(q, p, c.sessions[1].held[p], 1)
			}
		}
		c.send(1, q)
		for range 2 {
			q := c.share(1)
			q.ForgottenTopicsData = nil
			c.send(1, q)
		}
	}},
	{rule: "share.session.forget.2", what: "a partition that is not in the session", run: func(c *consumer) {
		c.steady()
		q := c.share(1)
		forget(q, tp{c.assigned[0].id, 9})
		c.send(1, q)
	}},
	{rule: "share.session.close.1", what: "twice", run: func(c *consumer) {
		c.steady()
		c.sessions[1].epoch = -1
		c.link(1).call(c.acknowledgement(1, 1))
		c.link(1).call(c.acknowledgement(1, 1))
	}},
	{rule: "share.session.close.1", what: "never", run: func(c *consumer) {
		c.steady()
		c.beat(c.heartbeat(-1))
		c.disconnect()
	}},
	{rule: "share.session.close.2", what: "goes on", run: func(c *consumer) {
		c.steady()
		q := c.acknowledgement(1, 1)
		q.ShareSessionEpoch = -1
		c.link(1).call(q)
		c.poll(1)
	}},
	{rule: "share.session.close.3", what: "stays open", note: "stays open for more than 10s", run: func(c *consumer) {
		c.steady()
		errorOnce(c.world, func(p *kmsg.ShareGroupHeartbeatResponse) {
			p.Assignment = &kmsg.ShareGroupHeartbeatResponseAssignment{}
		})
		c.beat(c.heartbeat(c.epoch))
		for range 12 {
			c.poll(1)
			c.pass(time.Second)
		}
	}},
	{rule: "share.session.close.4", what: "adds when it closes", run: func(c *consumer) {
		c.steady()
		q := c.share(1)
		q.ShareSessionEpoch = -1
		add(q, c.assigned[0])
		c.send(1, q)
	}},
	{rule: "share.session.node.1", what: "everything from one node", opts: threeNodes, run: func(c *consumer) {
		c.join()
		c.wait(time.Second)
		wrong := c.leaders[c.assigned[0]]%3 + 1
		q := c.share(wrong)
		q.Topics = nil
		add(q, c.assigned[0])
		c.send(wrong, q)
	}},
}

// acknowledge puts acknowledgements into a ShareFetch.
func acknowledge(q *kmsg.ShareFetchRequest, p tp, ranges []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord, kind int8) {
	var at *kmsg.ShareFetchRequestTopicPartition
	for i := range q.Topics {
		for k := range q.Topics[i].Partitions {
			if q.Topics[i].TopicID == p.id && q.Topics[i].Partitions[k].Partition == p.partition {
				at = &q.Topics[i].Partitions[k]
			}
		}
	}
	if at == nil {
		at = add(q, p)
	}
	for _, r := range ranges {
		at.AcknowledgementBatches = append(at.AcknowledgementBatches, kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{FirstOffset: r.FirstOffset, LastOffset: r.LastOffset, AcknowledgeTypes: []int8{kind}})
	}
}

// editPartitions changes the partitions of all answers to ShareFetch.
func editPartitions(w *world, set func(*kmsg.ShareFetchResponseTopicPartition)) {
	always(w, func(p *kmsg.ShareFetchResponse) {
		for i := range p.Topics {
			for k := range p.Topics[i].Partitions {
				set(&p.Topics[i].Partitions[k])
			}
		}
	})
}

// hinted fetches from a node that an answer named as the leader of the first partition.
func (c *consumer) hinted(code int16, epoch int32) {
	c.join()
	c.wait(time.Second)
	at := c.assigned[0]
	real := c.leaders[at]
	other := real%3 + 1
	editPartitions(c.world, func(p *kmsg.ShareFetchResponseTopicPartition) {
		if p.Partition == at.partition {
			p.ErrorCode, p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = code, other, epoch
		}
	})
	c.poll(real)
	c.edit = nil
	c.wait(time.Second)
	q := c.share(other)
	q.Topics = nil
	add(q, at)
	c.send(other, q)
}

var fetchMutants = []mutant{
	{rule: "share.fetch.renew.1", what: "renews and waits", run: func(c *consumer) {
		c.steady()
		c.produce(0, 1)
		at := c.hold(1)
		q := c.share(1)
		q.IsRenewAck = true
		acknowledge(q, at, c.sessions[1].held[at], 4)
		c.send(1, q)
	}},
	{rule: "share.fetch.mode.1", what: "alternates", run: func(c *consumer) {
		c.steady()
		q := c.share(1)
		q.ShareAcquireMode = 1
		c.send(1, q)
	}},
	{rule: "share.fetch.limit.1", what: "asks all nodes at once", opts: threeNodes, run: func(c *consumer) {
		c.join()
		require.Len(c, c.nodes(), 2)
		for _, n := range c.nodes() {
			q := c.share(n)
			q.ShareAcquireMode = 1
			c.link(n).post(q)
		}
	}},
	{rule: "share.fetch.hold.1", what: "never acknowledges", run: func(c *consumer) {
		c.steady()
		for range 5 {
			c.produce(0, 10)
			q := c.share(1)
			q.MaxRecords = 5
			c.send(1, q)
		}
	}},
	{rule: "share.fetch.rate.1", what: "does not wait", run: func(c *consumer) {
		c.steady()
		c.maxWait = 0
		for range 170 {
			c.poll(1)
		}
	}},
	{rule: "share.fetch.rate.2", what: "does not back off", run: func(c *consumer) {
		c.steady()
		always(c.world, func(p *kmsg.ShareFetchResponse) { p.ErrorCode = 29 })
		c.maxWait = 0
		for range 25 {
			c.poll(1)
		}
	}},
	{rule: "share.fetch.meta.1", what: "asks nobody", run: func(c *consumer) {
		c.steady()
		c.produce(0, 1)
		editPartitions(c.world, func(p *kmsg.ShareFetchResponseTopicPartition) {
			p.ErrorCode, p.AcquiredRecords, p.Records = 6, nil, []byte{}
			p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = -1, -1
		})
		c.poll(1)
		c.pass(3 * time.Second)
	}},
	{rule: "share.fetch.meta.2", what: "Metadata for each fetch", run: func(c *consumer) {
		c.steady()
		for range 40 {
			c.metadata()
		}
	}},
	{rule: "share.fetch.hint.1", what: "follows what has no error", also: []string{"share.session.node.1"}, opts: threeNodes, run: func(c *consumer) { c.hinted(0, 5) }},
	{rule: "share.fetch.hint.2", what: "follows an old epoch", also: []string{"share.session.node.1"}, opts: threeNodes, run: func(c *consumer) { c.hinted(6, 0) }},
	{rule: "share.fetch.hint.3", what: "follows it at once", note: "followed without asking", opts: threeNodes, run: func(c *consumer) { c.hinted(6, 5) }},
	{rule: "share.fetch.values.1", what: "7 records", note: "MaxRecords 7,", run: func(c *consumer) {
		c.steady()
		q := c.share(1)
		q.MaxRecords = 7
		c.send(1, q)
	}},
}

// sent has records held whose bytes are what make makes of their offsets.
func (c *consumer) sent(n int, make func(first int64) []byte) tp {
	c.steady()
	c.produce(0, n)
	editPartitions(c.world, func(p *kmsg.ShareFetchResponseTopicPartition) {
		if len(p.AcquiredRecords) > 0 {
			p.Records = make(p.AcquiredRecords[0].FirstOffset)
		}
	})
	at := c.hold(1)
	c.edit = nil
	return at
}

// withHole makes a batch of three offsets without a record at the second.
func (c *consumer) withHole(first int64) []byte {
	b := protocol.NewBatchBuilder()
	b.BaseOffset = first
	require.NoError(c, b.Reset(nil))
	require.NoError(c, b.Append(1, nil, []byte("v")))
	b.SkipTo(2)
	require.NoError(c, b.Append(1, nil, []byte("v")))
	out, err := b.Finish()
	require.NoError(c, err)
	return out
}

func marker(first int64) []byte {
	b := protocol.EndTxnMarker(1, 0, 0, protocol.ControlCommit, 1)
	protocol.SetBatchOffset(b, first, 0)
	return b
}

// damaged makes a batch whose checksum is wrong.
func (c *consumer) damaged(first int64) []byte {
	b := c.batch(1)
	protocol.SetBatchOffset(b, first, 0)
	b[len(b)-1]++
	return b
}

// held holds one record.
func (c *consumer) held() tp {
	c.steady()
	c.produce(0, 10)
	return c.hold(1)
}

// one makes a ShareAcknowledge of one batch.
func (c *consumer) one(p tp, first, last int64, types ...int8) *kmsg.ShareAcknowledgeRequest {
	q := c.acknowledgement(1, 1)
	q.Topics = []kmsg.ShareAcknowledgeRequestTopic{{TopicID: p.id, Partitions: []kmsg.ShareAcknowledgeRequestTopicPartition{{
		Partition: p.partition, AcknowledgementBatches: []kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{{FirstOffset: first, LastOffset: last, AcknowledgeTypes: types}},
	}}}}
	return q
}

// and adds a batch.
func and(q *kmsg.ShareAcknowledgeRequest, first, last int64, types ...int8) *kmsg.ShareAcknowledgeRequest {
	p := &q.Topics[0].Partitions[0]
	p.AcknowledgementBatches = append(p.AcknowledgementBatches, kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{FirstOffset: first, LastOffset: last, AcknowledgeTypes: types})
	return q
}

var acknowledgeMutants = []mutant{
	{rule: "share.ack.owner.1", what: "what was never acquired", run: func(c *consumer) {
		at := c.held()
		c.sendAck(1, c.one(at, 900, 900, 1))
	}},
	{rule: "share.ack.owner.2", what: "to another node", opts: threeNodes, run: func(c *consumer) {
		c.steady()
		at := c.assigned[0]
		from := c.leaders[at]
		c.produce(at.partition, 1)
		c.hold(from)
		held := c.sessions[from].held[at]
		for _, n := range c.nodes() {
			if n != from {
				q := c.one(at, held[0].FirstOffset, held[0].LastOffset, 1)
				q.ShareSessionEpoch = c.sessions[n].epoch
				c.sendAck(n, q)
			}
		}
	}},
	{rule: "share.ack.once.1", what: "twice", run: func(c *consumer) {
		at := c.held()
		c.sendAck(1, c.one(at, 10, 19, 1))
		c.sendAck(1, c.one(at, 10, 19, 1))
	}},
	{rule: "share.ack.once.2", what: "accepts, then rejects", also: []string{"share.ack.once.1"}, run: func(c *consumer) {
		at := c.held()
		c.sendAck(1, c.one(at, 10, 19, 1))
		c.sendAck(1, c.one(at, 10, 19, 3))
	}},
	{rule: "share.ack.order.1", what: "descends", run: func(c *consumer) {
		at := c.held()
		c.sendAck(1, and(c.one(at, 15, 19, 1), 10, 14, 1))
	}},
	{rule: "share.ack.order.2", what: "ends before it begins", run: func(c *consumer) {
		at := c.held()
		c.sendAck(1, c.one(at, 12, 11, 1))
	}},
	{rule: "share.ack.types.1", what: "three types for ten", run: func(c *consumer) {
		at := c.held()
		c.sendAck(1, c.one(at, 10, 19, 1, 1, 1))
	}},
	{rule: "share.ack.types.1", what: "no type", run: func(c *consumer) {
		at := c.held()
		c.sendAck(1, c.one(at, 10, 19))
	}},
	{rule: "share.ack.types.2", what: "type 5", run: func(c *consumer) {
		at := c.held()
		c.sendAck(1, c.one(at, 10, 19, 5))
	}},
	{rule: "share.ack.renew.1", what: "without the flag", run: func(c *consumer) {
		at := c.held()
		c.sendAck(1, c.one(at, 10, 19, 4))
	}},
	{rule: "share.ack.renew.2", what: "always the flag", run: func(c *consumer) {
		at := c.held()
		q := c.one(at, 10, 19, 1)
		q.IsRenewAck = true
		c.sendAck(1, q)
	}},
	{rule: "share.ack.gap.1", what: "GAP for records", run: func(c *consumer) {
		at := c.held()
		c.sendAck(1, c.one(at, 10, 19, 0))
	}},
	{rule: "share.ack.gap.2", what: "never acknowledges holes", run: func(c *consumer) {
		at := c.sent(3, c.withHole)
		c.sendAck(1, and(c.one(at, 10, 10, 1), 12, 12, 1))
		for range 7 {
			c.pass(time.Second)
			c.poll(1)
		}
	}},
	{rule: "share.ack.gap.3", what: "accepts markers", run: func(c *consumer) {
		at := c.sent(1, marker)
		c.sendAck(1, c.one(at, 10, 10, 1))
	}},
	{rule: "share.ack.bad.1", what: "accepts", run: func(c *consumer) {
		at := c.sent(1, c.damaged)
		c.sendAck(1, c.one(at, 10, 10, 1))
	}},
	{rule: "share.ack.bad.1", what: "GAP", run: func(c *consumer) {
		at := c.sent(1, c.damaged)
		c.sendAck(1, c.one(at, 10, 10, 0))
	}},
	{rule: "share.ack.bad.2", what: "releases", note: "acknowledged with type 2", run: func(c *consumer) {
		at := c.sent(1, c.damaged)
		c.sendAck(1, c.one(at, 10, 10, 2))
	}},
	{rule: "share.ack.done.1", what: "goes with records open", also: []string{"share.session.close.1"}, run: func(c *consumer) {
		c.held()
		c.beat(c.heartbeat(-1))
		c.disconnect()
	}},
	{rule: "share.ack.done.2", what: "too late", run: func(c *consumer) {
		c.held()
		c.pass(16 * time.Second)
	}},
	{rule: "share.ack.retry.1", what: "after INVALID_RECORD_STATE", run: func(c *consumer) {
		at := c.held()
		errorOnce(c.world, func(p *kmsg.ShareAcknowledgeResponse) { p.Topics[0].Partitions[0].ErrorCode = 121 })
		c.sendAck(1, c.one(at, 10, 19, 1))
		c.sendAck(1, c.one(at, 10, 19, 1))
	}},
	{rule: "share.ack.retry.2", what: "for ever", run: func(c *consumer) {
		at := c.held()
		always(c.world, func(p *kmsg.ShareAcknowledgeResponse) { p.Topics[0].Partitions[0].ErrorCode = 7 })
		for range 25 {
			c.sendAck(1, c.one(at, 10, 19, 1))
			c.pass(200 * time.Millisecond)
		}
	}},
	{rule: "share.ack.lost.1", what: "after its connection is lost", run: func(c *consumer) {
		at := c.held()
		c.link(1).close()
		c.sessions = map[int32]*session{}
		q := c.share(1)
		q.MaxRecords, q.MaxBytes = 0, 0
		c.send(1, q)
		c.sendAck(1, c.one(at, 10, 19, 1))
	}},
	{rule: "share.ack.size.1", what: "neighbours apart", note: "are not one", run: func(c *consumer) {
		at := c.held()
		c.sendAck(1, and(c.one(at, 10, 14, 1), 15, 19, 1))
	}},
}
