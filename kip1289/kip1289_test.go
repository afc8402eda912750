package kip1289

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSwitches(t *testing.T) {
	var s Switches
	for i := range List {
		w := &List[i]
		assert.Equal(t, w.Default(), s.Value(w.Name))
		for _, side := range w.Sides {
			assert.NotEmpty(t, side.Does)
			assert.NotEmpty(t, side.Says)
			if w.Name != APIKey {
				_, err := s.With(w.Name, side.Value)
				assert.NoError(t, err)
			}
		}
	}
	assert.Empty(t, s.Set())
	set, err := Parse("late.stage.fence=off", "txn.share.ack.api.key=94", "abort.state=available")
	require.NoError(t, err)
	assert.EqualValues(t, 94, set.Key())
	assert.True(t, set.Is(LateStageFence, "off"))
	assert.Equal(t, []string{"txn.share.ack.api.key=94", "late.stage.fence=off"}, set.Set())
	assert.EqualValues(t, 95, s.Key(), "the ones before are as they were")
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"abort":                         "name=value",
		"abort.stat=available":          `no switch "abort.stat"; there are txn.share.ack.api.key`,
		"abort.state=gone":              `"gone" is none of its values, which are available and acquired`,
		"txn.share.ack.api.key=x":       "no API key",
		"txn.share.ack.api.key=1":       "that of Fetch",
		"txn.share.ack.api.key=99999":   "no API key",
		"txn.share.ack.api.key=95,more": "no API key",
	} {
		_, err := Parse(text)
		assert.ErrorContains(t, err, want, text)
	}
}
