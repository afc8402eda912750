package explore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/kip1289"
	"kshare/scenario"
)

// Every tour is a scenario like others: it shows in the process what it says, in the form that kshare run --rewrite writes.
func TestToursAreScenarios(t *testing.T) {
	for _, tour := range Tours() {
		t.Run(tour.Name, func(t *testing.T) {
			t.Parallel()
			text, err := tourFiles.ReadFile("tours/" + tour.Name + ".txt")
			require.NoError(t, err)
			f, err := scenario.Parse(tour.Name, text)
			require.NoError(t, err)
			r, err := scenario.Run(f, scenario.NewLocal(), scenario.Options{})
			require.NoError(t, err)
			if d := r.Differences(); d != "" {
				t.Errorf("shown is marked +, expected is marked -\n%s", d)
				return
			}
			assert.Equal(t, string(r.Rewritten()), string(text), "kshare run --rewrite writes the tour in another form")
		})
	}
}

// A tour lists the commands of its file in the steps that the page runs, and each has its own file.
func TestToursHaveTheCommandsOfTheirFiles(t *testing.T) {
	files, err := filepath.Glob("tours/*.txt")
	require.NoError(t, err)
	assert.Len(t, Tours(), len(files))
	for _, tour := range Tours() {
		text, err := os.ReadFile(filepath.Join("tours", tour.Name+".txt"))
		require.NoError(t, err)
		var blocks []string
		for _, paragraph := range strings.Split(string(text), "\n\n") {
			commands, _, _ := strings.Cut(paragraph, "\n----")
			blocks = append(blocks, strings.TrimSpace(commands))
		}
		require.Len(t, tour.Steps, len(blocks)-1, tour.Name)
		for i, step := range tour.Steps {
			assert.Equal(t, blocks[i+1], "# "+strings.Join(step.Text, "\n# ")+"\n"+strings.Join(step.Commands, "\n"), tour.Name)
		}
		assert.NotEmpty(t, tour.Title, tour.Name)
		assert.NotEmpty(t, tour.About, tour.Name)
	}
}

// Each switch of KIP-1289 has a tour for its default and one for another side, which differ in the switch alone, but for what a client does after another answer at the end.
func TestEachSwitchHasTwoToursBesideEachOther(t *testing.T) {
	byName, bySwitch := map[string]Tour{}, map[string]Tour{}
	for _, tour := range Tours() {
		byName[tour.Name] = tour
		if name, _, _ := strings.Cut(tour.Switch, "="); !tour.Other && name != "" {
			bySwitch[name] = tour
		}
	}
	assert.Len(t, bySwitch, len(kip1289.List))
	for _, s := range kip1289.List {
		tour, ok := bySwitch[s.Name]
		require.True(t, ok, "no tour shows %s", s.Name)
		other, ok := byName[tour.Beside]
		require.True(t, ok, tour.Beside)
		assert.True(t, other.Other, other.Name)
		assert.Equal(t, tour.Name, other.Beside)
		assert.Equal(t, tour.Title, other.Title)
		assert.Equal(t, tour.About, other.About)
		assert.Equal(t, s.Name+"="+s.Default(), tour.Switch)
		assert.NotEqual(t, tour.Switch, other.Switch)
		require.Len(t, other.Steps, len(tour.Steps), tour.Name)
		replies := 0
		for i, step := range tour.Steps {
			with := func(t Tour) string { return strings.Replace(t.Switch, "=", ":", 1) }
			there := strings.Replace(strings.Join(other.Steps[i].Commands, "\n"), with(other), with(tour), 1)
			if here := strings.Join(step.Commands, "\n"); here != there {
				replies++
			}
		}
		assert.LessOrEqual(t, replies, 1, tour.Name)
	}
}

func TestParseTourRefuses(t *testing.T) {
	for text, reason := range map[string]string{
		"# a title\n\n# caption\ntopic orders\n":          "tour x: it begins with no paragraph",
		"# tour: a\ntopic orders\n":                       "tour x: it begins with no paragraph",
		"# tour: a\n":                                     "tour x has no steps",
		"# tour: a\n\ntopic orders\n":                     "tour x: paragraph 2 has no caption",
		"# tour: a\n\n# caption\n----\n":                  "tour x: paragraph 2 has no caption or no commands",
		"# tour: a\n\n# b\ntopic orders\n\n# c\n\n# d\nx": "tour x: paragraph 3 has no caption or no commands",
	} {
		_, err := parseTour("x", text)
		assert.ErrorContains(t, err, reason, text)
	}
}

// A tour typed command by command into a session shows what its file says.
func TestToursInSessions(t *testing.T) {
	for _, tour := range Tours() {
		t.Run(tour.Name, func(t *testing.T) {
			t.Parallel()
			text, err := tourFiles.ReadFile("tours/" + tour.Name + ".txt")
			require.NoError(t, err)
			s := New()
			defer s.Close()
			var shown, wanted []string
			for i, paragraph := range strings.Split(strings.TrimSpace(string(text)), "\n\n")[1:] {
				for _, command := range tour.Steps[i].Commands {
					step, err := s.Do(t.Context(), command)
					require.NoError(t, err, command)
					shown = append(shown, step.Shown...)
				}
				if _, expected, _ := strings.Cut(paragraph, "\n----"); strings.TrimSpace(expected) != "" {
					wanted = append(wanted, strings.Split(strings.TrimPrefix(expected, "\n"), "\n")...)
				}
			}
			assert.Equal(t, strings.Join(wanted, "\n"), strings.Join(shown, "\n"))
		})
	}
}
