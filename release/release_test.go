package release

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for l := Kafka42; l <= Latest; l++ {
		parsed, err := Parse(l.String())
		require.NoError(t, err)
		require.Equal(t, l, parsed)
	}
	for _, text := range []string{"", "4", "4.1", "4.20", "4.4.0", "v4.4"} {
		_, err := Parse(text)
		require.ErrorContains(t, err, "there are 4.2, 4.3, 4.4", text)
	}
}

// No line has lower versions or levels than the one before, and the latest has no API that is cut.
func TestLinesGrow(t *testing.T) {
	for l := Kafka43; l <= Latest; l++ {
		before, now := (l - 1).Traits(), l.Traits()
		require.Greater(t, now.MetadataVersion, before.MetadataVersion)
		require.GreaterOrEqual(t, now.ShareVersion, before.ShareVersion)
		for key, version := range now.MaxVersion {
			require.GreaterOrEqual(t, version, before.Highest(key, version), "API %d", key)
		}
	}
	require.Empty(t, Latest.Traits().MaxVersion)
	require.Equal(t, int16(-1), Kafka43.Traits().Highest(unregisterController, 0))
	require.Equal(t, int16(5), Kafka43.Traits().Highest(describeLogDirs, 5))
	require.Equal(t, int16(4), Kafka42.Traits().Highest(describeLogDirs, 5))
}
