package broker

import (
	"math"
	"math/rand/v2"
	"net"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// hostileAPIs are those whose requests are made up of values that they should not have: what transactions and share groups are asked.
func hostileAPIs() []*protocol.API {
	some := []*protocol.API{protocol.TxnShareAcknowledgeAPI(protocol.TxnShareAcknowledgeKey)}
	for _, key := range []int16{
		initProducerIDKey, addPartitionsToTxnKey, addOffsetsToTxnKey, endTxnKey, writeTxnMarkersKey, txnOffsetCommitKey, describeTransactionsKey, describeProducersKey,
		shareGroupHeartbeatKey, shareFetchKey, shareAcknowledgeKey, initializeShareGroupStateKey, readShareGroupStateKey, writeShareGroupStateKey, alterShareGroupOffsetsKey,
	} {
		some = append(some, protocol.APIByKey(key))
	}
	return some
}

// hostile makes requests of values at the edges of what fields can have, and of the names and ids of the cluster that they are sent to.
type hostile struct {
	rng    *rand.Rand
	topic  [16]byte
	member string
}

func pickOf[T any](h *hostile, of ...T) T { return of[h.rng.IntN(len(of))] }

// fill sets every field of a request.
func (h *hostile) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Version" && name != "APIKey" && name != "UnknownTags" {
				h.fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		if h.rng.IntN(8) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			h.fill(v.Elem())
		} else {
			v.SetZero()
		}
	case reflect.Slice:
		n := pickOf(h, 0, 1, 1, 1, 2, 3)
		if v.Set(reflect.MakeSlice(v.Type(), n, n)); n == 0 && h.rng.IntN(2) == 0 {
			v.SetZero() // null where the version has that
		}
		for i := range n {
			if i > 0 && h.rng.IntN(2) == 0 {
				v.Index(i).Set(v.Index(i - 1)) // named twice
			} else {
				h.fill(v.Index(i))
			}
		}
	case reflect.Array:
		if v.Type() == reflect.TypeFor[[16]byte]() {
			v.Set(reflect.ValueOf(pickOf(h, h.topic, h.topic, h.topic, [16]byte{}, [16]byte{15: 1})))
		}
	case reflect.String:
		v.SetString(pickOf(h, "t", "t", "payments", "payments", "g", "g", "g", h.member, h.member, "", "__share_group_state", "__consumer_offsets", "nobody", "\xff\x00", "a/b:c", string(make([]byte, 300))))
	case reflect.Bool:
		v.SetBool(h.rng.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		highest := int64(math.MaxInt64) >> (64 - v.Type().Bits())
		v.SetInt(pickOf(h, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, -1, -1, -2, highest, highest-1, -highest-1))
	}
}

// request makes a request of an API in one of its versions.
func (h *hostile) request(a *protocol.API) kmsg.Request {
	for {
		q := a.NewRequest(a.MinVersion + int16(h.rng.IntN(int(a.MaxVersion-a.MinVersion)+1)))
		h.fill(reflect.ValueOf(q).Elem())
		if err := q.ReadFrom(q.AppendTo(nil)); err == nil { // what cannot be read is for FuzzFrames
			return q
		}
	}
}

// direct sends a request to a cluster's first node, over a connection that ends before the answer.
func direct(t testing.TB, c *Cluster, q kmsg.Request) answer {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	conn := newConnection(c.nodes[0], server, &c.listeners[0])
	conn.close()
	defer c.disconnected(conn)
	r, err := conn.parse(frame(q)[4:])
	require.NoError(t, err)
	a, err := r.run()
	if err != nil || a == nil {
		return nil
	}
	a.AppendTo(nil)
	return a
}

// inUse makes the coordinators of a cluster, a producer with a transaction and a member of a share group that holds a record.
func inUse(t testing.TB, c *Cluster) hostile {
	t.Helper()
	for kind, key := range []string{"g", "payments"} {
		direct(t, c, &kmsg.FindCoordinatorRequest{Version: 4, CoordinatorType: int8(kind), CoordinatorKeys: []string{key}})
	}
	id := "payments"
	direct(t, c, &kmsg.InitProducerIDRequest{Version: 4, TransactionalID: &id, TransactionTimeoutMillis: 60_000, ProducerID: -1, ProducerEpoch: -1})
	h := hostile{topic: c.topics["t"].id, member: "m"}
	group := "g"
	direct(t, c, &kmsg.ShareGroupHeartbeatRequest{Version: 1, GroupID: group, MemberID: h.member, SubscribedTopicNames: []string{"t"}})
	partition := []kmsg.ShareFetchRequestTopicPartition{{}}
	q := &kmsg.ShareFetchRequest{Version: 1, GroupID: &group, MemberID: &h.member, MaxBytes: 1 << 20, MaxRecords: 10, BatchSize: 10, Topics: []kmsg.ShareFetchRequestTopic{{TopicID: h.topic, Partitions: partition}}}
	direct(t, c, q)
	return h
}

// Requests whose fields have values that they should not have are answered or end their connection. Nothing panics, and others can go on.
func TestHostileRequests(t *testing.T) {
	var log panics
	c := fuzzCluster(t, &log)
	defer func() { require.NoError(t, c.Close()) }()
	h := inUse(t, c)
	apis := hostileAPIs()
	answered := map[string]int{}
	for seed := range uint64(20_000) {
		h.rng = rand.New(rand.NewPCG(seed, 1))
		a := apis[seed%uint64(len(apis))]
		q := h.request(a)
		if direct(t, c, q) != nil {
			answered[a.Name]++
		}
		log.mu.Lock()
		require.Empty(t, log.seen, "seed %d: %s %+v", seed, a.Name, q)
		log.mu.Unlock()
	}
	for _, a := range apis {
		require.Positive(t, answered[a.Name], a.Name)
	}

	id := "another"
	p := direct(t, c, &kmsg.InitProducerIDRequest{Version: 4, TransactionalID: &id, TransactionTimeoutMillis: 60_000, ProducerID: -1, ProducerEpoch: -1})
	require.Equal(t, errorcode.None, p.(*protocol.InitProducerIDResponse).ErrorCode)
}
