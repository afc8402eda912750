package crash

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

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
