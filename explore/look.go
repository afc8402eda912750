package explore

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"kshare"
	"kshare/protocol/describe"
	"kshare/scenario"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
	"kshare/txn"
)

// limits bound what is taken of a cluster for a view.
var limits = kshare.Limits{Topics: MaxTopics, Partitions: MaxPartitions, SharePartitions: MaxPartitions, Runs: MaxRuns, Groups: MaxGroups, Members: MaxMembers, Transactions: MaxTransactions,
	Timers: 4 * MaxTimers}

// names are those that a script has for ids.
type names interface {
	Name(member string) string
	ProducerName(id int64) string
	TopicName(id [16]byte) string
}

// looker makes views.
type looker struct {
	names  names // nil where nobody has names
	topics map[[16]byte]string
}

// member is the name of a member.
func (l *looker) member(id string) string {
	if l.names == nil || id == "" {
		return clip(id)
	}
	return clip(l.names.Name(id))
}

// producer is the name of a producer.
func (l *looker) producer(id int64) string {
	if l.names != nil {
		if name := l.names.ProducerName(id); name != "" {
			return name
		}
	}
	return strconv.FormatInt(id, 10)
}

// topic is the name of a topic, or its id where it is gone.
func (l *looker) topic(id [16]byte) string {
	if name, ok := l.topics[id]; ok {
		return name
	}
	if l.names != nil {
		if name := l.names.TopicName(id); name != "" {
			return name
		}
	}
	return describe.UUIDText(id)
}

// empty is a view of nothing.
func empty(now time.Time, virtual bool) *View {
	return &View{Time: now.UTC(), Virtual: virtual, Nodes: []Node{}, Topics: []Topic{}, SharePartitions: []SharePartition{}, Groups: []Group{}, Transactions: []Transaction{}, Markers: []Marker{},
		StateLog: []StateRecord{}, DeadLetters: []DeadLetter{}, Timers: []Timer{}, Faults: []Fault{}, Background: []string{}}
}

// look makes a view of a cluster and what its hub remembers.
func look(c *kshare.Cluster, h *hub, n names, virtual bool) *View {
	s := c.InspectAll(limits)
	v := empty(s.At, virtual)
	l := &looker{names: n, topics: map[[16]byte]string{}}
	if s.KIP1289 != nil {
		v.KIP1289 = &KIP1289{s.KIP1289}
	}
	for _, n := range s.Nodes {
		v.Nodes = append(v.Nodes, Node{n.ID, net.JoinHostPort(n.Host, strconv.Itoa(int(n.Port))), n.Runs, n.CutOff, n.Fenced})
	}
	for i := range s.Topics {
		l.topics[s.Topics[i].ID] = s.Topics[i].Name
		v.Topics = append(v.Topics, topicOf(&s.Topics[i]))
	}
	for i := range s.SharePartitions {
		v.SharePartitions = append(v.SharePartitions, l.sharePartition(&s.SharePartitions[i], s.At))
	}
	l.groups(v, s)
	for i := range s.Transactions {
		v.Transactions = append(v.Transactions, l.transaction(&s.Transactions[i]))
	}
	for i := range s.Faults {
		f := &s.Faults[i]
		name := f.Rule.Name
		rule := f.Rule
		rule.Name = ""
		if name == "" {
			name = fmt.Sprintf("fault %d", f.ID)
		}
		v.Faults = append(v.Faults, Fault{name, rule.String(), f.Matches, f.Acts})
	}
	l.logs(v, h)
	left := s.More
	v.More = More{left.Topics, left.Partitions, left.SharePartitions, left.Runs, left.Groups, left.Members, left.Transactions, left.Timers}
	l.timers(v, s)
	return v
}

func topicOf(t *kshare.TopicState) Topic {
	x := Topic{Name: t.Name, ID: describe.UUIDText(t.ID), Internal: t.Internal, DeadLetter: t.DeadLetters, Partitions: []Partition{}}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		x.Partitions = append(x.Partitions, Partition{int32(i), p.Leader, p.LeaderEpoch, append([]int32{}, p.Replicas...), p.StartOffset, p.EndOffset, p.HighWatermark, p.LastStableOffset})
	}
	return x
}

func (l *looker) sharePartition(s *kshare.GroupPartitionState, now time.Time) SharePartition {
	x := SharePartition{Group: clip(s.Group), Topic: s.Topic, Partition: s.Partition, Known: s.Known, StartOffset: s.StartOffset, EndOffset: s.EndOffset, InFlight: s.InFlight,
		MaxInFlight: s.MaxInFlight, Waiting: s.Waiting, Runs: l.runs(s.Runs, now)}
	if s.Persisted != nil {
		x.Persisted = l.persisted(s.Persisted.StateEpoch, s.Persisted.LeaderEpoch, s.Persisted.StartOffset, s.Persisted.DeliveryCompleteCount, s.Persisted.Batches)
	}
	return x
}

// runs are runs of records of which neighbours differ in more than their batch.
func (l *looker) runs(all []sharepartition.Run, now time.Time) []Run {
	runs := []Run{}
	var before sharepartition.Run
	for _, r := range all {
		same := r
		same.FirstOffset, same.LastOffset, same.Batch, same.Split = before.FirstOffset, before.LastOffset, before.Batch, before.Split
		if len(runs) > 0 && same == before && before.LastOffset+1 == r.FirstOffset {
			runs[len(runs)-1].Last = r.LastOffset
			before.LastOffset = r.LastOffset
			continue
		}
		before = r
		x := Run{First: r.FirstOffset, Last: r.LastOffset, State: r.State.String(), DeliveryCount: int(r.DeliveryCount), Member: l.member(r.Member), Pending: r.Pending}
		if r.LockLeft > 0 {
			at := now.Add(r.LockLeft).UTC()
			x.LockEnds = &at
		}
		if r.State == sharepartition.TxPending {
			x.Producer = l.staged(r.Staged.ProducerID, r.Staged.ProducerEpoch, r.Staged.Type)
		}
		runs = append(runs, x)
	}
	return runs
}

func (l *looker) staged(id int64, epoch int16, kind int8) *Staged {
	return &Staged{l.producer(id), id, epoch, scenario.AcknowledgeTypeName(kind)}
}

func (l *looker) persisted(stateEpoch, leaderEpoch int32, start int64, complete int32, batches []sharecoordinator.Batch) *Persisted {
	x := &Persisted{stateEpoch, leaderEpoch, start, complete, []PersistedBatch{}}
	for i := range batches {
		b := &batches[i]
		y := PersistedBatch{First: b.FirstOffset, Last: b.LastOffset, State: stateName(b.State), DeliveryCount: int(b.DeliveryCount)}
		if b.State == int8(sharepartition.TxPending) {
			y.Producer = l.staged(b.Staged.ProducerID, b.Staged.ProducerEpoch, b.Staged.Type)
		}
		x.Batches = append(x.Batches, y)
	}
	return x
}

func (l *looker) groups(v *View, s *kshare.Snapshot) {
	sessions := map[[2]string][]ShareSession{}
	for i := range s.Sessions {
		x := &s.Sessions[i]
		k := [2]string{x.Group, x.Member}
		sessions[k] = append(sessions[k], ShareSession{x.Node, x.Epoch, partitionTexts(x.Partitions)})
	}
	for i := range s.Groups {
		g := &s.Groups[i]
		x := Group{ID: clip(g.ID), Type: g.Type, State: g.State, Epoch: g.Epoch, Members: []Member{}, Offsets: []CommittedOffset{}}
		for j := range g.Members {
			m := &g.Members[j]
			y := Member{ID: clip(m.ID), Name: l.member(m.ID), ClientID: clip(m.ClientID), Epoch: m.Epoch, PreviousEpoch: m.PreviousEpoch, State: m.State, Subscribed: firstNames(m.Subscribed),
				Assigned: []string{}, Sessions: append([]ShareSession{}, sessions[[2]string{g.ID, m.ID}]...), Expires: timeOf(m.Expires)}
			if m.InstanceID != nil {
				y.Instance = clip(*m.InstanceID)
			}
			for _, t := range m.Assigned {
				name := t.Topic
				if name == "" {
					name = describe.UUIDText(t.ID)
				}
				for _, p := range t.Partitions {
					if len(y.Assigned) < MaxPartitions {
						y.Assigned = append(y.Assigned, partitionText(name, p))
					}
				}
			}
			x.Members = append(x.Members, y)
		}
		for _, o := range g.Offsets {
			x.Offsets = append(x.Offsets, CommittedOffset(o))
		}
		v.Groups = append(v.Groups, x)
	}
}

func (l *looker) transaction(t *kshare.TransactionState) Transaction {
	x := Transaction{TransactionalID: clip(t.ID), Producer: l.producer(t.ProducerID), ProducerID: t.ProducerID, ProducerEpoch: t.ProducerEpoch, State: t.State, TimeoutMs: t.Timeout.Milliseconds(),
		TwoPhase: t.TwoPhase, Expires: timeOf(t.Aborts), Partitions: partitionTexts(t.Partitions), Staged: []StagedRecords{}}
	if t.State == txn.Ongoing.String() || t.State == txn.PrepareAbort.String() || t.State == txn.PrepareCommit.String() {
		x.Began = timeOf(t.Began)
	}
	for _, r := range t.Staged {
		x.Staged = append(x.Staged, StagedRecords{clip(r.Group), r.Topic, r.Partition, r.FirstOffset, r.LastOffset})
	}
	return x
}

// logs are the lists that grow.
func (l *looker) logs(v *View, h *hub) {
	h.mu.Lock()
	v.grown = [3]int{h.markers.total, h.states.total, h.deadLetters.total}
	markers, states, dead := slices.Clone(h.markers.last), slices.Clone(h.states.last), slices.Clone(h.deadLetters.last)
	h.mu.Unlock()
	for _, m := range markers {
		m.Producer = l.producer(m.ProducerID)
		v.Markers = append(v.Markers, m)
	}
	for i := range states {
		v.StateLog = append(v.StateLog, l.stateRecord(&states[i]))
	}
	v.DeadLetters = append(v.DeadLetters, dead...)
}

func (l *looker) stateRecord(s *stateRecord) StateRecord {
	r := &s.record
	x := StateRecord{LogPartition: s.partition, Offset: s.offset, Time: s.at, Type: "tombstone", Group: clip(r.Key.Group), Topic: l.topic(r.Key.Topic), Partition: r.Key.Partition}
	switch {
	case r.Snapshot != nil:
		x.Type, x.SnapshotEpoch = "ShareSnapshot", r.Snapshot.SnapshotEpoch
		x.State = l.persisted(r.Snapshot.StateEpoch, r.Snapshot.LeaderEpoch, r.Snapshot.StartOffset, r.Snapshot.DeliveryCompleteCount, r.Snapshot.Batches)
	case r.Update != nil:
		x.Type, x.SnapshotEpoch = "ShareUpdate", r.Update.SnapshotEpoch
		x.State = l.persisted(-1, r.Update.LeaderEpoch, r.Update.StartOffset, r.Update.DeliveryCompleteCount, r.Update.Batches)
	}
	return x
}

// timers are the next things that are due.
func (l *looker) timers(v *View, s *kshare.Snapshot) {
	all := []Timer{}
	type lock struct {
		at     time.Time
		member string
	}
	for i := range v.SharePartitions {
		p := &v.SharePartitions[i]
		locks := map[lock][]string{}
		for _, r := range p.Runs {
			if r.LockEnds != nil {
				k := lock{*r.LockEnds, r.Member}
				locks[k] = append(locks[k], offsets(r.First, r.Last))
			}
		}
		for k, of := range locks {
			if len(of) > 5 {
				of = append(of[:5:5], "...")
			}
			all = append(all, Timer{k.at, "lock", fmt.Sprintf("the lock of %s on %s %s ends", k.member, partitionText(p.Topic, p.Partition), strings.Join(of, ", "))})
		}
	}
	for i := range v.Groups {
		g := &v.Groups[i]
		for _, m := range g.Members {
			if m.Expires != nil {
				all = append(all, Timer{*m.Expires, "session", fmt.Sprintf("%s is removed from %s unless it is heard of", m.Name, g.ID)})
			}
		}
	}
	for _, t := range v.Transactions {
		if t.Expires != nil {
			all = append(all, Timer{*t.Expires, "transaction", fmt.Sprintf("the transaction of %s is aborted", t.TransactionalID)})
		}
	}
	for _, t := range s.Timers {
		x := Timer{At: t.At.UTC(), Kind: "other", Text: t.What}
		switch {
		case t.Kind == kshare.TimerWait && t.Member != "":
			x.Kind, x.Text = "wait", fmt.Sprintf("%s of %s waits no longer for records of %s", l.member(t.Member), clip(t.Group), joined(partitionTexts(t.Partitions)))
		case t.Kind == kshare.TimerWait:
			x.Kind, x.Text = "wait", fmt.Sprintf("client %s waits no longer for records of %s", clip(t.Client), joined(partitionTexts(t.Partitions)))
		case t.Group != "":
			what, member, _ := strings.Cut(t.What, " ")
			x.Text = strings.TrimSpace(fmt.Sprintf("group %s: %s %s", clip(t.Group), what, l.member(member)))
		}
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b Timer) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text))
	})
	if n := len(all) - MaxTimers; n > 0 {
		all = all[:MaxTimers]
		v.More.Timers += n
	}
	v.Timers = all
}

// joined is a list in words, of its first entries.
func joined(all []string) string {
	const most = 5
	if len(all) > most {
		return strings.Join(all[:most], ", ") + fmt.Sprintf(" and %d more", len(all)-most)
	}
	return strings.Join(all, ", ")
}

func partitionText(topic string, partition int32) string {
	return topic + "-" + strconv.Itoa(int(partition))
}

func partitionTexts(all []txn.TopicPartition) []string {
	texts := []string{}
	for _, p := range all {
		texts = append(texts, partitionText(p.Topic, p.Partition))
	}
	return texts
}

// offsets writes a range of offsets, both inclusive.
func offsets(first, last int64) string {
	if first == last {
		return strconv.FormatInt(first, 10)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// timeOf is a time as a view has it, nil for none.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
