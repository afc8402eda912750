package control_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"kshare"
	"kshare/clock"
	"kshare/control"
)

func TestCluster(t *testing.T) {
	a := newAPI(t, kshare.WithBrokers(2))
	var c control.Cluster
	a.get("/v1/cluster", &c)
	require.Equal(t, a.cluster.ID(), c.ID)
	require.Len(t, c.Nodes, 2)
	require.Equal(t, control.Node{ID: 2, Address: a.cluster.Addrs()[1], Runs: true}, c.Nodes[1])
	require.Equal(t, "virtual", c.Time.Clock)
}

func TestTime(t *testing.T) {
	a := newAPI(t)
	var before, after control.Time
	a.get("/v1/time", &before)
	require.Equal(t, began, before.Now)
	a.post("/v1/time/advance", map[string]any{"by": "1m30.5s"}, &after)
	require.Equal(t, began.Add(90500*time.Millisecond), after.Now)
	a.post("/v1/time/advance", map[string]any{"by": "0s"}, &after)
	require.Equal(t, began.Add(90500*time.Millisecond), after.Now)

	a.run(acquire)
	a.get("/v1/time", &before)
	require.NotNil(t, before.NextTimer)
	a.post("/v1/time/advance-to-next-timer", nil, &after)
	require.Equal(t, *before.NextTimer, after.Now)
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/time/advance", map[string]any{"by": "-1s"}), "by: -1s is not a duration from 0s")
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/time/advance", map[string]any{"by": "9999999h"}), "is not a duration")
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/time/advance", map[string]any{"by": 31}), "by: 31 is not a duration as text, like 31s")
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/time/advance", map[string]any{}), `the field "by" is missing`)
}

// What a request may not reach it does not reach half: time stands where it stood, and each answer can say when that is.
func TestTimeEnds(t *testing.T) {
	start := clock.Last.Add(-time.Hour)
	a := newAPI(t, kshare.WithClock(clock.NewVirtual(start)))
	var now control.Time
	for _, by := range []string{"1h0m0.001s", "24000h"} {
		require.Contains(t, a.refused(http.StatusConflict, http.MethodPost, "/v1/time/advance", map[string]any{"by": by}), "it can be moved to 9999-01-01T00:00:00Z at most")
		a.get("/v1/time", &now)
		require.Equal(t, start, now.Now)
	}
	require.Contains(t, a.scenario("advance 2h\n").Stopped.Reason, "time would be 9999-01-01T01:00:00Z: it can be moved to 9999-01-01T00:00:00Z at most")
	a.post("/v1/time/advance", map[string]any{"by": "1h"}, &now)
	require.Equal(t, clock.Last, now.Now)
	a.run(acquire) // whose locks end later
	require.Contains(t, a.refused(http.StatusConflict, http.MethodPost, "/v1/time/advance-to-next-timer", nil), "it can be moved to 9999-01-01T00:00:00Z at most")
}

func TestMachineClockIsNotMoved(t *testing.T) {
	a := newAPI(t, kshare.WithClock(clock.Machine{}))
	var now control.Time
	a.get("/v1/time", &now)
	require.Equal(t, "machine", now.Clock)
	require.Nil(t, now.NextTimer)
	require.Contains(t, a.refused(http.StatusConflict, http.MethodPost, "/v1/time/advance", map[string]any{"by": "31s"}), "--clock virtual")
	require.Contains(t, a.refused(http.StatusConflict, http.MethodPost, "/v1/time/advance-to-next-timer", nil), "--clock virtual")
}

// A record is held, its lock ends, and the next member gets it with a higher delivery count.
func TestRecordStates(t *testing.T) {
	a := newAPI(t)
	const target = "/v1/share-partition?group=workers&topic=orders&partition=0"
	var s control.SharePartition
	a.get(target, &s)
	require.False(t, s.Known)
	a.hold()
	a.get(target, &s)
	require.True(t, s.Known)
	require.Len(t, s.Runs, 1)
	require.NotEmpty(t, s.Runs[0].Member)
	s.Runs[0].Member = ""
	require.Equal(t, control.Run{State: "ACQUIRED", DeliveryCount: 1, LockLeftMs: 30_000}, s.Runs[0])
	require.EqualValues(t, 1, s.InFlight)

	a.post("/v1/time/advance", map[string]any{"by": "29.5s"}, nil)
	a.get(target, &s)
	require.EqualValues(t, 500, s.Runs[0].LockLeftMs)
	a.post("/v1/time/advance", map[string]any{"by": "500ms"}, nil)
	a.get(target, &s)
	require.Equal(t, "AVAILABLE", s.Runs[0].State)
	require.NotNil(t, s.Persisted)
	require.Equal(t, []control.PersistedBatch{{State: "AVAILABLE", DeliveryCount: 1}}, s.Persisted.Batches)

	require.Contains(t, a.refused(http.StatusNotFound, http.MethodGet, "/v1/share-partition?group=workers&topic=orders&partition=9", nil), "there is no partition orders-9")
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodGet, "/v1/share-partition?group=workers&topic=orders", nil), `the query parameter "partition" is missing`)
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodGet, target+"&partition=1", nil), "2 times")
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodGet, target+"&offset=1", nil), `no query parameter "offset" here; there are group, topic, partition`)
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodGet, "/v1/share-partition?group=workers&topic=orders&partition=first", nil), "partition: first is not a whole number of 32 bits")
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodGet, target+"&%zz", nil), "the query cannot be read")
}

func TestTopicsAndGroups(t *testing.T) {
	a := newAPI(t)
	a.run(acquire)
	var topics control.Topics
	a.get("/v1/topics", &topics)
	byName := map[string]control.Topic{}
	for _, x := range topics.Topics {
		byName[x.Name] = x
	}
	require.True(t, byName["__share_group_state"].Internal)
	require.Len(t, byName["orders"].ID, 22)
	require.Equal(t, []control.Partition{{Leader: 1, Replicas: []int32{1}, EndOffset: 1}}, byName["orders"].Partitions)
	var groups control.Groups
	a.get("/v1/groups", &groups)
	require.Len(t, groups.Groups, 1)
	g := groups.Groups[0]
	require.Equal(t, "workers share Stable", g.ID+" "+g.Type+" "+g.State)
	require.Len(t, g.Members, 1)
	require.Equal(t, "workers/m1", g.Members[0].ClientID)
	a.run("classic-join readers r orders\nconsumer-join moderns c orders\n")
	a.get("/v1/groups", &groups)
	types := map[string]string{}
	for _, g := range groups.Groups {
		types[g.ID] = g.Type
		require.Len(t, g.Members, 1, g.ID)
	}
	require.Equal(t, map[string]string{"workers": "share", "readers": "classic", "moderns": "consumer"}, types)
}

// After a reset the same script shows the same.
func TestReset(t *testing.T) {
	a := newAPI(t)
	first := a.run(acquire)
	a.post("/v1/faults", map[string]any{"text": "api=Metadata close"}, nil)
	a.post("/v1/share-write-faults", map[string]any{"hold": true}, nil)
	a.post("/v1/time/advance", map[string]any{"by": "5s"}, nil)
	a.post("/v1/reset", nil, nil)
	var faults control.Faults
	a.get("/v1/faults", &faults)
	require.Empty(t, faults.Faults)
	var writes control.ShareWriteFaults
	a.get("/v1/share-write-faults", &writes)
	require.Empty(t, writes.Faults)
	var now control.Time
	a.get("/v1/time", &now)
	require.Equal(t, began.Add(5*time.Second), now.Now)
	require.Equal(t, first, a.run(acquire))

	kept := newAPI(t, kshare.WithDirectory(t.TempDir()))
	require.Contains(t, kept.refused(http.StatusConflict, http.MethodPost, "/v1/reset", nil), "kept in a directory")
	require.NoError(t, kept.cluster.Close())
	require.Contains(t, kept.refused(http.StatusServiceUnavailable, http.MethodPost, "/v1/reset", nil), "closed")
}
