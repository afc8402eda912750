package crash

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What nobody has tried to accept and what is no dead letter either is lost.
func TestLedgerTellsLostRecords(t *testing.T) {
	l := newLedger()
	for offset := range int64(5) {
		l.noteProduced(&kgo.Record{Offset: offset}, nil)
		l.noteDelivered(place{0, offset}, 1, time.Now())
	}
	l.noteAccepting(place{0, 0})
	l.noteReleased(place{0, 1}, 9)
	l.noteSettled(place{0, 2})
	assert.ElementsMatch(t, []place{{0, 1}, {0, 4}}, l.unaccounted(map[place]bool{{0, 2}: true, {0, 3}: true}))
}

// What the ledger allows and what it notes as a broken promise.
func TestLedger(t *testing.T) {
	at := place{0, 7}
	before, after := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for name, test := range map[string]struct {
		broken bool
		run    func(l *ledger)
	}{
		"settled":                             {false, func(l *ledger) { l.noteDelivered(at, 1, before); l.noteSettled(at) }},
		"settled, and acquired before":        {false, func(l *ledger) { l.noteSettled(at); l.noteDelivered(at, 1, before) }},
		"settled, and delivered again":        {true, func(l *ledger) { l.noteSettled(at); l.noteDelivered(at, 2, after) }},
		"settled twice, and delivered again":  {true, func(l *ledger) { l.noteSettled(at); l.noteSettled(at); l.noteDelivered(at, 1, after) }},
		"released, and delivered again":       {false, func(l *ledger) { l.noteReleased(at, 1); l.noteDelivered(at, 2, after) }},
		"released, and acquired before":       {false, func(l *ledger) { l.noteReleased(at, 2); l.noteDelivered(at, 1, before) }},
		"released, and the count stays":       {true, func(l *ledger) { l.noteReleased(at, 1); l.noteDelivered(at, 1, after) }},
		"released twice, and the count falls": {true, func(l *ledger) { l.noteReleased(at, 3); l.noteReleased(at, 2); l.noteDelivered(at, 3, after) }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			test.run(l)
			assert.Equal(t, test.broken, len(l.broken()) > 0, "%v", l.broken())
		})
	}
}
