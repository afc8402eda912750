package replay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const vectors = "../testdata/vectors"

// TestPlayback plays each session against its own recording with other ids: every step must agree.
func TestPlayback(t *testing.T) {
	same := func(_ idKind, x any) any { return x }
	for _, name := range Names() {
		for _, x := range []struct {
			how    string
			rename func(idKind, any) any
		}{{"same ids", same}, {"other ids", other}} {
			t.Run(name+"/"+x.how, func(t *testing.T) {
				s, err := Load(vectors, name)
				require.NoError(t, err)
				synctest.Test(t, func(t *testing.T) {
					script := Scripts[name]
					time.Sleep(time.Until(Began(script)))
					p := newPlayback(t, s, script, x.rename)
					r, err := Play(s, script, p)
					require.NoError(t, err)
					require.NoError(t, p.Close())
					require.Len(t, r.Steps, len(s.Steps))
					for _, st := range r.Steps {
						assert.Empty(t, st.Diffs, "step %s", st.Step)
					}
					assert.Empty(t, p.left)
					assert.Empty(t, p.unknown)
				})
			})
		}
	}
}
