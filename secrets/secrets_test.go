package secrets_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/secrets"
)

func frame(q kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("c")).AppendRequest(nil, q, 7)[4:]
}

// What is secret is gone, what is not stays, and a request that cannot be decoded keeps what tells whose answer is whose.
func TestRequests(t *testing.T) {
	login := kmsg.NewPtrSASLAuthenticateRequest()
	login.Version, login.SASLAuthBytes = 2, []byte("\x00user\x00hunter2")
	scram := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	scram.Upsertions = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{{Name: "user", Salt: []byte("hunter2"), SaltedPassword: []byte("hunter2")}}
	value := "hunter2"
	configs := kmsg.NewPtrIncrementalAlterConfigsRequest()
	configs.Version = 1
	configs.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceName: "1", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "ssl.key.password", Value: &value}, {Name: "log.segment.bytes", Value: &value}}}}
	old := kmsg.NewPtrAlterConfigsRequest()
	old.Version = 2
	old.Resources = []kmsg.AlterConfigsRequestResource{{ResourceName: "1", Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "ssl.key.password", Value: &value}}}}
	for _, q := range []kmsg.Request{login, scram, old} {
		whole := frame(q)
		before := bytes.Clone(whole)
		got := secrets.FromRequestFrame(whole)
		require.NotContains(t, string(got), "hunter2", "%T", q)
		require.Equal(t, before, whole, "the frame is not changed")
		require.Equal(t, whole[:8], got[:8])
		require.Equal(t, whole[:8], secrets.FromRequestFrame(whole[:len(whole)-3]), "%T that is cut off", q)
	}
	require.Equal(t, 1, bytes.Count(secrets.FromRequestFrame(frame(configs)), []byte("hunter2")), "the segment size is no secret")
	other := frame(kmsg.NewPtrListGroupsRequest())
	require.Equal(t, other, secrets.FromRequestFrame(other))
	require.Empty(t, secrets.FromRequestFrame(nil))
}

func TestAnswers(t *testing.T) {
	p := kmsg.SASLAuthenticateResponse{Version: 1, SASLAuthBytes: []byte("hunter2"), SessionLifetimeMillis: 9}
	got := kmsg.SASLAuthenticateResponse{Version: 1}
	require.NoError(t, got.ReadFrom(secrets.FromAnswer(36, 1, p.AppendTo(nil))))
	require.Empty(t, got.SASLAuthBytes)
	require.EqualValues(t, 9, got.SessionLifetimeMillis)
	require.Nil(t, secrets.FromAnswer(36, 1, []byte{1}))
	require.Equal(t, []byte{1}, secrets.FromAnswer(3, 1, []byte{1}))
}
