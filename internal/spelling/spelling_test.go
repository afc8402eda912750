package spelling

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNearest(t *testing.T) {
	known := []string{"topic", "produce", "fetch", "ShareFetch"}
	for name, want := range map[string]string{
		"topik": "topic", "tpic": "topic", "topics": "topic", "TOPIC": "topic", "sharefetch": "ShareFetch", "ShareFtech": "ShareFetch", "": "", "x": "", "consume": "",
		"something-else-altogether": "",
	} {
		assert.Equal(t, want, Nearest(name, known), name)
	}
	assert.Empty(t, Nearest("a", nil))
	assert.Equal(t, 3, distance("kitten", "sitting", 9))
	assert.Equal(t, 2, distance("kitten", "sitting", 2), "it stops at the limit")
}
