package directory

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A page that was never written is zeros from where the batch before it ended; zeros within records are none.
func TestHoles(t *testing.T) {
	data := func(n int) []byte { return bytes.Repeat([]byte{7}, n) }
	zeros := func(n int) []byte { return make([]byte, n) }
	for name, x := range map[string]struct {
		b    []byte
		at   int64
		hole bool
	}{
		"no zeros":                              {data(3 * pageSize), 100, false},
		"the rest of the first page":            {append(zeros(pageSize-100), data(50)...), 100, true},
		"a whole page, from its start":          {append(zeros(pageSize), data(50)...), pageSize, true},
		"a whole later page":                    {append(append(data(pageSize-100), zeros(pageSize)...), data(50)...), 100, true},
		"zeros at a page's end, behind data":    {append(append(data(50), zeros(pageSize-150)...), data(2*pageSize)...), 100, false},
		"zeros over a page's end, less than it": {append(append(data(pageSize-200), zeros(2000)...), data(2*pageSize)...), 100, false},
		"nothing":                               {nil, 100, false},
	} {
		assert.Equal(t, x.hole, hasHole(x.b, x.at), name)
	}
}
