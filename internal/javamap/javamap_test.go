package javamap_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"kshare/internal/javamap"
)

// The orders that Apache Kafka 4.4.0 listed these partitions in, of a ReadShareGroupStateSummary and a DescribeShareGroupOffsets.
func TestOrder(t *testing.T) {
	asked := []int32{49, 33, 17, 1, 16, 0, 32, 5}
	assert.Equal(t, []int32{16, 0, 32, 49, 33, 17, 1, 5}, javamap.OrderOfPut(asked, javamap.Int))
	assert.Equal(t, []int32{32, 0, 16, 1, 17, 33, 49, 5}, javamap.OrderOfComputeIfAbsent(asked, javamap.Int))
	for i := int32(59); i >= 0; i -= 3 {
		asked = append(asked, i)
	}
	assert.Equal(t, []int32{0, 1, 2, 5, 8, 11, 14, 16, 17, 20, 23, 26, 29, 32, 33, 35, 38, 41, 44, 47, 49, 50, 53, 56, 59}, javamap.OrderOfPut(asked, javamap.Int),
		"what is there twice is there once, and more keys have more buckets")
	assert.Empty(t, javamap.OrderOfPut(nil, javamap.Int))
}

func TestHashes(t *testing.T) {
	assert.EqualValues(t, 0, javamap.String(""))
	assert.EqualValues(t, 96354, javamap.String("abc"))
	assert.EqualValues(t, -1008770331, javamap.String("orders"))
	assert.EqualValues(t, 0xd83d*31+0xde00, javamap.String("\U0001f600"), "a letter of two UTF-16 units")
	assert.EqualValues(t, 1^2^3^4, javamap.UUID([16]byte{3: 1, 7: 2, 11: 3, 15: 4}))
	assert.EqualValues(t, -7, javamap.Int(-7))
}
