package txn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"kshare/protocol/errorcode"
)

// Random calls keep what makes transactions safe:
//
//	a transactional id has one owner: who is not the last that was told an id and epoch ends nothing and adds nothing
//	what was committed is not aborted and the reverse: each decided transaction has markers of one kind
//	the epoch of a producer id does not fall
//	what is stored is what is known: who reads the log knows the same, but for what only the present owner needs
func TestRandomCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := twoPhase(t)
		x.level = int16(rapid.IntRange(1, 2).Draw(t, "level"))
		known := map[string][]Producer{} // those that clients were told, the last one owns
		decided := map[string]map[Producer]bool{}
		ids := []string{"a", "b"}
		t.Repeat(map[string]func(*rapid.T){
			"init": func(t *rapid.T) {
				id := rapid.SampledFrom(ids).Draw(t, "id")
				if d := x.init(id); d.Code == errorcode.None {
					known[id] = append(known[id], d.Producer)
				}
			},
			"keep": func(t *rapid.T) {
				id := rapid.SampledFrom(ids).Draw(t, "id")
				before, _ := x.c.Lookup(id)
				d := x.keep(id)
				if d.Code != errorcode.None {
					return
				}
				known[id] = append(known[id], d.Producer)
				after, _ := x.c.Lookup(id)
				require.Equal(t, before.State == Ongoing, d.Kept != nil)
				if d.Kept != nil {
					require.Equal(t, *d.Kept, after.Producer)
					require.Equal(t, []any{before.State, before.Partitions, before.StartMs, before.TimeoutMs}, []any{after.State, after.Partitions, after.StartMs, after.TimeoutMs})
				}
			},
			"add": func(t *rapid.T) {
				id, by, owner := client(t, ids, known)
				if d := x.add(id, by, flow(t)); d.Code == errorcode.None {
					require.True(t, owner, "%v added to a transaction of %v", by, known[id])
				}
			},
			"end": func(t *rapid.T) {
				id, by, owner := client(t, ids, known)
				before, _ := x.c.Lookup(id)
				d := x.end(id, by, rapid.Bool().Draw(t, "commit"), flow(t))
				if d.Code != errorcode.None {
					return
				}
				if after, _ := x.c.Lookup(id); after.State != before.State || after.Producer != before.Producer {
					require.True(t, owner, "%v ended a transaction of %v", by, known[id])
				}
				if d.Producer != by {
					known[id] = append(known[id], d.Producer)
				}
			},
			"write markers": func(t *rapid.T) {
				for _, m := range x.markers {
					if decided[m.ID] == nil {
						decided[m.ID] = map[Producer]bool{}
					}
					if commit, ok := decided[m.ID][m.Producer]; ok && m.Flow == Flow2 {
						require.Equal(t, commit, m.Commit, "%v", m)
					}
					decided[m.ID][m.Producer] = m.Commit
				}
				x.complete()
			},
			"wait": func(t *rapid.T) {
				x.now = x.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
				x.expire()
			},
			"clone": func(t *rapid.T) {
				other := x.c.Clone()
				if rapid.Bool().Draw(t, "go on with the copy") {
					x.c, other = other, x.c
				}
				for _, id := range other.IDs() { // what was copied is done everything to that changes it
					if d := other.Abort(x.now, id); d.Transition != nil {
						other.Stored(x.now, d.Transition)
					}
					if d := other.InitProducerID(x.now, id, Init{TimeoutMs: 1}); d.Transition != nil {
						other.Stored(x.now, d.Transition)
					}
				}
				other.Expire(x.now.Add(time.Hour))
				other.Unload(0)
			},
			"": func(t *rapid.T) {
				next := x.fresh(nil)
				for _, r := range x.records {
					require.NoError(t, next.Replay(r[0], r[1]))
				}
				for _, id := range x.c.IDs() {
					now, _ := x.c.Lookup(id)
					read, ok := next.Lookup(id)
					require.True(t, ok)
					now.LastEpoch = NoEpoch
					require.EqualExportedValues(t, now, read)
				}
			},
		})
	})
}

// client is somebody who was told a producer of an id, the owner most times.
func client(t *rapid.T, ids []string, known map[string][]Producer) (id string, by Producer, owner bool) {
	id = rapid.SampledFrom(ids).Draw(t, "id")
	all := known[id]
	if len(all) == 0 {
		return id, Producer{1, 0}, false
	}
	at := max(0, len(all)-1-rapid.IntRange(0, 2).Draw(t, "back"))
	return id, all[at], all[at] == all[len(all)-1]
}

func flow(t *rapid.T) Flow { return rapid.SampledFrom([]Flow{Flow0, Flow2}).Draw(t, "flow") }
