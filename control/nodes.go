package control

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"kshare"
	"kshare/fault"
	"kshare/internal/jsonhttp"
	"kshare/internal/spelling"
	"kshare/protocol/errorcode"
)

type nodeQuery struct {
	ID int32 `path:"id" doc:"of a node"`
}

// node does something to a node.
func (s *server) node(q *nodeQuery, do func(int32) error) (*nothing, error) {
	if !slices.ContainsFunc(s.cluster.InspectNodes(), func(n kshare.NodeState) bool { return n.ID == q.ID }) {
		return nil, jsonhttp.Refuse(http.StatusNotFound, "the cluster has no node %d", q.ID)
	}
	return conflict(do(q.ID))
}

// conflict is the answer to a change that the cluster did or refused.
func conflict(err error) (*nothing, error) {
	if err != nil {
		return nil, jsonhttp.Refuse(http.StatusConflict, "%s", plain(err))
	}
	return &nothing{}, nil
}

func (s *server) stopNode(_ context.Context, q *nodeQuery) (*nothing, error) {
	return s.node(q, s.cluster.StopNode)
}

func (s *server) startNode(_ context.Context, q *nodeQuery) (*nothing, error) {
	return s.node(q, s.cluster.StartNode)
}

func (s *server) cutNode(_ context.Context, q *nodeQuery) (*nothing, error) {
	return s.node(q, s.cluster.CutNode)
}

func (s *server) healNode(_ context.Context, q *nodeQuery) (*nothing, error) {
	return s.node(q, s.cluster.HealNode)
}

type moveLeader struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	To        int32  `json:"to" doc:"the id of a node that is an in-sync replica"`
	Hint      bool   `json:"hint,omitempty" doc:"answers of the old leader name the new one"`
}

func (s *server) moveLeader(_ context.Context, q *moveLeader) (*nothing, error) {
	return conflict(s.cluster.MoveLeader(q.Topic, q.Partition, q.To, q.Hint))
}

type moveCoordinator struct {
	Kind    string        `json:"kind" values:"group,transaction,share"`
	Key     string        `json:"key" doc:"a group id, a transactional id, or group:topic id:partition"`
	To      int32         `json:"to" doc:"the id of a node"`
	Loading time.Duration `json:"loading,omitempty" doc:"how long it answers COORDINATOR_LOAD_IN_PROGRESS"`
}

func (s *server) moveCoordinator(_ context.Context, q *moveCoordinator) (*nothing, error) {
	if q.Loading < 0 {
		return nil, jsonhttp.Refuse(http.StatusBadRequest, "loading: %s is negative", q.Loading)
	}
	kind, _ := kshare.CoordinatorKindNamed(q.Kind) // one of its values
	return conflict(s.cluster.MoveCoordinator(kind, q.Key, q.To, q.Loading))
}

type shareWrites struct {
	Group     string        `json:"group,omitempty" doc:"the group, without it all"`
	Topic     string        `json:"topic,omitempty" doc:"the topic, without it all"`
	Partition *int32        `json:"partition,omitempty" doc:"the partition of the topic, without it all"`
	Count     int           `json:"count,omitempty" doc:"how many of the next writes, without it all"`
	Hold      bool          `json:"hold,omitempty" doc:"the writes wait until they are released"`
	Delay     time.Duration `json:"delay,omitempty" doc:"the writes wait that long, on the cluster's clock"`
	Error     string        `json:"error,omitempty" doc:"Kafka's name of the error that the share coordinator answers with instead of writing"`
	Stage     fault.Stage   `json:"stage,omitempty" values:"before,after" doc:"after: what is written is written at once, and its answer waits or is the error; before is the default"`
}

type markerWrites struct {
	TransactionalID string        `json:"transactional_id,omitempty" doc:"the transactional id, without it all"`
	Topic           string        `json:"topic,omitempty" doc:"the topic of the partition that the marker is for, without it all"`
	Partition       *int32        `json:"partition,omitempty" doc:"the partition of the topic, without it all"`
	Count           int           `json:"count,omitempty" doc:"how many of the next markers, without it all"`
	Hold            bool          `json:"hold,omitempty" doc:"the markers wait until they are released"`
	Delay           time.Duration `json:"delay,omitempty" doc:"the markers wait that long, on the cluster's clock"`
	Error           string        `json:"error,omitempty" doc:"Kafka's name of the error that the partition answers with instead of writing"`
	Stage           fault.Stage   `json:"stage,omitempty" values:"before,after" doc:"after: what is written is written at once, and its answer waits or is the error; before is the default"`
}

// writeFaults are the faults of one kind of writes, what each was asked as among them.
type writeFaults[Q any] struct {
	what string
	mu   sync.Mutex
	all  map[int]*writeFault[Q]
	last int
}

type writeFault[Q any] struct {
	*kshare.WriteFault
	asked Q
}

// add remembers a fault that was begun.
func (fs *writeFaults[Q]) add(f *kshare.WriteFault, asked Q) *Created {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if len(fs.all) >= fault.MaxRules { // those that are at work are fewer
		maps.DeleteFunc(fs.all, func(_ int, f *writeFault[Q]) bool { return f.Over() })
	}
	if fs.all == nil {
		fs.all = map[int]*writeFault[Q]{}
	}
	fs.last++
	fs.all[fs.last] = &writeFault[Q]{f, asked}
	return &Created{fs.last}
}

// forget drops the faults of a cluster that was reset.
func (fs *writeFaults[Q]) forget() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	clear(fs.all)
}

// each calls f for the faults in the order in which they were added.
func (fs *writeFaults[Q]) each(f func(id int, asked Q, held int)) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(fs.all)) {
		f(id, fs.all[id].asked, fs.all[id].Held())
	}
}

func (fs *writeFaults[Q]) find(id int) (*writeFault[Q], error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.all[id]; f != nil {
		return f, nil
	}
	return nil, jsonhttp.Refuse(http.StatusNotFound, "there is no fault of %s %d", fs.what, id)
}

// releaseOf lets writes go on that a fault of one kind holds.
func releaseOf[Q any](of func(*server) *writeFaults[Q]) func(*server, context.Context, *numbered) (*Released, error) {
	return func(s *server, _ context.Context, q *numbered) (*Released, error) {
		f, err := of(s).find(q.ID)
		if err != nil {
			return nil, err
		}
		return &Released{f.Release()}, nil
	}
}

// removeOf removes a fault of one kind.
func removeOf[Q any](of func(*server) *writeFaults[Q]) func(*server, context.Context, *numbered) (*nothing, error) {
	return func(s *server, _ context.Context, q *numbered) (*nothing, error) {
		fs := of(s)
		f, err := fs.find(q.ID)
		if err != nil {
			return nil, err
		}
		f.Remove()
		fs.mu.Lock()
		defer fs.mu.Unlock()
		delete(fs.all, q.ID)
		return &nothing{}, nil
	}
}

func ofShareWrites(s *server) *writeFaults[shareWrites] { return &s.shareWriteFaults }
func ofMarkers(s *server) *writeFaults[markerWrites]    { return &s.markerFaults }

// writeFaultOf reads which partition a fault of writes is about, and the error code that answers them.
func writeFaultOf(topic string, partition *int32, name string) (index int32, code int16, err error) {
	switch {
	case partition != nil:
		index = *partition
	case topic != "":
		index = -1
	}
	if name != "" {
		var ok bool
		if code, ok = errorcode.Code(name); !ok {
			return 0, 0, jsonhttp.Refuse(http.StatusBadRequest, "error: Kafka has no error %q%s", jsonhttp.Clip(name), spelling.DidYouMean(jsonhttp.Clip(name), errorcode.Names()))
		}
	}
	return index, code, nil
}

func (s *server) addShareWriteFault(_ context.Context, q *shareWrites) (*Created, error) {
	partition, code, err := writeFaultOf(q.Topic, q.Partition, q.Error)
	if err != nil {
		return nil, err
	}
	f, err := s.cluster.FaultShareWrites(kshare.ShareWrites{Group: q.Group, Topic: q.Topic, Partition: partition, Count: q.Count, Hold: q.Hold, Delay: q.Delay, ErrorCode: code, Stage: q.Stage})
	if err != nil {
		return nil, jsonhttp.Refuse(http.StatusBadRequest, "%s", plain(err))
	}
	return s.shareWriteFaults.add(f, *q), nil
}

// ShareWriteFaults is the faults of writes of share state.
type ShareWriteFaults struct {
	Faults []ShareWriteFault `json:"faults" doc:"in the order in which they were added"`
}

// ShareWriteFault is a fault of writes of share state.
type ShareWriteFault struct {
	ID    int    `json:"id"`
	Group string `json:"group" doc:"empty for all"`
	Topic string `json:"topic" doc:"empty for all"`
	Held  int    `json:"held" doc:"how many writes wait for its release"`
}

func (s *server) getShareWriteFaults(context.Context, *struct{}) (*ShareWriteFaults, error) {
	all := &ShareWriteFaults{Faults: []ShareWriteFault{}}
	s.shareWriteFaults.each(func(id int, q shareWrites, held int) {
		all.Faults = append(all.Faults, ShareWriteFault{id, q.Group, q.Topic, held})
	})
	return all, nil
}

func (s *server) addMarkerFault(_ context.Context, q *markerWrites) (*Created, error) {
	partition, code, err := writeFaultOf(q.Topic, q.Partition, q.Error)
	if err != nil {
		return nil, err
	}
	f, err := s.cluster.FaultMarkers(kshare.MarkerWrites{TransactionalID: q.TransactionalID, Topic: q.Topic, Partition: partition, Count: q.Count, Hold: q.Hold, Delay: q.Delay, ErrorCode: code, Stage: q.Stage})
	if err != nil {
		return nil, jsonhttp.Refuse(http.StatusBadRequest, "%s", plain(err))
	}
	return s.markerFaults.add(f, *q), nil
}

// MarkerFaults is the faults of markers of transactions.
type MarkerFaults struct {
	Faults []MarkerFault `json:"faults" doc:"in the order in which they were added"`
}

// MarkerFault is a fault of markers of transactions.
type MarkerFault struct {
	ID              int    `json:"id"`
	TransactionalID string `json:"transactional_id" doc:"empty for all"`
	Topic           string `json:"topic" doc:"empty for all"`
	Held            int    `json:"held" doc:"how many markers wait for its release"`
}

func (s *server) getMarkerFaults(context.Context, *struct{}) (*MarkerFaults, error) {
	all := &MarkerFaults{Faults: []MarkerFault{}}
	s.markerFaults.each(func(id int, q markerWrites, held int) {
		all.Faults = append(all.Faults, MarkerFault{id, q.TransactionalID, q.Topic, held})
	})
	return all, nil
}

type failDisk struct {
	What  string `json:"what" values:"writes,reads"`
	Count int    `json:"count,omitempty" doc:"how many of the next ones, without it all until the disk is mended"`
}

func (s *server) failDisk(_ context.Context, q *failDisk) (*nothing, error) {
	fail := s.cluster.FailWrites
	if q.What == "reads" {
		fail = s.cluster.FailReads
	}
	if err := fail(q.Count, nil); err != nil {
		return nil, jsonhttp.Refuse(http.StatusBadRequest, "%v", err)
	}
	return &nothing{}, nil
}

func (s *server) mendDisk(context.Context, *struct{}) (*nothing, error) {
	s.cluster.MendStore()
	return &nothing{}, nil
}
