package assignor

import (
	"bufio"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// placement is one line of testdata: what an assignor of Apache Kafka 4.4.0 answered to a spec. Left out are specs
// whose topics share a bucket of a hash map (their order there depends on history) and those of mixed simple groups
// with a topic that nobody subscribes to any more, which Kafka goes on assigning.
type placement struct {
	Assignor string
	Topics   map[string]struct {
		ID         string
		Partitions int32
	}
	Members []struct {
		ID       string
		Instance *string
		Topics   []string
		Target   map[string][]int32
	}
	Assignable map[string][]int32 // simple only
	Result     map[string]map[string][]int32
}

func topicID(t *testing.T, text string) (id TopicID) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	require.NoError(t, err)
	copy(id[:], b)
	return id
}

func (p placement) assignment(t *testing.T, m map[string][]int32) Assignment {
	a := Assignment{}
	for id, ps := range m {
		a[topicID(t, id)] = ps
	}
	return a
}

func (p placement) spec(t *testing.T) Spec {
	s := Spec{Topics: map[string]Topic{}}
	for name, x := range p.Topics {
		s.Topics[name] = Topic{topicID(t, x.ID), x.Partitions}
	}
	for _, m := range p.Members {
		s.Members = append(s.Members, Member{m.ID, m.Instance, m.Topics, p.assignment(t, m.Target)})
	}
	if p.Assignable != nil {
		assignable := p.assignment(t, p.Assignable)
		s.Assignable = func(id TopicID, i int32) bool { return slices.Contains(assignable[id], i) }
	}
	return s
}

// TestKafkaPlacements plays specs that were given to Kafka's own assignors and expects the same placement.
func TestKafkaPlacements(t *testing.T) {
	f, err := os.Open("testdata/kafka-4.4.0.jsonl.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	seen := map[string]int{}
	for n := 1; lines.Scan(); n++ {
		var p placement
		require.NoError(t, json.Unmarshal(lines.Bytes(), &p))
		assign, ok := ByName(p.Assignor)
		require.True(t, ok)
		want := map[string]Assignment{}
		for id, m := range p.Result {
			want[id] = p.assignment(t, m)
		}
		require.Equal(t, want, assign(p.spec(t)), "line %d: %s", n, lines.Bytes())
		seen[p.Assignor]++
	}
	require.NoError(t, lines.Err())
	for _, name := range []string{UniformName, RangeName, SimpleName} {
		require.Greater(t, seen[name], 100, name)
	}
}
