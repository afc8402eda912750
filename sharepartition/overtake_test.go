package sharepartition

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func stateBatch(first, last int64) StateBatch {
	return StateBatch{FirstOffset: first, LastOffset: last, State: Available, DeliveryCount: 1}
}

func TestOvertake(t *testing.T) {
	shared := []StateBatch{stateBatch(0, 9), stateBatch(10, 10)}
	w := Write{Batches: shared}
	assert.False(t, w.Overtake([]StateBatch{stateBatch(3, 4), stateBatch(9, 12), stateBatch(20, 30)}, false))
	assert.Equal(t, []StateBatch{stateBatch(0, 2), stateBatch(5, 8)}, w.Batches)
	assert.Equal(t, []StateBatch{stateBatch(0, 9), stateBatch(10, 10)}, shared, "who else has the batches keeps them")

	w = Write{Batches: shared}
	assert.False(t, w.Overtake([]StateBatch{stateBatch(11, 12)}, true))
	assert.True(t, w.Overtake([]StateBatch{stateBatch(11, 12), stateBatch(4, 4)}, true))
	assert.Equal(t, shared, w.Batches, "what is refused stays as it is")
}

func TestDecided(t *testing.T) {
	staged := func(first, last, producer int64) StateBatch {
		return StateBatch{FirstOffset: first, LastOffset: last, State: TxPending, Staged: Staged{ProducerID: producer, ProducerEpoch: 1, Type: TypeAccept}}
	}
	decided := func(first, last, producer int64) StateBatch {
		b := staged(first, last, producer)
		b.State = Acknowledged
		return b
	}
	w := Write{Batches: []StateBatch{staged(2, 5, 7), stateBatch(6, 6)}}
	assert.Equal(t, []StateBatch{decided(2, 3, 7), decided(5, 5, 7)}, w.Decided([]StateBatch{decided(0, 3, 7), decided(4, 4, 8), decided(5, 9, 7)}))
	assert.Empty(t, w.Decided([]StateBatch{decided(6, 6, 7)}), "what is not staged is not decided")
}
