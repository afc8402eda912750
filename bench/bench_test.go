package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

// Every trial runs against both brokers and finds a value for each of its measures. What the values are is not asked.
func TestQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs two brokers")
	}
	s := quickSizes
	brokers, err := build(t.Context(), t.TempDir(), "")
	require.NoError(t, err)
	var results []*result
	for _, trial := range trials(&s) {
		if trial.derive != nil {
			r := trial.derived(results)
			require.NotNil(t, r, trial.name)
			require.Greater(t, r.values[kshareBroker][0][0], 0.0)
			results = append(results, r)
			continue
		}
		r, err := trial.measure(t.Context(), brokers, 1, true)
		require.NoError(t, err, "%s: %s", trial.section, trial.name)
		for i := range brokers {
			if trial.alone && i == kfakeBroker {
				require.Empty(t, r.values[i])
				continue
			}
			require.Len(t, r.values[i], 1)
			require.Len(t, r.values[i][0], len(trial.measures))
			for m, v := range r.values[i][0] {
				require.False(t, v < 0 || math.IsNaN(v) || math.IsInf(v, 0), "%s: %s is %v", trial.name, trial.measures[m].name, v)
			}
		}
		results = append(results, r)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, writePage(page, results, &s))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "ShareAcknowledge, p99")
}

// What the generator sends is a batch that the broker's own reader accepts.
func TestMakeBatch(t *testing.T) {
	batch := makeBatch(1000, 100)
	h, err := protocol.ParseBatchHeader(batch)
	require.NoError(t, err)
	require.Equal(t, len(batch), h.Size())
	require.Equal(t, protocol.BatchCRC(batch), h.CRC)
	require.EqualValues(t, 1000, h.NumRecords)
	next, err := nextOffset(batch, 7)
	require.NoError(t, err)
	require.EqualValues(t, 1000, next)
	next, err = nextOffset(batch[:len(batch)-1], 7)
	require.NoError(t, err)
	require.EqualValues(t, 7, next)
}

// A record that is settled is counted once, and one that has been delivered too often is never released.
func TestMixing(t *testing.T) {
	answer := mixing(1)
	acks, settled := answer([]acquired{{FirstOffset: 0, LastOffset: 99, DeliveryCount: 1}, {FirstOffset: 100, LastOffset: 199, DeliveryCount: deliveryLimit}})
	require.Len(t, acks, 2)
	count := map[int8]int{}
	for i, a := range acks {
		require.Len(t, a.AcknowledgeTypes, 100)
		for _, kind := range a.AcknowledgeTypes {
			count[kind]++
			require.False(t, i == 1 && kind == release)
		}
	}
	require.Equal(t, settled, count[accept]+count[reject])
	require.Equal(t, 200, settled+count[release])
}

// The loop of KIP-1289 has each record once in its output, whatever is aborted. A record that is acknowledged beside a transaction that is aborted is lost, which
// is found.
func TestWhatGoesInComesOutOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs two brokers")
	}
	brokers, err := build(t.Context(), t.TempDir(), "")
	require.NoError(t, err)
	kshare := &brokers[kshareBroker]
	for _, how := range []way{within, beside, plain} {
		_, _, err = loop(t.Context(), kshare, 10, how, false)
		require.NoError(t, err)
	}
	_, _, err = loop(t.Context(), kshare, 10, within, true)
	require.NoError(t, err)
	_, _, err = loop(t.Context(), kshare, 3, beside, true)
	require.ErrorContains(t, err, "ShareFetch: 0 ranges", "fewer than three batches come out")
}

// A record that came out twice, or not at all, is told, as is one that never went in.
func TestCountNumbers(t *testing.T) {
	batch, err := numberedBatch(2, 3)
	require.NoError(t, err)
	seen := make([]int, 5)
	next, err := countNumbers(append(batch, batch...), nil, seen)
	require.NoError(t, err)
	require.EqualValues(t, 3, next)
	require.Equal(t, []int{0, 0, 2, 2, 2}, seen)
	require.ErrorContains(t, eachOnce(seen), "record 0 of the input came out 0 times")
	require.ErrorContains(t, eachOnce(seen[2:]), "record 0 of the input came out 2 times")
	require.NoError(t, eachOnce([]int{1, 1}))
	_, err = countNumbers(batch, nil, make([]int, 4))
	require.ErrorContains(t, err, "record 4 came out, which never went in")
	seen = make([]int, 5)
	_, err = countNumbers(batch, []kmsg.FetchResponseTopicPartitionAbortedTransaction{{FirstOffset: 0}}, seen)
	require.NoError(t, err)
	require.Equal(t, make([]int, 5), seen)
}

func TestStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := build(ctx, t.TempDir(), "")
	require.Error(t, err)
}

func TestMedian(t *testing.T) {
	require.Equal(t, 2.0, median([]float64{3, 1, 2}))
	require.Equal(t, 2.5, median([]float64{4, 1, 3, 2}))
	require.Equal(t, 7.0, median([]float64{7}))
	require.Equal(t, 2.0, median([]float64{5, 1, 2, 2, 9}))
	require.Zero(t, median(nil))
}
