package broker

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/acl"
	"kshare/fault"
	"kshare/protocol"
	"kshare/protocol/errorcode"
)

const rightsMarker = "<!-- rights -->\n"

// rightsTable is what stands in docs/security.md: which rights the requests of each API need, and what comes without.
func rightsTable() string {
	var b strings.Builder
	b.WriteString("| key | API | right | without it |\n|---|---|---|---|\n")
	for i := range protocol.APIs {
		a := &protocol.APIs[i]
		if h := handlers[a.Key]; h != nil {
			writeRights(&b, a, h)
		}
	}
	writeRights(&b, &protocol.API{Key: protocol.TxnShareAcknowledgeKey, Name: "TxnShareAcknowledge (KIP-1289)"}, txnShareAcknowledgeHandler)
	return b.String()
}

func writeRights(b *strings.Builder, a *protocol.API, h *handler) {
	if len(h.demands) == 0 {
		fmt.Fprintf(b, "| %d | %s | none | |\n", a.Key, a.Name)
	}
	said := map[string]bool{} // of a right that is asked for in several ways
	for i := range h.demands {
		d := &h.demands[i]
		right, without := d.String(), []string{errorcode.Name(d.deniedCode())}
		if d.instead != 0 {
			right += " or " + d.instead.String()
		}
		switch {
		case d.inside:
			if d.silent {
				without = nil
			}
		case d.of == nil:
			without = append(without, "each "+string(d.levels[0]))
		case len(d.levels) > 1:
			without = append(without, fmt.Sprintf("at the top, else each %s", d.levels[1]))
		}
		if d.doc != "" {
			without = append(without, d.doc)
		}
		row := fmt.Sprintf("| %d | %s | %s | %s |\n", a.Key, a.Name, right, strings.Join(without, "; "))
		if !said[row] {
			said[row] = true
			b.WriteString(row)
		}
	}
}

func TestRightsTable(t *testing.T) {
	const path = "../docs/security.md"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	prose, have, ok := strings.Cut(string(text), rightsMarker)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(prose+rightsMarker+rightsTable()), 0o644))
		return
	}
	assert.Equal(t, rightsTable(), have, "run go test ./broker -run TestRightsTable -update")
}

// needsNoRight are the APIs that Kafka has no right for.
var needsNoRight = []string{"SaslHandshake", "ApiVersions", "SaslAuthenticate"}

// Nobody forgets an API: each has its rights, and what it says where they are missing has a place in the answers of every version.
func TestEveryAPIHasItsRights(t *testing.T) {
	for i := range protocol.APIs {
		a := &protocol.APIs[i]
		h := handlers[a.Key]
		if h == nil {
			continue
		}
		assert.Equal(t, slices.Contains(needsNoRight, a.Name), len(h.demands) == 0, a.Name)
		for j := range h.demands {
			d := &h.demands[j]
			assert.NotZero(t, d.deniedCode(), a.Name)
			if d.inside {
				continue
			}
			for v := max(a.MinVersion, 0); v <= a.MaxVersion; v++ {
				if a.Key == produceKey && v < firstProduceVersion {
					continue
				}
				q := a.NewRequest(v)
				if d.only != nil && d.of != nil && d.kind != acl.TransactionalID && !d.only(q) {
					continue
				}
				found := false
				for _, level := range d.levels {
					_, ok := fault.PlaceOf(a, v, level)
					found = found || ok
				}
				if d.only == nil || d.only(q) {
					assert.True(t, found, "%s v%d has no place to say that %s is missing", a.Name, v, d)
				}
			}
		}
	}
}
