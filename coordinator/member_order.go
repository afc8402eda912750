package coordinator

import (
	"math/bits"
	"slices"

	"kshare/internal/javamap"
)

// memberOrder is the order in which Apache Kafka walks the members of a group, which follows from their ids and from who joined first: that of its
// TimelineHashMap. The assignors' own maps follow it where ids share a bucket. It is kept in memory alone: after a restart those who were there count as
// having joined in the order of their ids.
type memberOrder struct {
	slots [][]string // a power of two, each slot in the order of joining
	size  int
}

// walk lists members, whose ids it is given, sorted. Those that it had not seen have a place from then on.
func (o *memberOrder) walk(ids []string) (listed []string) {
	if o.slots == nil {
		o.slots = make([][]string, 2)
	}
	var seen []string
	for i, slot := range o.slots {
		o.slots[i] = slices.DeleteFunc(slot, func(id string) bool {
			_, found := slices.BinarySearch(ids, id)
			return !found
		})
		o.size -= len(slot) - len(o.slots[i])
		seen = append(seen, o.slots[i]...)
	}
	slices.Sort(seen)
	for _, id := range ids {
		if _, found := slices.BinarySearch(seen, id); !found {
			o.grow()
			o.put(id)
			o.size++
		}
	}
	for _, slot := range o.slots {
		for _, id := range slices.Backward(slot) {
			listed = append(listed, id)
		}
	}
	o.grow() // a member is put in once more as it gets its assignment, and Kafka looks each time whether the table is large enough
	return listed
}

// grow doubles the table where three quarters of its members and one more were more than its slots.
func (o *memberOrder) grow() {
	if (o.size+1)*3 <= len(o.slots)*4 {
		return
	}
	old := o.slots
	o.slots = make([][]string, 2*len(old))
	for _, slot := range old {
		for _, id := range slot {
			o.put(id)
		}
	}
}

func (o *memberOrder) put(id string) {
	const fibonacci = 0x9E3779B97F4A7C15
	at := uint64(int64(javamap.String(id))) * fibonacci >> (65 - bits.Len(uint(len(o.slots))))
	o.slots[at] = append(o.slots[at], id)
}
