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
	assert.Equal(t, "NOT_LEADER_OR_FOLLOWER", Nearest("not_leader", []string{"NOT_LEADER_OR_FOLLOWER_AND_MORE", "NOT_LEADER_OR_FOLLOWER"}), "its beginning")
	assert.Empty(t, Nearest("NOT", []string{"NOT_LEADER_OR_FOLLOWER"}))
	assert.Empty(t, Nearest("a", nil))
	assert.Equal(t, 3, distance("kitten", "sitting", 9))
	assert.Equal(t, 2, distance("kitten", "sitting", 2), "it stops at the limit")
}

func TestSlip(t *testing.T) {
	known := []string{"orders", "payments", "m12345", "abc"}
	for name, want := range map[string]string{
		"order": "orders", "oorders": "orders", "odrers": "orders", "ordurs": "orders", "orders": "", "others": "", "ordering": "", "m12346": "", "m1234": "", "abd": "", "": "",
	} {
		assert.Equal(t, want, Slip(name, known), name)
	}
}

func TestDidYouMean(t *testing.T) {
	assert.Equal(t, ": did you mean fetch?", DidYouMean("fetsh", []string{"fetch"}))
	assert.Empty(t, DidYouMean("x", []string{"fetch"}))
}
