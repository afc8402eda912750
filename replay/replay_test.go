package replay

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const vectors = "../testdata/vectors"

var (
	update  = flag.Bool("update", false, "write docs/divergences.md")
	stepArg = flag.String("step", "", "print both sides of the steps of this name or number")
	address = flag.String("broker", "", "host:port of a fresh broker that TestBroker plays against")
	session = flag.String("session", "", "the session that TestBroker plays")
)

// TestPlayback plays each session against its own recording with other ids: every step must agree.
func TestPlayback(t *testing.T) {
	same := func(_ idKind, x any) any { return x }
	for _, name := range Names() {
		for _, x := range []struct {
			how    string
			rename func(idKind, any) any
		}{{"same ids", same}, {"other ids", other}} {
			if x.how == "same ids" && !Scripts[name].Gate {
				continue
			}
			t.Run(name+"/"+x.how, func(t *testing.T) {
				if testing.Short() && x.how == "same ids" {
					t.Skip("other ids are the harder case")
				}
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

// remote is a broker at an address.
type remote string

func (r remote) Dial(ctx context.Context, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", string(r))
}

func (remote) Close() error { return nil }

// TestBroker plays a session against a broker at an address, in real time: against Apache Kafka it shows
// whether the rules take everything that varies. Waits are left out, since a real machine's are never exact.
func TestBroker(t *testing.T) {
	if *address == "" {
		t.Skip("no -broker")
	}
	s, err := Load(vectors, *session)
	require.NoError(t, err)
	script := *Scripts[*session]
	script.Began, script.Patience = time.Now().Add(-s.Steps[0].Start()), 10*time.Second
	r, err := Play(s, &script, remote(*address))
	require.NoError(t, err)
	for _, p := range r.Steps {
		show(t, p, true)
	}
	t.Log(*session, r.Tally(&Divergences{}), r.Masks())
}

// show reports a step that differs, and prints both sides of the one that -step names.
func show(t *testing.T, p *Played, explained bool) {
	t.Helper()
	if *stepArg == p.Step.Name || *stepArg == fmt.Sprint(p.Step.N) {
		recorded, ours := p.Sides()
		d, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
			A: difflib.SplitLines(recorded), FromFile: "recorded", B: difflib.SplitLines(ours), ToFile: "ours", Context: 1000,
		})
		require.NoError(t, err)
		t.Logf("step %s: recorded %v in %v, ours %v in %v\nrequest %x\n%s", p.Step, p.Step.Outcome, p.Step.Took, p.Outcome, p.Took, p.Request, d)
	}
	if len(p.Diffs) == 0 {
		return
	}
	var b strings.Builder
	for _, d := range p.Diffs {
		fmt.Fprintf(&b, "\n    %s", d)
	}
	report := t.Errorf
	if explained {
		report = t.Logf
	}
	report("step %s (%s v%d):%s", p.Step, p.Step.API, p.Step.Version, b.String())
}

// scenariosMarker is the line of docs/divergences.md after which package differential writes.
const scenariosMarker = "<!-- scenarios -->\n"

// TestDivergencesDocument checks that docs/divergences.md is what the table makes of it, up to the part on scenarios.
func TestDivergencesDocument(t *testing.T) {
	table, err := Table()
	require.NoError(t, err)
	path := filepath.Join("..", "docs", "divergences.md")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	have, scenarios, _ := strings.Cut(string(text), scenariosMarker)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(table.Document()+scenariosMarker+scenarios), 0o644))
		return
	}
	assert.Equal(t, table.Document(), have, "run go test ./replay -update")
}
