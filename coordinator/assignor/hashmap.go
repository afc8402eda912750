package assignor

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"

	"kshare/internal/javamap"
)

// hashMap is a map that is walked in the order in which java.util.HashMap walks the same keys: by bucket, and
// within a bucket by age. (Java turns buckets of 8 and more into trees, whose order is not followed.)
//
// Invariants: len(buckets) is a power of two; size <= len(buckets)*3/4 after a put.
type hashMap[K comparable, V any] struct {
	hash    func(K) int32
	buckets [][]entry[K, V]
	size    int
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// minCapacity is the capacity of a map that was made without one.
const minCapacity = 16

// presized is the capacity of a set made from a collection of n elements.
func presized(n int) int { return max(tableSize(int(float32(n)/0.75)+1), minCapacity) }

// sized is the capacity of a map that Kafka's assignors make for n expected keys.
func sized(n int) int { return tableSize(int(float32(n+1)/0.75 + 1)) }

// tableSize is the smallest power of two that is at least n.
func tableSize(n int) int {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len(uint(n-1))
}

func newHashMap[K comparable, V any](hash func(K) int32, capacity int) *hashMap[K, V] {
	return &hashMap[K, V]{hash: hash, buckets: make([][]entry[K, V], capacity)}
}

func (m *hashMap[K, V]) bucket(key K) *[]entry[K, V] {
	h := uint32(m.hash(key))
	return &m.buckets[(h^h>>16)&uint32(len(m.buckets)-1)]
}

func (m *hashMap[K, V]) get(key K) (V, bool) {
	for _, e := range *m.bucket(key) {
		if e.key == key {
			return e.value, true
		}
	}
	var zero V
	return zero, false
}

func (m *hashMap[K, V]) has(key K) bool {
	_, ok := m.get(key)
	return ok
}

func (m *hashMap[K, V]) put(key K, value V) {
	b := m.bucket(key)
	for i := range *b {
		if (*b)[i].key == key {
			(*b)[i].value = value
			return
		}
	}
	*b = append(*b, entry[K, V]{key, value})
	m.added()
}

// computeIfAbsent returns the value of a key and adds it first if there is none. Unlike put, Java's adds to the
// front of the bucket.
func (m *hashMap[K, V]) computeIfAbsent(key K, compute func() V) V {
	if v, ok := m.get(key); ok {
		return v
	}
	v := compute()
	b := m.bucket(key)
	*b = append([]entry[K, V]{{key, v}}, *b...)
	m.added()
	return v
}

func (m *hashMap[K, V]) added() {
	if m.size++; m.size > len(m.buckets)*3/4 {
		m.grow()
	}
}

func (m *hashMap[K, V]) grow() {
	old := m.buckets
	m.buckets = make([][]entry[K, V], 2*len(old))
	for _, b := range old {
		for _, e := range b {
			n := m.bucket(e.key)
			*n = append(*n, e)
		}
	}
}

func (m *hashMap[K, V]) remove(key K) {
	b := m.bucket(key)
	for i := range *b {
		if (*b)[i].key == key {
			*b = append((*b)[:i:i], (*b)[i+1:]...)
			m.size--
			return
		}
	}
}

// keys are the keys in order, a copy: the map may change while they are walked.
func (m *hashMap[K, V]) keys() []K {
	keys := make([]K, 0, m.size)
	m.each(func(k K, _ V) { keys = append(keys, k) })
	return keys
}

// each calls f for each entry in order. f must not change the map's keys.
func (m *hashMap[K, V]) each(f func(K, V)) {
	for _, b := range m.buckets {
		for _, e := range b {
			f(e.key, e.value)
		}
	}
}

// hashTopic is Uuid.hashCode.
func hashTopic(id TopicID) int32 { return javamap.UUID(id) }

// hashPartition is TopicIdPartition.hashCode.
func hashPartition(p partition) int32 { return 31*hashTopic(p.topic) + p.index }

// CompareTopics orders topic ids as Uuid.compareTo does, by two signed halves.
func CompareTopics(a, b TopicID) int {
	if bytes.Equal(a[:8], b[:8]) {
		return cmp.Compare(int64(binary.BigEndian.Uint64(a[8:])), int64(binary.BigEndian.Uint64(b[8:])))
	}
	return cmp.Compare(int64(binary.BigEndian.Uint64(a[:8])), int64(binary.BigEndian.Uint64(b[:8])))
}

// StringOrder returns distinct strings in the order in which Kafka lists a set of them, such as the topics a
// member subscribes to.
func StringOrder(names []string) []string {
	m := newHashMap[string, struct{}](javamap.String, presized(len(names)))
	for _, n := range names {
		m.put(n, struct{}{})
	}
	return m.keys()
}

// TopicOrder returns distinct topic ids in the order in which Kafka lists the topics of an assignment.
func TopicOrder(ids []TopicID) []TopicID {
	m := newHashMap[TopicID, struct{}](hashTopic, minCapacity)
	for _, id := range ids {
		m.put(id, struct{}{})
	}
	return m.keys()
}
