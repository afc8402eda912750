package replay

import (
	"bytes"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/describe"
)

// answer is a decoded answer frame.
type answer struct {
	correlation int32
	body        kmsg.Response
	tree        *describe.Value
	exact       bool // kmsg encodes what it decoded to the same bytes
}

// decodeAnswer decodes a frame without its length prefix as the answer to a request of a key and version.
func decodeAnswer(key, version int16, frame []byte) (*answer, error) {
	if len(frame) > 4 {
		version = protocol.AnswerVersion(key, version, frame[4:])
	}
	body := protocol.ResponseForKey(key)
	if body == nil {
		return nil, fmt.Errorf("no API has the key %d", key)
	}
	if version < 0 || version > body.MaxVersion() {
		return nil, fmt.Errorf("%s has no version %d", kmsg.NameForKey(key), version)
	}
	body.SetVersion(version)
	r := kbin.Reader{Src: frame}
	correlation := r.Int32()
	if body.IsFlexible() && key != 18 {
		if n := r.Uvarint(); n != 0 {
			return nil, fmt.Errorf("the header has %d tags", n)
		}
	}
	if err := r.Complete(); err != nil && len(r.Src) == 0 {
		return nil, err
	}
	rest := r.Src
	if err := body.ReadFrom(rest); err != nil {
		return nil, err
	}
	return &answer{correlation: correlation, body: body, tree: describe.Message(body), exact: bytes.Equal(body.AppendTo(nil), rest)}, nil
}
