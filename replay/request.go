package replay

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

// decodeRequest decodes a step's request; head is the number of bytes before its body.
func decodeRequest(s *Step) (req kmsg.Request, head int, err error) {
	if !s.Raw {
		req = protocol.RequestForKey(s.Key)
	}
	if req == nil {
		return nil, 0, fmt.Errorf("step %s: not a request of a key that kmsg knows", s)
	}
	req.SetVersion(s.Version)
	if head, err = requestHeader(s.Request, req.IsFlexible()); err != nil {
		return nil, 0, fmt.Errorf("step %s: %w", s, err)
	}
	if err := req.ReadFrom(s.Request[head:]); err != nil {
		return nil, 0, fmt.Errorf("step %s: %w", s, err)
	}
	if body := req.AppendTo(nil); !bytes.Equal(body, s.Request[head:]) {
		return nil, 0, fmt.Errorf("step %s: kmsg does not give back the request %x but %x", s, s.Request[head:], body)
	}
	return req, head, nil
}

// requestHeader is the number of bytes before a request's body.
func requestHeader(frame []byte, flexible bool) (int, error) {
	if len(frame) < 10 {
		return 0, fmt.Errorf("a request of %d bytes", len(frame))
	}
	r := kbin.Reader{Src: frame[8:]}
	r.NullableString()
	if flexible {
		kmsg.SkipTags(&r)
	}
	return len(frame) - len(r.Src), r.Complete()
}

// requestHead is the part of a request that every version has.
type requestHead struct {
	key, version int16
	correlation  uint32
	frame        []byte
}

// requestHeads reads the heads of the whole frames in bytes as they were sent.
func requestHeads(b []byte) []requestHead {
	var heads []requestHead
	for len(b) >= 12 {
		n := int64(int32(binary.BigEndian.Uint32(b)))
		if n < 8 || n > int64(len(b)-4) {
			break
		}
		f := b[4 : 4+n]
		heads = append(heads, requestHead{int16(binary.BigEndian.Uint16(f)), int16(binary.BigEndian.Uint16(f[2:])), binary.BigEndian.Uint32(f[4:]), f})
		b = b[4+n:]
	}
	return heads
}
