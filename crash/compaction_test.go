package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// compactedTopic has small segments, which the cleaner looks at all the time.
const compactedTopic = "latest"

// cleaning are the flags of a broker whose cleaner does so.
var cleaning = []string{"--config", "log.cleaner.backoff.ms=2", "--config", "log.cleaner.min.cleanable.ratio=0.01"}

// keyed is a producer to a few keys of the compacted topic. A key's values rise; now and then it is deleted.
type keyed struct {
	turn    sync.Mutex     // held while a record is on its way, and to have no more of them
	last    map[string]int // the last value of each key that was answered, nothing where it was deleted
	written int
}

// produce makes the topic and produces until the load stops producing.
func (k *keyed) produce(l *load, client *kgo.Client) {
	rng := rand.New(rand.NewPCG(l.seed, 9))
	compact, segment, retention := "compact", "1000", "0"
	for l.producing.Err() == nil {
		_, err := kadm.NewClient(client).CreateTopic(l.producing, 1, 1,
			map[string]*string{"cleanup.policy": &compact, "internal.segment.bytes": &segment, "delete.retention.ms": &retention}, compactedTopic)
		if err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
			break
		}
	}
	for l.producing.Err() == nil {
		k.turn.Lock()
		key, n := strconv.Itoa(rng.IntN(10)), k.written+1
		r := &kgo.Record{Topic: compactedTopic, Key: []byte(key), Value: fmt.Append(nil, n)}
		if rng.IntN(10) == 0 {
			r.Value = nil
		}
		if client.ProduceSync(context.Background(), r).FirstErr() == nil {
			if k.last[key] = n; r.Value == nil {
				delete(k.last, key)
			}
			k.written++
		}
		k.turn.Unlock()
	}
}

// verify compares what the topic holds with what was answered, and returns how many records it holds. While it reads the cleaner may take a tombstone away
// whose value it has seen; as nothing is written meanwhile it has nothing more to do soon, and the third time is the last.
func (k *keyed) verify(t *testing.T, admin *kadm.Client, connect connect) (records int) {
	t.Helper()
	k.turn.Lock()
	defer k.turn.Unlock()
	if k.written == 0 {
		return 0
	}
	var last map[string]int
	for range 3 {
		if last, records = readKeys(t, admin, connect); maps.Equal(k.last, last) {
			break
		}
	}
	require.Equal(t, k.last, last)
	return records
}

// readKeys reads the compacted topic to its end.
func readKeys(t *testing.T, admin *kadm.Client, connect connect) (last map[string]int, records int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ends, err := admin.ListEndOffsets(ctx, compactedTopic)
	require.NoError(t, err)
	end, _ := ends.Lookup(compactedTopic, 0)
	require.NoError(t, end.Err)
	client := connect(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{compactedTopic: {0: kgo.NewOffset().At(0)}}), kgo.FetchMaxWait(10*time.Millisecond))
	defer client.Close()
	last = map[string]int{}
	for offset := int64(-1); offset+1 < end.Offset; { // the last record is in the active segment and stays
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err0())
		fetches.EachRecord(func(r *kgo.Record) {
			require.Greater(t, r.Offset, offset)
			offset = r.Offset
			records++
			if r.Value == nil {
				delete(last, string(r.Key))
				return
			}
			last[string(r.Key)], err = strconv.Atoi(string(r.Value))
			require.NoError(t, err)
		})
	}
	return last, records
}
