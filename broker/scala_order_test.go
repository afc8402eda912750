package broker

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kshare/internal/javamap"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/sharesession"
)

// The orders in which a running Scala 2.13.18 lists these keys, those of Apache Kafka's classes.

func TestScalaMapOrder(t *testing.T) {
	var names []string
	var order []hashed
	for i := range int32(30) {
		topic := []string{"orders", "no-such", "ä𝄞"}[i%3]
		names = append(names, fmt.Sprint(topic, "-", i))
		order = append(order, hashed{topicPartitionHash(topic, i), int(i)})
	}
	scalaMapOrder(order)
	var got []string
	for _, o := range order {
		got = append(got, names[o.at])
	}
	assert.Equal(t, "ä𝄞-17 no-such-16 orders-12 ä𝄞-23 orders-18 ä𝄞-29 no-such-10 orders-24 ä𝄞-2 no-such-4 ä𝄞-8 orders-3 no-such-25 "+
		"ä𝄞-14 no-such-13 orders-9 ä𝄞-20 no-such-19 orders-15 no-such-7 ä𝄞-26 orders-21 orders-27 ä𝄞-5 no-such-1 orders-0 no-such-22 "+
		"ä𝄞-11 orders-6 no-such-28", strings.Join(got, " "))
}

func TestScalaMapOrderOfTopicIDs(t *testing.T) {
	var order []hashed
	for i := range 5 {
		id := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18 + byte(i)}
		name := fmt.Sprint("t", i)
		if i == 4 {
			name = ""
		}
		order = append(order, hashed{topicIDPartitionHash(id, name, int32(i)), i})
	}
	scalaMapOrder(order)
	var got []int
	for _, o := range order {
		got = append(got, o.at)
	}
	assert.Equal(t, []int{4, 3, 2, 1, 0}, got)
}

func TestScalaTrieOrder(t *testing.T) {
	var order []hashed
	for i := range 60 {
		order = append(order, hashed{javamap.String(fmt.Sprint("topic-", i)), i})
	}
	scalaTrieOrder(order)
	var names []string
	for _, o := range order {
		names = append(names, fmt.Sprint(o.at))
	}
	assert.Equal(t, "23 52 56 12 28 59 49 43 57 1 18 34 41 5 30 9 45 39 29 42 2 16 6 20 31 8 38 27 53 17 54 15 50 21 32 13 48 58 10 19 "+
		"26 3 37 0 40 51 14 35 24 33 46 25 11 7 22 44 55 4 47 36", strings.Join(names, " "))
}

// The order in which a running Apache Kafka 4.4.0 listed the results of acknowledgements for these partitions, of topics with these ids, in a ShareFetch
// that had nothing else to tell and in a ShareAcknowledge.
func TestOrderOfAcknowledged(t *testing.T) {
	id := func(s string) (id [16]byte) {
		b, err := hex.DecodeString(s)
		require.NoError(t, err)
		copy(id[:], b)
		return id
	}
	topics := [][16]byte{
		id("637ca70b63d748598d8d684658c40e5b"), id("10a311330df94b71aef561fadf1ef8c3"),
		id("08598eb8672a4e86954fce3105195bb0"), id("35ad9dae7251467ca490438429f9e949"),
	}
	asked := []struct {
		topic     int
		partition int32
	}{{3, 0}, {3, 2}, {0, 11}, {0, 9}, {0, 16}, {2, 4}, {1, 2}, {1, 17}, {1, 15}, {1, 5}}
	var all []sharesession.Partition
	var results []shareAcknowledged
	c := &Cluster{topicsByID: map[[16]byte]*topic{}}
	for i, id := range topics {
		c.topicsByID[id] = &topic{name: fmt.Sprint("orders", i)}
	}
	for _, x := range asked {
		at := sharesession.Partition{TopicID: topics[x.topic], Partition: x.partition}
		all, results = append(all, at), append(results, shareAcknowledged{at: at})
	}
	var got []string
	name := func(at sharesession.Partition) string {
		return fmt.Sprint(slices.Index(topics, at.TopicID), "-", at.Partition)
	}
	for _, at := range acknowledgedOrder(all) {
		got = append(got, name(at))
	}
	assert.Equal(t, "3-0 3-2 2-4 1-17 1-2 1-5 1-15 0-16 0-9 0-11", strings.Join(got, " "))

	var a shareAcknowledgeAnswer
	a.list(c, results)
	got = nil
	for _, x := range a.topics {
		for _, p := range x.partitions {
			got = append(got, name(sharesession.Partition{TopicID: x.id, Partition: p.index}))
		}
	}
	assert.Equal(t, "2-4 0-11 0-9 0-16 1-2 1-15 1-17 1-5 3-0 3-2", strings.Join(got, " "))
}
