// Package javamap lists keys in the order in which a java.util.HashMap does. Apache Kafka answers many requests in that order, which follows from the keys'
// hashes, so that it can be told from the outside.
package javamap

import (
	"cmp"
	"encoding/binary"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// OrderOfPut returns the distinct ones of keys as a map lists them that put added in this order, each at the end of its bucket. (Java turns buckets of 8 and
// more into trees, whose order is not followed.)
func OrderOfPut[K comparable](keys []K, hash func(K) int32) []K { return order(keys, hash, false) }

// OrderOfComputeIfAbsent is OrderOfPut for keys that computeIfAbsent added, each in front of its bucket.
func OrderOfComputeIfAbsent[K comparable](keys []K, hash func(K) int32) []K {
	return order(keys, hash, true)
}

func order[K comparable](keys []K, hash func(K) int32, inFront bool) []K {
	seen := make(map[K]bool, len(keys))
	distinct := make([]K, 0, len(keys))
	for _, k := range keys {
		if !seen[k] {
			seen[k] = true
			distinct = append(distinct, k)
		}
	}
	table := uint32(16)
	for len(distinct) > int(table/4*3) { // it grows once it is more than three quarters full
		table *= 2
	}
	if inFront {
		slices.Reverse(distinct)
	}
	bucket := func(k K) uint32 {
		h := uint32(hash(k))
		return (h ^ h>>16) & (table - 1)
	}
	slices.SortStableFunc(distinct, func(a, b K) int { return cmp.Compare(bucket(a), bucket(b)) })
	return distinct
}

// String is String.hashCode, which goes over UTF-16.
func String(s string) (h int32) {
	for _, r := range s {
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			h, r = 31*h+high, low
		}
		h = 31*h + r
	}
	return h
}

// Int is Integer.hashCode.
func Int(i int32) int32 { return i }

// UUID is Uuid.hashCode of Kafka.
func UUID(id [16]byte) int32 {
	x := binary.BigEndian.Uint64(id[:8]) ^ binary.BigEndian.Uint64(id[8:])
	return int32(x>>32) ^ int32(x)
}
