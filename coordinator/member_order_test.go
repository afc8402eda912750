package coordinator

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMemberOrder are orders that Apache Kafka 4.4.0 was seen to have: its assignments follow from them.
func TestMemberOrder(t *testing.T) {
	const first, second, third = "t_-XT-fnXl30xueSs7noCA", "rxXf9pR5hzyy6ABA_oMu2g", "eJn3qC2QcBNlH4f4arLMPg" // slots 4, 6 and 7 of 8
	const one, other = "QyMhYzcLVE2w4HXlKrym8A", "QqJJPNCu_uvwJUHpbO-XXw"                                     // one slot of up to 16
	joining := func(o *memberOrder, ids ...string) (listed []string) {
		for i := range ids {
			listed = o.walk(slices.Sorted(slices.Values(ids[:i+1])))
		}
		return listed
	}
	joined := func(ids ...string) []string {
		o := memberOrder{}
		joining(&o, ids...)
		return o.walk(slices.Sorted(slices.Values(ids)))
	}
	require.Equal(t, []string{third, first}, joining(&memberOrder{}, first, third), "one slot of two as the second joins")
	require.Equal(t, []string{first, third}, joining(&memberOrder{}, third, first))
	require.Equal(t, []string{first, third}, joined(first, third))
	require.Equal(t, []string{first, third}, joined(third, first))
	require.Equal(t, []string{other, one}, joined(one, other), "in a slot who joined last comes first")
	require.Equal(t, []string{one, other}, joined(other, one))
	require.Equal(t, []string{first, third, second}, joined(first, second, third), "two of a slot while there are four")
	require.Equal(t, []string{first, second, third}, joined(first, third, second))

	o := memberOrder{}
	o.walk([]string{third})
	require.Equal(t, []string{second}, o.walk([]string{second}), "the other has left")
	require.Equal(t, 1, o.size)
}
