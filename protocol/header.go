package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// RequestHeader is what stands before the body of every request (RequestHeader.json, versions 1 and 2).
type RequestHeader struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      string // "" also where the request has null
}

// ErrMalformed is the error of a frame that is no request: it is cut short, or a length in it makes no sense.
var ErrMalformed = errors.New("malformed request")

// requestHeaderStart is the size of key, version and correlation id.
const requestHeaderStart = 8

// ParseRequestStart reads key, version and correlation id, which every header has.
func ParseRequestStart(frame []byte) (RequestHeader, error) {
	if len(frame) < requestHeaderStart {
		return RequestHeader{}, fmt.Errorf("%w: %d bytes, a header begins with %d", ErrMalformed, len(frame), requestHeaderStart)
	}
	return RequestHeader{
		Key:           int16(binary.BigEndian.Uint16(frame)),
		Version:       int16(binary.BigEndian.Uint16(frame[2:])),
		CorrelationID: int32(binary.BigEndian.Uint32(frame[4:])),
	}, nil
}

// ParseRequestRest completes a header with the client id and, in flexible versions, the tagged fields, which
// are skipped; it returns the body. The client id has a two-byte length in flexible versions too.
func ParseRequestRest(h *RequestHeader, frame []byte, flexible bool) (body []byte, err error) {
	b := frame[requestHeaderStart:]
	if len(b) < 2 {
		return nil, fmt.Errorf("%w: no client id", ErrMalformed)
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	if n > len(b) {
		return nil, fmt.Errorf("%w: client id of %d bytes, %d left", ErrMalformed, n, len(b))
	}
	if n > 0 {
		h.ClientID = string(b[:n])
		b = b[n:]
	}
	if flexible {
		return SkipTags(b)
	}
	return b, nil
}

// SkipTags skips a section of tagged fields and returns what follows it.
func SkipTags(b []byte) ([]byte, error) {
	count, b, err := uvarint(b)
	if err != nil {
		return nil, err
	}
	for ; count > 0; count-- {
		if _, b, err = uvarint(b); err != nil {
			return nil, err
		}
		var size uint32
		if size, b, err = uvarint(b); err != nil {
			return nil, err
		}
		if uint64(size) > uint64(len(b)) {
			return nil, fmt.Errorf("%w: tagged field of %d bytes, %d left", ErrMalformed, size, len(b))
		}
		b = b[size:]
	}
	return b, nil
}

// uvarint reads an unsigned varint of at most five bytes, as Kafka's ByteUtils does: bits beyond the 32nd are lost.
func uvarint(b []byte) (uint32, []byte, error) {
	var v uint32
	for i := range 5 {
		if i >= len(b) {
			return 0, nil, fmt.Errorf("%w: varint is cut short", ErrMalformed)
		}
		v |= uint32(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return v, b[i+1:], nil
		}
	}
	return 0, nil, fmt.Errorf("%w: varint of more than five bytes", ErrMalformed)
}
