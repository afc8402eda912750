package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// churn makes topics with a configuration of their own and a record in each partition, and deletes some of them.
func (l *load) churn(client *kgo.Client) {
	rng := rand.New(rand.NewPCG(l.seed, 8))
	admin := kadm.NewClient(client)
	retention := "123456789"
	for n := 0; l.producing.Err() == nil; n++ {
		name := fmt.Sprintf("churn-%05d", n)
		_, err := admin.CreateTopic(l.producing, 2, 1, map[string]*string{"retention.ms": &retention}, name)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) { // a retry finds what an unanswered request has made
			continue
		}
		l.ledger.noteTopic(name, topicMade)
		for partition := range int32(2) {
			if client.ProduceSync(l.producing, &kgo.Record{Topic: name, Partition: partition, Value: []byte(name)}).FirstErr() != nil {
				return
			}
		}
		l.ledger.noteTopic(name, topicFilled)
		if rng.IntN(3) > 0 {
			l.ledger.noteTopic(name, topicDoomed)
			_, err := admin.DeleteTopic(l.producing, name)
			if err == nil || errors.Is(err, kerr.UnknownTopicOrPartition) {
				l.ledger.noteTopic(name, topicGone)
			}
		}
	}
}

// topicFate is what a client knows of a topic.
type topicFate int

const (
	topicMade   topicFate = iota + 1
	topicFilled           // each partition has a record
	topicDoomed           // its deletion was asked for
	topicGone
)

func (l *ledger) noteTopic(name string, fate topicFate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topics[name] = fate
	l.event()
}

// verifyTopics compares the topics that there are with what was known of them before. The client works on meanwhile, so a topic may be gone
// that it has doomed since; until then it is whole.
func (l *ledger) verifyTopics(t *testing.T, ctx context.Context, admin *kadm.Client, fates map[string]topicFate) {
	t.Helper()
	topics, ends := endsOfTopics(t, ctx, admin)
	doomed := func(name string) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.topics[name] >= topicDoomed
	}
	for name, fate := range fates {
		if fate == topicGone {
			require.False(t, topics.Has(name), "%s was deleted", name)
			continue
		}
		if !topics.Has(name) {
			require.True(t, doomed(name), "%s is missing", name)
			continue
		}
		if fate == topicMade {
			continue
		}
		for partition := range int32(2) {
			if end, _ := ends.Lookup(name, partition); end.Err == nil {
				require.EqualValues(t, 1, end.Offset, "the record of %s-%d", name, partition)
			} else {
				require.True(t, doomed(name), "%s-%d: %v", name, partition, end.Err)
			}
		}
	}
}

// endsOfTopics lists the topics and their ends. A topic that is deleted in between makes it begin anew.
func endsOfTopics(t *testing.T, ctx context.Context, admin *kadm.Client) (kadm.TopicDetails, kadm.ListedOffsets) {
	t.Helper()
	for {
		topics, err := admin.ListTopics(ctx)
		require.NoError(t, err)
		ends, err := admin.ListEndOffsets(ctx, topics.Names()...)
		if err == nil {
			return topics, ends
		}
		require.ErrorContains(t, err, kerr.UnknownTopicOrPartition.Message)
	}
}

// filledPartitions counts the partitions of users' topics that have records.
func filledPartitions(t *testing.T, ctx context.Context, admin *kadm.Client) (n int) {
	t.Helper()
	_, ends := endsOfTopics(t, ctx, admin)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			n++
		}
	})
	return n
}

// verifyFiles checks that a store at rest holds a number of users' logs and nothing else.
func verifyFiles(t *testing.T, dir string, logs int) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "logs"))
	require.NoError(t, err)
	for _, e := range entries {
		require.False(t, strings.HasSuffix(e.Name(), ".deleted"), "%s is left of a deleted topic", e.Name())
	}
	require.Len(t, entries, logs)
}
