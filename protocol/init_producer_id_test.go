package protocol

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Frames of version 6 that a running Apache Kafka 4.4.0 was sent and answered (testdata/vectors, session switches).
func TestInitProducerIDBytes(t *testing.T) {
	text := "v6-10"
	q := NewInitProducerIDRequest()
	q.Version, q.TransactionalID, q.TransactionTimeoutMillis, q.Enable2PC = InitTwoPhase, &text, 60_000, true
	const body = "0676362d3130" + "0000ea60" + "ffffffffffffffff" + "ffff" + "01" + "00" + "00"
	assert.Equal(t, body, hex.EncodeToString(q.AppendTo(nil)))
	b, err := hex.DecodeString(body)
	require.NoError(t, err)
	read := &InitProducerIDRequest{Version: InitTwoPhase}
	require.NoError(t, read.ReadFrom(b))
	assert.Equal(t, q, read)

	b, err = hex.DecodeString("00000000" + "0035" + "ffffffffffffffff" + "ffff" + "ffffffffffffffff" + "ffff" + "00")
	require.NoError(t, err)
	p := &InitProducerIDResponse{Version: InitTwoPhase}
	require.NoError(t, p.ReadFrom(b))
	assert.Equal(t, &InitProducerIDResponse{Version: InitTwoPhase, ErrorCode: 53, ProducerID: -1, ProducerEpoch: -1, OngoingTxnProducerID: -1, OngoingTxnProducerEpoch: -1}, p)
	assert.Equal(t, b, p.AppendTo(nil))
}

// Up to version 5 the bytes are kmsg's, also with what only version 6 has.
func TestInitProducerIDIsKmsgs(t *testing.T) {
	text := "payments"
	for v := range int16(InitTwoPhase) {
		for _, id := range []*string{nil, &text} {
			q := &InitProducerIDRequest{v, id, 1 << 20, 7, 3, true, true, kmsg.Tags{}}
			theirs := &kmsg.InitProducerIDRequest{Version: v, TransactionalID: id, TransactionTimeoutMillis: 1 << 20, ProducerID: 7, ProducerEpoch: 3}
			p := &InitProducerIDResponse{v, 1, 47, 8, 4, 9, 5, kmsg.Tags{}}
			answer := &kmsg.InitProducerIDResponse{Version: v, ThrottleMillis: 1, ErrorCode: 47, ProducerID: 8, ProducerEpoch: 4}
			if q.IsFlexible() {
				q.UnknownTags.Set(5, []byte("x"))
				theirs.UnknownTags.Set(5, []byte("x"))
			}
			require.Equal(t, theirs.AppendTo(nil), q.AppendTo(nil), "version %d", v)
			require.Equal(t, answer.AppendTo(nil), p.AppendTo(nil), "version %d", v)
			require.Equal(t, theirs.IsFlexible(), q.IsFlexible())
			_, throttled := answer.Throttle()
			_, also := p.Throttle()
			require.Equal(t, throttled, also)

			read := q.ResponseKind().RequestKind().(*InitProducerIDRequest)
			require.NoError(t, read.ReadFrom(q.AppendTo(nil)))
			q.Enable2PC, q.KeepPreparedTxn = false, false
			if v < 3 {
				q.ProducerID, q.ProducerEpoch = -1, -1
			}
			require.Equal(t, q, read)
			got := q.ResponseKind().(*InitProducerIDResponse)
			require.NoError(t, got.ReadFrom(p.AppendTo(nil)))
			p.OngoingTxnProducerID, p.OngoingTxnProducerEpoch = -1, -1
			require.Equal(t, p, got)
			require.Error(t, read.ReadFrom(q.AppendTo(nil)[:5]))
			require.Error(t, got.ReadFrom(p.AppendTo(nil)[:5]))
		}
	}
}

// What is made for a key is the message of that key, in all the versions that a broker may offer.
func TestMessagesForKeys(t *testing.T) {
	for i := range APIs {
		a := &APIs[i]
		q, p := RequestForKey(a.Key), ResponseForKey(a.Key)
		require.Equal(t, q == nil, p == nil, a.Name)
		if q == nil {
			continue
		}
		assert.Equal(t, [2]int16{a.Key, a.Key}, [2]int16{q.Key(), p.Key()}, a.Name)
		assert.GreaterOrEqual(t, min(q.MaxVersion(), p.MaxVersion()), a.Unstable, a.Name)
	}
}
