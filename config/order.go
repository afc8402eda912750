package config

import (
	"cmp"
	"math/bits"
	"slices"
	"unicode/utf16"
)

// hashCode is Java's String.hashCode.
func hashCode(s string) int32 {
	var h int32
	for _, unit := range utf16.Encode([]rune(s)) {
		h = 31*h + int32(unit)
	}
	return h
}

// spreadHash is the hash by which a java.util.HashMap places a string.
func spreadHash(s string) uint32 {
	h := uint32(hashCode(s))
	return h ^ h>>16
}

// HashOrder sorts names, of which none is twice, as a java.util.HashMap that they were put into iterates over them.
func HashOrder(names []string) []string { return hashOrder(names, len(names)) }

// hashOrder sorts names as a hash map of size entries iterates over them: by table index, and within one index by the
// signed hash (Scala's map; Java's keeps the order of insertion there, which nobody can tell from outside).
func hashOrder(names []string, size int) []string {
	// The table has the next power of two that is at least size/0.75+1, and at least 16.
	mask := uint32(1)<<bits.Len(uint(max(15, size*4/3))) - 1
	slices.SortFunc(names, func(a, b string) int {
		ha, hb := spreadHash(a), spreadHash(b)
		return cmp.Or(cmp.Compare(ha&mask, hb&mask), cmp.Compare(int32(ha), int32(hb)), cmp.Compare(a, b))
	})
	return names
}
