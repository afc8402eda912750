package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/control"
	"kshare/fault"
)

func TestFaults(t *testing.T) {
	a := newAPI(t)
	var made control.Created
	a.post("/v1/faults", map[string]any{"api": "Produce", "topic": "orders", "error": "NOT_LEADER_OR_FOLLOWER", "times": 1}, &made)
	require.Equal(t, 1, made.ID)
	a.post("/v1/faults", map[string]any{"text": "name=slow api=ListOffsets hold"}, &made)
	require.Equal(t, 2, made.ID)
	a.post("/v1/faults", map[string]any{"api": 3, "client": "nobody", "delay": "1.5s", "stage": "after"}, &made)
	require.Equal(t, []string{"orders-0: NOT_LEADER_OR_FOLLOWER (6), leader unknown", "orders-0: offset 0"}, a.run("produce orders-0 a\nproduce orders-0 a\n"))

	var all control.Faults
	a.get("/v1/faults", &all)
	require.Len(t, all.Faults, 3)
	require.Equal(t, []int{2, 1, 0}, []int{all.Faults[0].Matches, all.Faults[0].Acts, all.Faults[0].Held})
	require.Equal(t, "name=slow api=ListOffsets hold", all.Faults[1].Text)

	waiting, err := a.cluster.OpenDirect(1)
	require.NoError(t, err)
	defer waiting.Close()
	list := kmsg.NewPtrListOffsetsRequest()
	list.Version = 8
	waiting.Send(kmsg.NewRequestFormatter().AppendRequest(nil, list, 1)[4:])
	a.get("/v1/faults", &all)
	require.Equal(t, 1, all.Faults[1].Held)
	var released control.Released
	a.post("/v1/release", map[string]any{"name": "slow"}, &released)
	require.Equal(t, 1, released.Released)
	require.False(t, waiting.Waits())
	require.Contains(t, a.refused(http.StatusNotFound, http.MethodPost, "/v1/release", map[string]any{"name": "none"}), "none")

	a.call(http.MethodDelete, "/v1/faults/2", nil, nil)
	require.Contains(t, a.refused(http.StatusNotFound, http.MethodDelete, "/v1/faults/2", nil), "there is no fault 2")
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodDelete, "/v1/faults/two", nil), "id: two is not a whole number")
	a.call(http.MethodDelete, "/v1/faults", nil, nil)
	a.get("/v1/faults", &all)
	require.Empty(t, all.Faults)
}

func TestWrongFaults(t *testing.T) {
	a := newAPI(t)
	for body, reason := range map[string]string{
		`{"api": "Fetsh", "close": true}`:       "Fetch",
		`{"api": "Fetch", "shut": true}`:        `no key "shut"`,
		`{"api": "Fetch", "close": "yes"}`:      `"close": "yes" is not true or false`,
		`{"api": "Fetch"}`:                      "does nothing",
		`{"text": "api=Fetch"}`:                 "does nothing",
		`{"text": 5}`:                           "text: 5 is not text",
		`{"text": "close", "api": "Fetch"}`:     `no field "api" here; there are text`,
		`{"api": "Fetch", "close": {"a": [1]}}`: `"close"`,
	} {
		require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/faults", body), reason, body)
	}
}

// TxnShareAcknowledge goes by its name whatever its key, in faults and in the log.
func TestTxnShareAcknowledge(t *testing.T) {
	a := newAPI(t, kshare.WithKIP1289("txn.share.ack.api.key=93"))
	a.post("/v1/faults", map[string]any{"api": "TxnShareAcknowledge", "topic": "orders", "partition": 0, "error": "NOT_LEADER_OR_FOLLOWER", "times": 1}, nil)
	a.post("/v1/faults", map[string]any{"api": 93, "level": "top", "error": "INVALID_REQUEST", "times": 1, "nth": 2}, nil)
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/faults", `{"api": "TxnShareAcknowledge", "level": "group", "error": "INVALID_REQUEST"}`), "it has them at top, partition")
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/faults", `{"text": "api=TxnShareAcknowlege close"}`), "did you mean TxnShareAcknowledge?")
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/faults", `{"api": 95, "close": true}`), "no API of Kafka 4.4 has the key 95")
	ask := `send TxnShareAcknowledge 0 key=93 {"transactionalId": "x", "groupId": "g", "memberId": "m", "topics": [{"topicId": "<topic:orders>", "partitions": [{"partition": 0}]}]}` + "\n"
	require.Equal(t, []string{
		"ThrottleMillis: 0", "ErrorCode: 0", `Topics: [{"TopicID": "<topic:orders>","Partitions": [{"Partition": 0,"ErrorCode": 6,"ErrorMessage": null}]}]`,
		"ThrottleMillis: 0", "ErrorCode: 42", "Topics: null",
	}, a.run(ask+ask))
	for _, name := range []string{"TxnShareAcknowledge", "93"} {
		var all control.Requests
		a.get("/v1/requests?topic=orders&group=g&member=m&api="+name, &all)
		require.Len(t, all.Requests, 2)
		require.Equal(t, []any{"TxnShareAcknowledge", int16(93), []string{"fault 1"}}, []any{all.Requests[0].API, all.Requests[0].Key, all.Requests[0].Faults})
		require.Contains(t, string(all.Requests[0].Request), `"TransactionalID":"x"`)
		require.Contains(t, string(all.Requests[0].Answer), `"ErrorCode":6`)
	}
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodGet, "/v1/requests?api=TxnShareAcknowlege", nil), "did you mean TxnShareAcknowledge?")
	without := newAPI(t)
	require.Contains(t, without.refused(http.StatusBadRequest, http.MethodPost, "/v1/faults", `{"api": "TxnShareAcknowledge", "close": true}`), "KIP-1289, which is not on")
}

func TestRequests(t *testing.T) {
	a := newAPI(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(a.cluster.Addrs()...), kgo.Dialer(a.cluster.Dial), kgo.ClientID("app"))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(context.Background(), &kgo.Record{Topic: "orders", Value: []byte("a")}).FirstErr())
	var all control.Requests
	a.get("/v1/requests?client=app&api=Produce&topic=orders", &all)
	require.Len(t, all.Requests, 1)
	r := all.Requests[0]
	require.Equal(t, "answered", r.Outcome)
	require.Equal(t, began, r.Arrived)
	require.Equal(t, began, *r.Answered)
	var q, p map[string]any
	require.NoError(t, json.Unmarshal(r.Request, &q))
	require.NoError(t, json.Unmarshal(r.Answer, &p))
	require.EqualValues(t, -1, q["Acks"])
	require.Contains(t, p, "Topics")

	a.get("/v1/requests", &all)
	require.Greater(t, len(all.Requests), 1)
	last := all.Requests[len(all.Requests)-1]
	a.get("/v1/requests?limit=1", &all)
	require.Equal(t, last.Seq, all.Requests[0].Seq)
	require.Len(t, all.Requests, 1)
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodGet, "/v1/requests?limit=5000", nil), "limit: 5000 is not a number from 1 to 1000")
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodGet, "/v1/requests?api=Fetsh", nil), "Fetsh")
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodGet, "/v1/requests?since=-1", nil), "since: -1 is not a whole number, 0 or more")

	cluster, err := kshare.Start(kshare.WithInMemoryNetwork())
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	unlogged := &api{t, cluster, control.Handler(cluster, control.Options{})}
	require.Contains(t, unlogged.refused(http.StatusConflict, http.MethodGet, "/v1/requests", nil), "--request-log")
}

// Long requests are told without their records, and an answer with the fields of many is bounded.
func TestLongRequestsAreLeftOut(t *testing.T) {
	a := newAPI(t, kshare.WithRequestLog(1000))
	long := strings.Repeat("x", 100_000)
	a.run("produce orders-0 " + long + "\n")
	var all control.Requests
	a.get("/v1/requests?api=Produce", &all)
	require.Len(t, all.Requests, 1)
	require.Len(t, all.Requests[0].LeftOut, 1)
	require.Regexp(t, `^\d{6} bytes of records of the request$`, all.Requests[0].LeftOut[0])
	require.Greater(t, all.Requests[0].RequestBytes, len(long))
	require.Contains(t, string(all.Requests[0].Request), `"Acks"`)
	require.Less(t, len(all.Requests[0].Request), 1000)

	// Requests of other kinds may be long too.
	for range 18 {
		a.run(`send ListGroups 4 {"statesFilter": ["` + strings.Repeat("x", 1_000_000) + `"]}` + "\n")
	}
	w := a.do(request(t, http.MethodGet, "/v1/requests?api=ListGroups&limit=1000", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &all))
	require.Less(t, w.Body.Len(), 17<<20)
	require.Len(t, all.Requests, 18)
	require.Empty(t, all.Requests[17].LeftOut)
	require.Contains(t, all.Requests[0].LeftOut[0], "ask for fewer with limit")
	require.Equal(t, "null", string(all.Requests[0].Request))
}

// So many faults may be at work; one more is refused until one is removed or used up.
func TestFaultsAreBounded(t *testing.T) {
	a := newAPI(t)
	for _, c := range []struct{ path, fault string }{
		{"/v1/faults", `{"text": "close"}`},
		{"/v1/share-write-faults", `{"hold": true}`},
	} {
		var first control.Created
		for i := range fault.MaxRules {
			var made control.Created
			a.post(c.path, json.RawMessage(c.fault), &made)
			if i == 0 {
				first = made
			}
		}
		require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, c.path, json.RawMessage(c.fault)), "there are 1000")
		a.call(http.MethodDelete, fmt.Sprintf("%s/%d", c.path, first.ID), nil, nil)
		a.post(c.path, json.RawMessage(c.fault), nil)
	}
}

// Faults of share state that are used up are forgotten before too many are remembered.
func TestShareWriteFaultsThatAreOverAreForgotten(t *testing.T) {
	a := newAPI(t)
	a.run(acquire)
	a.post("/v1/share-write-faults", json.RawMessage(`{"group": "workers", "error": "FENCED_STATE_EPOCH", "count": 1}`), nil)
	for range fault.MaxRules - 1 {
		a.post("/v1/share-write-faults", json.RawMessage(`{"group": "others", "delay": "1ms", "count": 1}`), nil)
	}
	var all control.ShareWriteFaults
	a.get("/v1/share-write-faults", &all)
	require.Len(t, all.Faults, fault.MaxRules)
	a.run("join workers m2 orders\nadvance 31s\nfetch workers m2\nack workers m2 orders-0 0=accept\n")
	a.post("/v1/share-write-faults", json.RawMessage(`{"group": "others", "delay": "1ms", "count": 1}`), nil)
	a.get("/v1/share-write-faults", &all)
	require.Len(t, all.Faults, fault.MaxRules, "the first is over")
	require.Equal(t, "others", all.Faults[0].Group)
}
