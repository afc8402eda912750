package control

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"kshare"
	"kshare/clock"
	"kshare/internal/jsonhttp"
	"kshare/protocol/describe"
	"kshare/sharepartition"
)

// Cluster is the cluster and its nodes.
type Cluster struct {
	ID    string `json:"id"`
	Nodes []Node `json:"nodes" doc:"in the order of their ids"`
	Time  Time   `json:"time"`
}

// Node is a broker of the cluster.
type Node struct {
	ID      int32  `json:"id"`
	Address string `json:"address" doc:"host:port as clients are told"`
	Runs    bool   `json:"runs" doc:"it was not stopped"`
	CutOff  bool   `json:"cutOff" doc:"it is cut off from clients and the other nodes"`
	Fenced  bool   `json:"fenced" doc:"the others have given it up"`
}

// Time is the time of the cluster.
type Time struct {
	Clock     string     `json:"clock" values:"virtual,machine" doc:"a virtual clock moves when it is told, the machine's by itself"`
	Now       time.Time  `json:"now"`
	NextTimer *time.Time `json:"nextTimer" doc:"when the next thing happens that waits for a time; null where nothing does before the year 10000 and on the machine's clock"`
}

func (s *server) getCluster(context.Context, *struct{}) (*Cluster, error) {
	c := &Cluster{ID: s.cluster.ID(), Time: s.time()}
	for _, n := range s.cluster.InspectNodes() {
		c.Nodes = append(c.Nodes, Node{n.ID, net.JoinHostPort(n.Host, strconv.Itoa(int(n.Port))), n.Runs, n.CutOff, n.Fenced})
	}
	return c, nil
}

func (s *server) reset(context.Context, *struct{}) (*nothing, error) {
	s.moving.Lock()
	defer s.moving.Unlock()
	err := s.cluster.Reset()
	if errors.Is(err, kshare.ErrNotInMemory) {
		return nil, jsonhttp.Refuse(http.StatusConflict, "%v: start another one in its place", err)
	}
	s.shareWriteFaults.forget()
	s.markerFaults.forget()
	return &nothing{}, err
}

func (s *server) time() Time {
	v, ok := s.cluster.Clock().(*clock.Virtual)
	if !ok {
		return Time{Clock: "machine", Now: s.cluster.Clock().Now().UTC()}
	}
	t := Time{Clock: "virtual", Now: v.Now().UTC()}
	if next, ok := v.NextDeadline(); ok && next.UTC().Year() <= 9999 {
		next = next.UTC()
		t.NextTimer = &next
	}
	return t
}

func (s *server) getTime(context.Context, *struct{}) (*Time, error) {
	t := s.time()
	return &t, nil
}

// virtual is the cluster's clock, where it moves when it is told.
func (s *server) virtual() (*clock.Virtual, error) {
	if v, ok := s.cluster.Clock().(*clock.Virtual); ok {
		return v, nil
	}
	return nil, jsonhttp.Refuse(http.StatusConflict, "the cluster lives by the machine's clock, which cannot be moved: start kshare with --clock virtual")
}

type advance struct {
	By time.Duration `json:"by" doc:"how far, 24000h at most; no time after the year 9998 is reached"`
}

// maxAdvance is how far one request may move time.
const maxAdvance = 1000 * 24 * time.Hour

func (s *server) advance(ctx context.Context, q *advance) (*Time, error) {
	v, err := s.virtual()
	if err != nil {
		return nil, err
	}
	if q.By < 0 || q.By > maxAdvance {
		return nil, jsonhttp.Refuse(http.StatusBadRequest, "by: %s is not a duration from 0s to %s", q.By, maxAdvance)
	}
	s.moving.Lock()
	defer s.moving.Unlock()
	end := v.Now().Add(q.By)
	if err := reachable(end); err != nil {
		return nil, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err // nobody waits any more
		}
		v.AdvanceToNext(end)
		if !v.Now().Before(end) {
			break
		}
	}
	t := s.time()
	return &t, nil
}

// reachable refuses to move time to where answers could not say it.
func reachable(end time.Time) error {
	if err := clock.CheckReach(end); err != nil {
		return jsonhttp.Refuse(http.StatusConflict, "%v", err)
	}
	return nil
}

func (s *server) advanceToNextTimer(context.Context, *struct{}) (*Time, error) {
	v, err := s.virtual()
	if err != nil {
		return nil, err
	}
	s.moving.Lock()
	defer s.moving.Unlock()
	next, ok := v.NextDeadline()
	if !ok {
		return nil, jsonhttp.Refuse(http.StatusConflict, "nothing in the cluster waits for a time")
	}
	if err := reachable(next); err != nil {
		return nil, err
	}
	v.AdvanceToNext(next)
	t := s.time()
	return &t, nil
}

// Topics is all topics.
type Topics struct {
	Topics []Topic `json:"topics" doc:"in the order of their names, internal ones included"`
}

// Topic is a topic.
type Topic struct {
	Name       string      `json:"name"`
	ID         string      `json:"id" doc:"as Kafka's tools show it"`
	Internal   bool        `json:"internal"`
	Partitions []Partition `json:"partitions"`
}

// Partition is a partition of a topic.
type Partition struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader" doc:"a node's id, -1 for none"`
	LeaderEpoch int32   `json:"leaderEpoch"`
	Replicas    []int32 `json:"replicas"`
	StartOffset int64   `json:"startOffset" doc:"of the first record"`
	EndOffset   int64   `json:"endOffset" doc:"of the next record"`
}

func (s *server) getTopics(context.Context, *struct{}) (*Topics, error) {
	all := &Topics{Topics: []Topic{}}
	for _, t := range s.cluster.InspectTopics() {
		x := Topic{Name: t.Name, ID: describe.UUIDText(t.ID), Internal: t.Internal}
		for i, p := range t.Partitions {
			x.Partitions = append(x.Partitions, Partition{int32(i), p.Leader, p.LeaderEpoch, p.Replicas, p.StartOffset, p.EndOffset})
		}
		all.Topics = append(all.Topics, x)
	}
	return all, nil
}

// Groups is all groups.
type Groups struct {
	Groups []Group `json:"groups" doc:"in the order of their ids"`
}

// Group is a group.
type Group struct {
	ID      string   `json:"id"`
	Type    string   `json:"type" values:"classic,consumer,share"`
	State   string   `json:"state" doc:"as Kafka names it: Stable, Empty and so on"`
	Members []Member `json:"members" doc:"in the order of their ids"`
}

// Member is a member of a group.
type Member struct {
	ID         string  `json:"id"`
	InstanceID *string `json:"instanceId" doc:"null for a member that is not static"`
	ClientID   string  `json:"clientId"`
	ClientHost string  `json:"clientHost"`
	Epoch      int32   `json:"epoch" doc:"the generation of a classic group"`
}

func (s *server) getGroups(context.Context, *struct{}) (*Groups, error) {
	all := &Groups{Groups: []Group{}}
	for _, g := range s.cluster.InspectGroups() {
		x := Group{ID: g.ID, Type: g.Type, State: g.State, Members: []Member{}}
		for _, m := range g.Members {
			x.Members = append(x.Members, Member{m.ID, m.InstanceID, m.ClientID, m.ClientHost, m.Epoch})
		}
		all.Groups = append(all.Groups, x)
	}
	return all, nil
}

type sharePartition struct {
	Group     string `query:"group" doc:"a share group"`
	Topic     string `query:"topic"`
	Partition int32  `query:"partition"`
}

// SharePartition is the state of a share partition.
type SharePartition struct {
	Known       bool       `json:"known" doc:"the leader has read the state; the fields up to waiting mean nothing where it has not"`
	StartOffset int64      `json:"startOffset" doc:"what lies below is done with"`
	EndOffset   int64      `json:"endOffset" doc:"what lies from here on was never handed out"`
	InFlight    int64      `json:"inFlight" doc:"how many records count against the limit of record locks"`
	Runs        []Run      `json:"runs" doc:"the records in flight, in the order of their offsets"`
	Waiting     int        `json:"waiting" doc:"how many fetches wait for records"`
	Persisted   *Persisted `json:"persisted" doc:"what the share coordinator keeps, null where it keeps nothing"`
}

// Run is neighbouring records that are alike.
type Run struct {
	FirstOffset   int64  `json:"firstOffset"`
	LastOffset    int64  `json:"lastOffset" doc:"inclusive"`
	State         string `json:"state" values:"AVAILABLE,ACQUIRED,TX_PENDING,ACKNOWLEDGED,ARCHIVING,ARCHIVED"`
	DeliveryCount int16  `json:"deliveryCount"`
	Member        string `json:"member" doc:"who holds the records, or nobody"`
	LockLeftMs    int64  `json:"lockLeftMs" doc:"until the lock ends, 0 without a lock"`
	Pending       bool   `json:"pending" doc:"the write of this state is unanswered"`
}

// Persisted is what the share coordinator keeps of a share partition.
type Persisted struct {
	StateEpoch            int32            `json:"stateEpoch"`
	LeaderEpoch           int32            `json:"leaderEpoch"`
	StartOffset           int64            `json:"startOffset" doc:"-1 until the first delivery is acknowledged"`
	DeliveryCompleteCount int32            `json:"deliveryCompleteCount" doc:"-1 where it is not known"`
	Batches               []PersistedBatch `json:"batches"`
}

// PersistedBatch is neighbouring records in one state.
type PersistedBatch struct {
	FirstOffset   int64  `json:"firstOffset"`
	LastOffset    int64  `json:"lastOffset" doc:"inclusive"`
	State         string `json:"state" doc:"AVAILABLE, TX_PENDING, ACKNOWLEDGED or ARCHIVED, or the number of what else was written"`
	DeliveryCount int16  `json:"deliveryCount"`
}

func (s *server) getSharePartition(_ context.Context, q *sharePartition) (*SharePartition, error) {
	state, err := s.cluster.InspectSharePartition(q.Group, q.Topic, q.Partition)
	if err != nil {
		return nil, jsonhttp.Refuse(http.StatusNotFound, "%v", err)
	}
	x := &SharePartition{Known: state.Known, StartOffset: state.StartOffset, EndOffset: state.EndOffset, InFlight: state.InFlight, Runs: []Run{}, Waiting: state.Waiting}
	for _, r := range state.Runs {
		x.Runs = append(x.Runs, Run{r.FirstOffset, r.LastOffset, r.State.String(), r.DeliveryCount, r.Member, r.LockLeft.Milliseconds(), r.Pending})
	}
	if p := state.Persisted; p != nil {
		x.Persisted = &Persisted{p.StateEpoch, p.LeaderEpoch, p.StartOffset, p.DeliveryCompleteCount, []PersistedBatch{}}
		for _, b := range p.Batches {
			x.Persisted.Batches = append(x.Persisted.Batches, PersistedBatch{b.FirstOffset, b.LastOffset, sharepartition.State(b.State).String(), b.DeliveryCount})
		}
	}
	return x, nil
}
