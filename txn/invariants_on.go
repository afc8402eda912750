//go:build invariants

package txn

import (
	"fmt"
	"slices"
)

// checkTransition panics where an id comes into a state that does not follow its last.
func checkTransition(id string, from, to *Transaction) {
	if err := from.follows(to); err != nil {
		panic(fmt.Sprintf("txn: id %q: %v", id, err))
	}
}

// before are the states that each state may follow.
var before = map[State][]State{
	Empty:          {Empty, CompleteCommit, CompleteAbort},
	Ongoing:        {Empty, Ongoing, CompleteCommit, CompleteAbort},
	PrepareCommit:  {Ongoing},
	PrepareAbort:   {Ongoing, Empty, CompleteCommit, CompleteAbort},
	CompleteCommit: {PrepareCommit},
	CompleteAbort:  {PrepareAbort},
}

// follows tells what is wrong with a change, nil where it may be:
//
//	to.State is one that may follow t.State
//	to.ID == t.ID: t.Epoch <= to.Epoch <= t.Epoch+1, but to.Epoch == t.NextEpoch where what was kept completes
//	to.ID != t.ID: to.Epoch == 0, and to.ID is t.NextProducerID where to is complete; where what was kept completes to.Epoch == t.NextEpoch
//	to.NextEpoch is none unless to is ongoing or decided
//	to.Partitions is empty unless to is ongoing or decided; what is ongoing keeps the partitions of t
func (t *Transaction) follows(to *Transaction) error {
	completesKept := t.kept() && t.State.preparing()
	switch {
	case !slices.Contains(before[to.State], t.State):
		return fmt.Errorf("%s cannot follow %s", to.State, t.State)
	case to.kept() && to.State != Ongoing && !to.State.preparing():
		return fmt.Errorf("%s keeps a transaction for %v", to.State, to.owner())
	case completesKept && to.Producer != t.owner():
		return fmt.Errorf("producer %v follows what was kept, which was to be followed by %v", to.Producer, t.owner())
	case !completesKept && to.ID == t.ID && (to.Epoch < t.Epoch || int32(to.Epoch) > int32(t.Epoch)+1):
		return fmt.Errorf("epoch %d cannot follow %d", to.Epoch, t.Epoch)
	case !completesKept && to.ID != t.ID && to.Epoch != 0:
		return fmt.Errorf("the new producer id %d begins with epoch %d", to.ID, to.Epoch)
	case to.ID != t.ID && t.State.preparing() && to.ID != t.NextProducerID:
		return fmt.Errorf("producer id %d follows %d, which was to be followed by %d", to.ID, t.ID, t.NextProducerID)
	case len(to.Partitions) > 0 && to.State != Ongoing && !to.State.preparing():
		return fmt.Errorf("%s has partitions %v", to.State, to.Partitions)
	case t.State == Ongoing && (to.State == Ongoing || to.State.preparing()) && len(union(t.Partitions, to.Partitions)) != len(to.Partitions):
		return fmt.Errorf("the partitions %v do not contain %v", to.Partitions, t.Partitions)
	}
	return nil
}
