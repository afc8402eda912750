package cases

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/conformance"
	"kshare/conformance/driver"
)

// Ids are stable and unique, and each case says what it is about.
func TestCasesAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range All() {
		assert.Regexp(t, regexp.MustCompile(`^[a-z]{3}\.[0-9]{2}(\.-?[0-9]+)?$|^(e(fc|md|av)|[eap]7[689])\.-?[0-9]+\.(once|ever|join)$`), c.ID)
		assert.False(t, seen[c.ID], "%s is there twice", c.ID)
		seen[c.ID] = true
		assert.NotEmpty(t, c.Says, c.ID)
		assert.NotEmpty(t, c.Source, c.ID)
		assert.Positive(t, c.Within, c.ID)
		assert.NotNil(t, c.run, c.ID)
		for _, need := range c.Needs {
			assert.Contains(t, driver.Capabilities, need, c.ID)
		}
		for _, rule := range c.Expects {
			assert.True(t, slices.ContainsFunc(conformance.Rules, func(r conformance.Rule) bool { return matches(rule, r.ID) }), "%s expects %s, which is no rule", c.ID, rule)
		}
		if c.Setup.Explicit {
			assert.Contains(t, c.Needs, driver.Explicit, c.ID)
		}
	}
	for _, a := range Absent {
		for _, id := range regexp.MustCompile(`[a-z]{3}\.[0-9]{2}`).FindAllString(a.IDs, -1) {
			assert.False(t, seen[id], "%s is there and absent", id)
		}
	}
}

func TestSelect(t *testing.T) {
	ids := func(short bool, patterns ...string) (ids []string) {
		chosen, err := Select(patterns, short)
		require.NoError(t, err)
		for _, c := range chosen {
			ids = append(ids, c.ID)
		}
		return ids
	}
	assert.Len(t, ids(false), len(All()))
	assert.Less(t, len(ids(true)), len(All()))
	assert.Equal(t, []string{"ses.02", "cls.05", "cls.05.123", "cls.05.30", "cls.05.-1"}, ids(false, "ses.02", "cls.05"))
	assert.Equal(t, []string{"e76.25.once", "e76.25.ever", "e76.25.join"}, ids(false, "e76.25*"))
	assert.Equal(t, []string{"e76.25.once", "e76.25.ever"}, ids(true, "e76.25.*"))
	assert.Equal(t, []string{"e76.25.join"}, ids(true, "e76.25.join"), "what is named is not left out")
	assert.NotContains(t, ids(false, "!ses"), "ses.02")
	assert.NotContains(t, ids(false, "ses", "!ses.02"), "ses.02")
	_, err := Select([]string{"ses.99"}, false)
	require.ErrorContains(t, err, `no case is chosen by "ses.99"`)
}

// Each family of cases has a mutant, and each mutant a case.
func TestFamiliesHaveMutants(t *testing.T) {
	families := map[string]bool{}
	for _, m := range Mutants {
		chosen, err := Select([]string{m.Case}, false)
		require.NoError(t, err)
		families[Family(chosen[0].ID)] = true
	}
	for _, c := range All() {
		assert.True(t, families[Family(c.ID)], "the family of %s has no mutant", c.ID)
	}
}

// The short form has each reaction to an error that lasts at each level once.
func TestShortFormHasEachReactionOnce(t *testing.T) {
	seen := map[string]int{}
	for _, c := range All() {
		if strings.HasSuffix(c.ID, ".ever") && !c.Full {
			seen[Family(c.ID)]++
		}
	}
	for _, l := range errorLevels {
		letters := map[string]bool{}
		for i := range errorRows {
			if letter := l.letter(&errorRows[i]); letter != "" {
				letters[letter] = true
			}
		}
		assert.Equal(t, len(letters), seen[l.name], l.name)
	}
}

// The page of all cases has them all.
func TestPage(t *testing.T) {
	b, err := os.ReadFile("../../docs/judge-cases.md")
	require.NoError(t, err)
	for _, c := range All() {
		assert.True(t, strings.Contains(string(b), "| "+c.ID+" | "+string(c.Level)+" | "+c.Line()+" |"), "the page lacks %s as it is: make judge-full writes it anew", c.ID)
	}
}

// Batches that are made for cases are what they claim to be.
func TestBatches(t *testing.T) {
	b := bytesOf(0, 9, []int64{0, 1, 2, 5, 6, 7, 8, 9}, nil)
	assert.Equal(t, b, sealed(slices.Clone(b)))
	assert.Len(t, emptyBatch(0, 9), 61)
	m := marker(10)
	assert.True(t, unmark(m))
	assert.False(t, unmark(m))
	assert.False(t, unmark(m[:20]))
}
