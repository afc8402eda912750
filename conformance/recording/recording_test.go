package recording_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"kshare/conformance"
	"kshare/conformance/recording"
)

func TestFramesAreReadBack(t *testing.T) {
	at := time.Date(2027, 1, 1, 0, 0, 0, 123456789, time.UTC)
	frames := []conformance.Frame{
		{Kind: conformance.Opened, At: at, Conn: 7, Node: 3, Host: "10.0.0.1"},
		{Kind: conformance.Received, At: at, Conn: 7, Bytes: []byte{0, 18, 0, 4}},
		{Kind: conformance.Sent, At: at.Add(time.Second), Conn: 7, Bytes: []byte{0, 0, 0, 1}},
		{Kind: conformance.Closed, At: at.Add(time.Minute), Conn: 7},
	}
	var b bytes.Buffer
	for _, f := range frames {
		require.NoError(t, recording.Write(&b, f))
	}
	got, err := recording.Read(&b)
	require.NoError(t, err)
	require.Equal(t, frames, got)
	require.Error(t, recording.Write(&b, conformance.Frame{}))
}

// A recorder's steps are put in the order in which things happened: a request that waited was sent before its line was written.
func TestStepsOfARecorder(t *testing.T) {
	got, err := recording.Read(strings.NewReader(`{"n":1,"step":"waits","conn":"c2","key":78,"ms":500,"at_ms":700,"request_hex":"02","response_hex":"12"}
{"n":2,"step":"quick","conn":"c1","key":3,"ms":10,"at_ms":300,"request_hex":"01","response_hex":"11"}
{"n":3,"step":"raw","conn":"c1","ms":10,"at_ms":310,"sent_hex":"00","outcome":"closed"}
{"n":4,"step":"refused","conn":"c1","key":3,"ms":10,"at_ms":900,"request_hex":"03","closed":"closed (reset)"}
`))
	require.NoError(t, err)
	var order []string
	for _, f := range got {
		order = append(order, map[conformance.FrameKind]string{1: "open", 2: "request", 3: "answer", 4: "end"}[f.Kind]+string('0'+rune(f.Conn))+" "+strings.TrimSpace(strings.Repeat("x", len(f.Bytes))))
	}
	require.Equal(t, []string{"open1 ", "request1 x", "open2 ", "request2 x", "answer2 x", "answer1 x", "request2 x", "end2 "}, order)
}

func TestMistakesAreTold(t *testing.T) {
	for line, want := range map[string]string{
		`{`:          "line 1: unexpected end",
		`{"conn":1}`: "no time",
		`{"at":"2027-01-01T00:00:00Z","conn":"a","closed":true}`:   "conn:",
		`{"at":"2027-01-01T00:00:00Z","conn":1}`:                   "neither node",
		`{"at":"2027-01-01T00:00:00Z","conn":1,"request_hex":"0"}`: "odd length",
	} {
		_, err := recording.Read(strings.NewReader(line))
		require.ErrorContains(t, err, want, line)
	}
}
