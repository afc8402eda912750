package broker

import (
	"fmt"

	"kshare/protocol/fields"
)

// A decoded request takes many times its bytes where those are elements of a list: two bytes can be a topic of 60. So that a stranger
// cannot take gigabytes with one frame of socket.request.max.bytes, only a Produce may be that long, most of which is records, and the
// elements of a request's lists are counted before they are decoded. Nor may lists be so long that answering them keeps everybody else
// waiting. Apache Kafka has no such limits and runs out of memory.
const (
	// maxBody is the largest body in bytes of a request that is no Produce, inclusive.
	maxBody = 4 << 20
	// heavyBody is the size in bytes above which requests are handled one after the other, Produce excepted.
	heavyBody = 256 << 10
	// maxElements is how many elements all lists of a request may have together, inclusive; those of lists of bytes do not count.
	maxElements = 100_000
)

// admit tells whether the body of a request is one to be decoded: its fields are there, none is null that may not be, and it is not too large.
func (r *request) admit() error {
	if len(r.body) > maxBody && r.header.Key != produceKey {
		return fmt.Errorf("a request of %d bytes: only a Produce may have more than %d", len(r.body), maxBody)
	}
	if !r.cluster.offers(r.api, r.header.Version) {
		return nil // an ApiVersions of an unknown version; its body is not read
	}
	n, err := fields.Check(r.api, r.header.Version, r.body, maxElements)
	if err != nil {
		return err
	}
	if n > maxElements {
		return fmt.Errorf("a request whose lists have %d elements or more, they may have %d", n, maxElements)
	}
	return nil
}

// heavy tells whether the request is one of those that are handled one after the other.
func (r *request) heavy() bool { return len(r.body) > heavyBody && r.header.Key != produceKey }
