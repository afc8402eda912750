//go:build unix

package interop

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// dumpTopic has kafka-dump-log read what the broker keeps in an internal topic: the batches as they are fetched, in files named as Kafka names its
// segments. It returns what that prints with a decoder. Every batch is valid.
func dumpTopic(t *testing.T, bootstrap string, java []string, topic, decoder string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	require.NoError(t, err)
	defer client.Close()
	admin := kadm.NewClient(client)
	begin, err := admin.ListStartOffsets(ctx, topic)
	require.NoError(t, err)
	end, err := admin.ListEndOffsets(ctx, topic)
	require.NoError(t, err)
	topics, err := admin.ListTopicsWithInternal(ctx, topic)
	require.NoError(t, err)

	dir := t.TempDir()
	var files []string
	valid := 0
	begin.Each(func(o kadm.ListedOffset) {
		last, ok := end.Lookup(o.Topic, o.Partition)
		require.True(t, ok)
		require.NoError(t, o.Err)
		require.NoError(t, last.Err)
		if o.Offset == last.Offset {
			return
		}
		partition := filepath.Join(dir, fmt.Sprintf("%s-%d", o.Topic, o.Partition))
		require.NoError(t, os.Mkdir(partition, 0o755))
		segment := filepath.Join(partition, fmt.Sprintf("%020d.log", o.Offset))
		batches, n := fetchBatches(ctx, t, client, topics[topic].ID, o.Partition, o.Offset, last.Offset)
		require.NoError(t, os.WriteFile(segment, batches, 0o644))
		files, valid = append(files, segment), valid+n
	})
	require.NotEmpty(t, files, "nothing was written to %s", topic)

	args := append(java[:len(java):len(java)], "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", decoder, "--files", strings.Join(files, ","))
	out := run(t, programLimit, "java", nil, args...)
	assert.Equal(t, valid, strings.Count(out, " isvalid: true"), "valid batches")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kafka-dump-log printed:\n%s", tail([]byte(out)))
		}
	})
	return out
}

// dumpShareState holds that every record of __share_group_state is one that Kafka's decoder knows.
func dumpShareState(t *testing.T, bootstrap string, java []string) {
	t.Helper()
	out := dumpTopic(t, bootstrap, java, "__share_group_state", "--share-group-state-decoder")
	kinds := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\| offset: \d+ .*? key: (\{.*\}) payload: (\{.*\}|<DELETE>)$`).FindAllStringSubmatch(out, -1) {
		var key struct{ Type string }
		require.NoError(t, json.Unmarshal([]byte(m[1]), &key), m[1])
		switch {
		case m[2] == "<DELETE>":
			kinds["tombstone"]++
		case key.Type == "0":
			kinds["snapshot"]++
		case key.Type == "1":
			kinds["update"]++
		}
	}
	assert.Equal(t, strings.Count(out, "\n| offset: "), kinds["tombstone"]+kinds["snapshot"]+kinds["update"], "records that were decoded")
	for _, kind := range []string{"tombstone", "snapshot", "update"} {
		assert.NotZero(t, kinds[kind], kind)
	}
}

// dumpTransactionState holds that every record of __transaction_state is one that Kafka's decoder knows, and that each state of a transaction is among them.
func dumpTransactionState(t *testing.T, bootstrap string, java []string) {
	t.Helper()
	out := dumpTopic(t, bootstrap, java, "__transaction_state", "--transaction-log-decoder")
	states := map[string]int{}
	records := 0
	for _, m := range regexp.MustCompile(`(?m)^\| offset: \d+ .*? key: (\{.*\}) payload: (\{.*\})$`).FindAllStringSubmatch(out, -1) {
		var value struct {
			Data struct{ TransactionStatus string }
		}
		require.NoError(t, json.Unmarshal([]byte(m[2]), &value), m[2])
		states[value.Data.TransactionStatus]++
		records++
	}
	assert.Equal(t, strings.Count(out, "\n| offset: "), records, "records that were decoded")
	for _, state := range []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"} {
		assert.NotZero(t, states[state], state)
	}
}

// fetchBatches returns the batches of a partition from an offset up to another as they are stored, and how many they are.
func fetchBatches(ctx context.Context, t *testing.T, client *kgo.Client, topic [16]byte, partition int32, from, to int64) (batches []byte, n int) {
	t.Helper()
	for from < to {
		q := kmsg.NewPtrFetchRequest()
		q.Version, q.MaxBytes, q.MaxWaitMillis = 13, 10<<20, 1000
		at := kmsg.NewFetchRequestTopic()
		at.TopicID = topic
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, from, 10<<20
		at.Partitions = append(at.Partitions, p)
		q.Topics = append(q.Topics, at)
		answer, err := q.RequestWith(ctx, client)
		require.NoError(t, err)
		require.Len(t, answer.Topics, 1)
		fetched := answer.Topics[0].Partitions[0]
		require.Zero(t, fetched.ErrorCode)
		before := from
		for b := fetched.RecordBatches; len(b) >= 61; {
			size := 12 + int(binary.BigEndian.Uint32(b[8:]))
			if size > len(b) {
				break // a broker may cut the last one
			}
			batches, n = append(batches, b[:size]...), n+1
			from = int64(binary.BigEndian.Uint64(b)) + int64(binary.BigEndian.Uint32(b[23:])) + 1
			b = b[size:]
		}
		require.Greater(t, from, before, "nothing was fetched at offset %d of partition %d", from, partition)
	}
	return batches, n
}
