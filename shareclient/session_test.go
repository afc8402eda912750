package shareclient

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSession(t *testing.T) {
	a, b := Partition{Topic: "orders", Partition: 0}, Partition{Topic: "orders", Partition: 1}
	only := func(all ...Partition) map[Partition]bool {
		m := map[Partition]bool{}
		for _, p := range all {
			m[p] = true
		}
		return m
	}
	var s session
	add, forget := s.plan(only(a, b))
	assert.ElementsMatch(t, []Partition{a, b}, add, "a new session is told everything")
	assert.Empty(t, forget)
	s.answered(only(a, b))
	assert.EqualValues(t, 1, s.epoch)

	add, forget = s.plan(only(a, b))
	assert.Empty(t, add, "only what changes is told")
	assert.Empty(t, forget)
	add, forget = s.plan(only(b))
	assert.Empty(t, add)
	assert.Equal(t, []Partition{a}, forget)
	s.answered(only(b))
	s.answered(nil) // a ShareAcknowledge counts on and changes no partitions
	assert.Equal(t, session{3, only(b)}, s)

	s = session{}
	add, forget = s.plan(only(b))
	assert.Equal(t, []Partition{b}, add, "after a loss everything is told again")
	assert.Empty(t, forget, "a new session has nothing to forget")
	assert.Zero(t, s.epoch)

	s.epoch = math.MaxInt32
	s.answered(nil)
	assert.EqualValues(t, 1, s.epoch, "0 would open a session")
}

func TestBatches(t *testing.T) {
	got := batches(map[int64]AcknowledgeType{7: Accept, 3: Accept, 4: Reject, 5: Accept, 8: Accept})
	assert.Equal(t, []AcknowledgementBatch{{3, 5, []AcknowledgeType{Accept, Reject, Accept}}, {7, 8, []AcknowledgeType{Accept, Accept}}}, got)
	assert.Equal(t, []int8{1, 3, 1}, got[0].wireTypes())
	assert.Equal(t, []int8{1}, got[1].wireTypes(), "one type stands for all")
	assert.Empty(t, batches(nil))
}
