package control_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"kshare"
	"kshare/control"
)

// nodes are the nodes of a cluster by their ids.
func (a *api) nodes() map[int32]control.Node {
	var c control.Cluster
	a.get("/v1/cluster", &c)
	all := map[int32]control.Node{}
	for _, n := range c.Nodes {
		all[n.ID] = n
	}
	return all
}

func (a *api) leader(partition int) int32 {
	var all control.Topics
	a.get("/v1/topics", &all)
	for _, x := range all.Topics {
		if x.Name == "orders" {
			return x.Partitions[partition].Leader
		}
	}
	return -1
}

func TestNodes(t *testing.T) {
	a := newAPI(t, kshare.WithBrokers(3), kshare.WithConfig("default.replication.factor", "3"))
	require.EqualValues(t, 1, a.leader(0))
	a.post("/v1/nodes/1/stop", nil, nil)
	require.False(t, a.nodes()[1].Runs)
	require.EqualValues(t, 2, a.leader(0))
	require.Contains(t, a.refused(http.StatusConflict, http.MethodPost, "/v1/nodes/1/stop", nil), "node 1")
	a.post("/v1/nodes/1/start", nil, nil)
	require.True(t, a.nodes()[1].Runs)
	require.Contains(t, a.refused(http.StatusNotFound, http.MethodPost, "/v1/nodes/7/start", nil), "the cluster has no node 7")

	a.post("/v1/nodes/2/cut", nil, nil)
	require.True(t, a.nodes()[2].CutOff)
	a.post("/v1/time/advance", map[string]any{"by": "9s"}, nil)
	require.True(t, a.nodes()[2].Fenced)
	a.post("/v1/nodes/2/heal", nil, nil)
	require.Equal(t, control.Node{ID: 2, Address: a.nodes()[2].Address, Runs: true}, a.nodes()[2])

	a.post("/v1/leader", map[string]any{"topic": "orders", "partition": 0, "to": 2, "hint": true}, nil)
	require.EqualValues(t, 2, a.leader(0))
	require.Contains(t, a.refused(http.StatusConflict, http.MethodPost, "/v1/leader", map[string]any{"topic": "orders", "partition": 0, "to": 2}), "2")
	a.post("/v1/coordinator", map[string]any{"kind": "group", "key": "workers", "to": 3, "loading": "2s"}, nil)
	require.Contains(t, a.refused(http.StatusConflict, http.MethodPost, "/v1/coordinator", map[string]any{"kind": "share", "key": "workers", "to": 3}), "workers")
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/coordinator", map[string]any{"kind": "groups", "key": "workers", "to": 3}),
		`kind: "groups" is none of group, transaction, share`)
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/coordinator", map[string]any{"kind": "group", "key": "workers", "to": 3, "loading": "-2s"}), "negative")

	a.post("/v1/nodes/3/stop", nil, nil)
	a.post("/v1/reset", nil, nil)
	for id, n := range a.nodes() {
		require.True(t, n.Runs, id)
	}
}

func TestShareWriteFaults(t *testing.T) {
	a := newAPI(t)
	var made control.Created
	a.post("/v1/share-write-faults", map[string]any{"group": "workers", "topic": "orders", "hold": true}, &made)
	require.Equal(t, 1, made.ID)
	a.hold()
	a.post("/v1/time/advance", map[string]any{"by": "30s"}, nil)
	var state control.SharePartition
	a.get("/v1/share-partition?group=workers&topic=orders&partition=0", &state)
	require.Empty(t, state.Persisted.Batches)
	var all control.ShareWriteFaults
	a.get("/v1/share-write-faults", &all)
	require.Equal(t, []control.ShareWriteFault{{ID: 1, Group: "workers", Topic: "orders", Held: 1}}, all.Faults)
	var released control.Released
	a.post("/v1/share-write-faults/1/release", nil, &released)
	require.Equal(t, 1, released.Released)
	a.get("/v1/share-partition?group=workers&topic=orders&partition=0", &state)
	require.Equal(t, []control.PersistedBatch{{State: "AVAILABLE", DeliveryCount: 1}}, state.Persisted.Batches)
	a.call(http.MethodDelete, "/v1/share-write-faults/1", nil, nil)
	a.refused(http.StatusNotFound, http.MethodDelete, "/v1/share-write-faults/1", nil)
	a.refused(http.StatusNotFound, http.MethodPost, "/v1/share-write-faults/1/release", nil)
	a.post("/v1/share-write-faults", map[string]any{"error": "NOT_COORDINATOR", "count": 1, "topic": "orders", "partition": 0}, &made)
	for body, reason := range map[string]string{
		`{}`:                             "nothing goes wrong",
		`{"error": "NO_SUCH"}`:           `no error "NO_SUCH"`,
		`{"partition": 1, "hold": true}`: "name a topic",
	} {
		require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/share-write-faults", body), reason, body)
	}
}

func TestMarkerFaults(t *testing.T) {
	a := newAPI(t)
	var made control.Created
	a.post("/v1/marker-faults", map[string]any{"transactional_id": "payments", "topic": "orders", "hold": true}, &made)
	require.Equal(t, 1, made.ID)
	a.run("topic orders\ninit-producer p1 txn=payments\nproduce orders-0 a producer=p1 txn=yes\ntxn-end p1 commit once=yes\n")
	var all control.MarkerFaults
	a.get("/v1/marker-faults", &all)
	require.Equal(t, []control.MarkerFault{{ID: 1, TransactionalID: "payments", Topic: "orders", Held: 1}}, all.Faults)
	require.Contains(t, a.run("txn-describe payments\n")[0], "PrepareCommit")
	var released control.Released
	a.post("/v1/marker-faults/1/release", nil, &released)
	require.Equal(t, 1, released.Released)
	require.Contains(t, a.run("txn-describe payments\n")[0], "CompleteCommit")
	a.call(http.MethodDelete, "/v1/marker-faults/1", nil, nil)
	a.refused(http.StatusNotFound, http.MethodDelete, "/v1/marker-faults/1", nil)
	a.refused(http.StatusNotFound, http.MethodPost, "/v1/marker-faults/1/release", nil)
	for body, reason := range map[string]string{
		`{}`:                             "nothing goes wrong",
		`{"error": "NO_SUCH"}`:           `no error "NO_SUCH"`,
		`{"partition": 1, "hold": true}`: "name a topic",
	} {
		require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/marker-faults", body), reason, body)
	}
}

func TestDisk(t *testing.T) {
	a := newAPI(t)
	a.run("produce orders-0 a\n") // which makes the coordinators' topics
	a.post("/v1/disk/fail", map[string]any{"what": "writes", "count": 1}, nil)
	require.Equal(t, []string{"orders-0: KAFKA_STORAGE_ERROR (56)", "orders-0: offset 1"}, a.run("produce orders-0 a\nproduce orders-0 a\n"))
	a.post("/v1/disk/fail", map[string]any{"what": "reads"}, nil)
	a.post("/v1/disk/mend", nil, nil)
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/disk/fail", map[string]any{"what": "writes", "count": -1}), "name how many")
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/disk/fail", map[string]any{"what": "it"}), `what: "it" is none of writes, reads`)
}
