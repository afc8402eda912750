package control

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"kshare"
	"kshare/fault"
	"kshare/internal/spelling"
	"kshare/protocol/errorcode"
)

type nodeQuery struct {
	ID int32 `path:"id" doc:"of a node"`
}

// node does something to a node.
func (s *server) node(q *nodeQuery, do func(int32) error) (*nothing, error) {
	if !slices.ContainsFunc(s.cluster.InspectNodes(), func(n kshare.NodeState) bool { return n.ID == q.ID }) {
		return nil, refuse(http.StatusNotFound, "the cluster has no node %d", q.ID)
	}
	return conflict(do(q.ID))
}

// conflict is the answer to a change that the cluster did or refused.
func conflict(err error) (*nothing, error) {
	if err != nil {
		return nil, refuse(http.StatusConflict, "%s", plain(err))
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
		return nil, refuse(http.StatusBadRequest, "loading: %s is negative", q.Loading)
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
}

// writeFault is a fault of writes of share state.
type writeFault struct {
	*kshare.ShareWriteFault
	asked shareWrites
}

func (s *server) addShareWriteFault(_ context.Context, q *shareWrites) (*Created, error) {
	w := kshare.ShareWrites{Group: q.Group, Topic: q.Topic, Count: q.Count, Hold: q.Hold, Delay: q.Delay}
	switch {
	case q.Partition != nil:
		w.Partition = *q.Partition
	case q.Topic != "":
		w.Partition = -1
	}
	if q.Error != "" {
		code, ok := errorcode.Code(q.Error)
		if !ok {
			return nil, refuse(http.StatusBadRequest, "error: Kafka has no error %q%s", clip(q.Error), spelling.DidYouMean(clip(q.Error), errorcode.Names()))
		}
		w.ErrorCode = code
	}
	f, err := s.cluster.FaultShareWrites(w)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%s", plain(err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.writeFaults) >= fault.MaxRules { // those that are at work are fewer
		maps.DeleteFunc(s.writeFaults, func(_ int, f *writeFault) bool { return f.Over() })
	}
	s.lastWriteFault++
	s.writeFaults[s.lastWriteFault] = &writeFault{f, *q}
	return &Created{s.lastWriteFault}, nil
}

// forgetWriteFaults drops the faults of a cluster that was reset.
func (s *server) forgetWriteFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.writeFaults)
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
	s.mu.Lock()
	defer s.mu.Unlock()
	all := &ShareWriteFaults{Faults: []ShareWriteFault{}}
	for _, id := range slices.Sorted(maps.Keys(s.writeFaults)) {
		f := s.writeFaults[id]
		all.Faults = append(all.Faults, ShareWriteFault{id, f.asked.Group, f.asked.Topic, f.Held()})
	}
	return all, nil
}

func (s *server) writeFault(id int) (*writeFault, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.writeFaults[id]; f != nil {
		return f, nil
	}
	return nil, refuse(http.StatusNotFound, "there is no fault of share-state writes %d", id)
}

func (s *server) releaseShareWrites(_ context.Context, q *numbered) (*Released, error) {
	f, err := s.writeFault(q.ID)
	if err != nil {
		return nil, err
	}
	return &Released{f.Release()}, nil
}

func (s *server) removeShareWriteFault(_ context.Context, q *numbered) (*nothing, error) {
	f, err := s.writeFault(q.ID)
	if err != nil {
		return nil, err
	}
	f.Remove()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.writeFaults, q.ID)
	return &nothing{}, nil
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
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	return &nothing{}, nil
}

func (s *server) mendDisk(context.Context, *struct{}) (*nothing, error) {
	s.cluster.MendStore()
	return &nothing{}, nil
}
