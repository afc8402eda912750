package broker

import (
	"cmp"
	"slices"

	"kshare/internal/javamap"
)

// Apache Kafka answers some requests in the order in which Scala's and Java's maps list their keys. It follows from the keys' hashes,
// so that it can be told from the outside.

// hashed is the place of a key in a request, with its hash.
type hashed struct {
	hash int32
	at   int
}

// scalaMapOrder sorts distinct keys as a scala.collection.mutable.HashMap lists them that they were put into in this order.
func scalaMapOrder(keys []hashed) {
	if len(keys) < 2 {
		return
	}
	table := uint32(16)
	for len(keys)+1 > int(table/4*3) { // it grows before it is three quarters full
		table *= 2
	}
	improved := func(k hashed) int32 { return k.hash ^ int32(uint32(k.hash)>>16) }
	slices.SortStableFunc(keys, func(a, b hashed) int {
		x, y := improved(a), improved(b)
		return cmp.Or(cmp.Compare(uint32(x)&(table-1), uint32(y)&(table-1)), cmp.Compare(x, y))
	})
}

// inJavaOrder returns items in the order in which a java.util.HashMap lists their keys, which were put into it in this order. Of items with the same key
// the last one is there.
func inJavaOrder[T any, K comparable](items []T, key func(*T) K, hash func(K) int32) []T {
	byKey := make(map[K]int, len(items))
	keys := make([]K, len(items))
	for i := range items {
		keys[i] = key(&items[i])
		byKey[keys[i]] = i
	}
	ordered := make([]T, 0, len(items))
	for _, k := range javamap.OrderOfPut(keys, hash) {
		ordered = append(ordered, items[byKey[k]])
	}
	return ordered
}

// smallMap is the largest size of an immutable map that keeps the order in which it was filled.
const smallMap = 4

// scalaTrieOrder sorts distinct keys as a scala.collection.immutable.HashMap lists them: a node of the trie lists the keys that
// are alone with their 5 bits of the hash before it lists its subtrees.
func scalaTrieOrder(keys []hashed) {
	for i := range keys {
		h := uint32(keys[i].hash)
		h += ^(h << 9)
		h ^= h >> 14
		h += h << 4
		keys[i].hash = int32(h ^ h>>10)
	}
	trieOrder(keys, 0)
}

// trieOrder sorts the keys of a node, whose hashes are improved, by the bits from shift on.
func trieOrder(keys []hashed, shift uint) {
	const bitsOfLevel, bitsOfHash = 5, 32
	if len(keys) < 2 || shift >= bitsOfHash {
		return
	}
	place := func(k hashed) uint32 { return uint32(k.hash) >> shift & (1<<bitsOfLevel - 1) }
	var count [1 << bitsOfLevel]int
	for _, k := range keys {
		count[place(k)]++
	}
	slices.SortStableFunc(keys, func(a, b hashed) int {
		x, y := place(a), place(b)
		return cmp.Or(cmp.Compare(min(count[x], 2), min(count[y], 2)), cmp.Compare(x, y))
	})
	for at := 0; at < len(keys); {
		n := count[place(keys[at])]
		trieOrder(keys[at:at+n], shift+bitsOfLevel)
		at += n
	}
}

// scalaResultOrder sorts distinct keys as Apache Kafka's results list them: they were put into a mutable map in this order, which was made an immutable one.
func scalaResultOrder(keys []hashed) {
	scalaMapOrder(keys)
	if len(keys) > smallMap {
		scalaTrieOrder(keys)
	}
}

// topicPartitionHash is TopicPartition.hashCode.
func topicPartitionHash(topic string, partition int32) int32 {
	return 31*(31+partition) + javamap.String(topic)
}

// topicIDPartitionHash is TopicIdPartition.hashCode; a topic that does not exist has no name, whose hash is that of "".
func topicIDPartitionHash(id [16]byte, topic string, partition int32) int32 {
	return 31*(31+javamap.UUID(id)) + topicPartitionHash(topic, partition)
}

// inTopic is TopicPartition.hashCode for the partitions of one topic.
func inTopic(topic string) func(int32) int32 {
	return func(partition int32) int32 { return topicPartitionHash(topic, partition) }
}
