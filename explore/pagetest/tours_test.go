package pagetest

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tour is a tour as the interface lists it.
type tour struct {
	Name, Title, Switch, Beside string
	Other                       bool
	Steps                       []struct {
		Text, Commands []string
	}
}

// get asks the interface.
func get(t *testing.T, path string, answer any) {
	t.Helper()
	r, err := http.Get(server + "/explore/api/" + path)
	require.NoError(t, err)
	defer r.Body.Close()
	require.Equal(t, http.StatusOK, r.StatusCode, path)
	require.NoError(t, decode(r.Body, answer))
}

func decode(r io.Reader, answer any) error { return json.NewDecoder(r).Decode(answer) }

// golden are the commands of a tour's file and what they show.
func golden(t *testing.T, name string) (commands, shown []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "tours", name+".txt"))
	require.NoError(t, err)
	for _, paragraph := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		before, after, _ := strings.Cut(paragraph, "\n----")
		for _, l := range strings.Split(before, "\n") {
			if !strings.HasPrefix(l, "#") {
				commands = append(commands, l)
			}
		}
		if after = strings.TrimPrefix(after, "\n"); after != "" {
			shown = append(shown, strings.Split(after, "\n")...)
		}
	}
	return commands, shown
}

// Each tour leads from its beginning to its end by its button, and shows what its file says.
func TestTours(t *testing.T) {
	var all struct{ Tours []tour }
	get(t, "tours", &all)
	require.GreaterOrEqual(t, len(all.Tours), 8)
	for _, listed := range all.Tours {
		if listed.Other {
			continue // it is told beside another
		}
		t.Run(listed.Name, func(t *testing.T) {
			var told tour
			get(t, "tours/"+listed.Name, &told)
			p := newTab(t, 1440, 900)
			p.open("#tour=" + listed.Name)
			p.button("Begin")
			for i := range told.Steps {
				p.until(`document.querySelector(".caption .step, .story h2").textContent.endsWith("%d of %d")`, i+1, len(told.Steps))
				p.until(`[...document.querySelectorAll(".caption .text")].map(e => e.textContent).join(" ").replaceAll("\u00a0", " ").includes(%s)`, quoted(told.Steps[i].Text[0]))
				if i < len(told.Steps)-1 {
					p.button("Next")
				}
			}
			p.until(`%s`, find("button", "More tours"))
			assert.Empty(t, p.notice())
			if told.Beside == "" {
				p.calm()
				commands, shown := golden(t, listed.Name)
				assert.Equal(t, commands, p.commands())
				assert.Equal(t, shown, p.shown())
			} else {
				// each side shows its last step, and they differ somewhere on the way
				for i, name := range []string{told.Name, told.Beside} {
					_, shown := golden(t, name)
					pane := js[[]string](p, `[...document.querySelectorAll(".pane")[%d].querySelectorAll(".shown pre")].flatMap(e => e.textContent.split("\n"))`, i)
					if len(pane) > 0 {
						assert.Equal(t, shown[len(shown)-len(pane):], pane)
					}
				}
			}
			p.button("Back")
			p.until(`document.querySelector(".caption .step, .story h2").textContent.endsWith("%d of %d")`, len(told.Steps)-1, len(told.Steps))
		})
	}
}

// The first page lists each tour once, as a button.
func TestFirstPage(t *testing.T) {
	var all struct{ Tours []tour }
	get(t, "tours", &all)
	p := newTab(t, 1440, 900)
	p.open("")
	names := js[[]string](p, `[...document.querySelectorAll("[data-tour]")].map(e => e.dataset.tour)`)
	var wanted []string
	for _, tr := range all.Tours {
		if !tr.Other {
			wanted = append(wanted, tr.Name)
		}
	}
	assert.ElementsMatch(t, wanted, names)
	p.button("Begin with the first tour")
	p.until(`document.querySelector(".caption")`)
	assert.Equal(t, "#tour="+all.Tours[0].Name, js[string](p, `location.hash`))
}
