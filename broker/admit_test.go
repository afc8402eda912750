package broker

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// largeProduce names topics with partitions each.
func largeProduce(version int16, topics, partitions int) *kmsg.ProduceRequest {
	q := kmsg.NewPtrProduceRequest()
	q.Version = version
	for range topics {
		t := kmsg.NewProduceRequestTopic()
		t.Topic = "orders"
		for i := range partitions {
			p := kmsg.NewProduceRequestTopicPartition()
			p.Partition, p.Records = int32(i), []byte("records")
			t.Partitions = append(t.Partitions, p)
		}
		q.Topics = append(q.Topics, t)
	}
	return q
}

func TestProducePartitionsAreCounted(t *testing.T) {
	for version := int16(firstProduceVersion); version <= 13; version++ {
		body := largeProduce(version, 3, 4).AppendTo(nil)
		n, ok := producePartitions(body, version)
		require.True(t, ok, "v%d", version)
		require.Equal(t, 3+3*4, n, "v%d", version)
		for cut := range len(body) - 1 {
			_, ok := producePartitions(body[:cut], version)
			if q := largeProduce(version, 0, 0); q.ReadFrom(body[:cut]) == nil {
				require.True(t, ok, "v%d cut to %d", version, cut)
			}
		}
		n, _ = producePartitions(largeProduce(version, 2, maxProducePartitions).AppendTo(nil), version)
		require.Greater(t, n, maxProducePartitions)
	}
}

func FuzzProducePartitions(f *testing.F) {
	for _, version := range []int16{3, 9, 13} {
		f.Add(largeProduce(version, 2, 2).AppendTo(nil), version)
	}
	f.Fuzz(func(t *testing.T, body []byte, version int16) {
		if version < firstProduceVersion || version > 13 {
			return
		}
		n, ok := producePartitions(body, version)
		if n > maxProducePartitions {
			return
		}
		q := kmsg.NewPtrProduceRequest()
		q.Version = version
		if q.ReadFrom(body) == nil {
			require.True(t, ok)
			require.Equal(t, elements(reflect.ValueOf(q).Elem()), n)
		}
	})
}

func TestElementsAreCounted(t *testing.T) {
	require.Equal(t, 3+3*4, elements(reflect.ValueOf(largeProduce(9, 3, 4)).Elem()))
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Groups = make([]string, 7)
	require.Equal(t, 7, elements(reflect.ValueOf(q).Elem()))
}
