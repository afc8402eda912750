package coordinator

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/coordinator/assignor"
)

// Two topics whose ids share a bucket of Kafka's map, as a running Apache Kafka 4.4.0 listed them: the id that is negative as a number comes first.
func TestListedInOneBucket(t *testing.T) {
	id := func(s string) (id assignor.TopicID) {
		b, err := base64.RawURLEncoding.DecodeString(s)
		require.NoError(t, err)
		copy(id[:], b)
		return id
	}
	a, b := id("cGOXdrr9SLyL8qhHaesjsQ"), id("1ToXb81GSvO4u55WJYNHhQ")
	for range 20 { // whatever the order in which Go walks the map
		assert.Equal(t, []assignor.TopicID{b, a}, listed(assignor.Assignment{a: {0}, b: {0}}))
	}
}
