package control_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/conformance"
)

// brokenRules are the rules that clients have broken so far.
func (a *api) brokenRules() (failures, warnings []string) {
	var r conformance.Report
	a.get("/v1/judge", &r)
	return r.Failures, r.Warnings
}

// dial connects as a client does.
func (a *api) dial() net.Conn {
	c, err := a.cluster.Dial(a.t.Context(), "tcp", a.cluster.Addrs()[0])
	require.NoError(a.t, err)
	return c
}

// ask sends a request and waits for the beginning of its answer.
func (a *api) ask(c net.Conn, q kmsg.Request) {
	_, err := c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, q, 1))
	require.NoError(a.t, err)
	var size [4]byte
	_, err = io.ReadFull(c, size[:])
	require.NoError(a.t, err)
	_, err = io.ReadFull(c, make([]byte, binary.BigEndian.Uint32(size[:])))
	require.NoError(a.t, err)
}

func TestJudge(t *testing.T) {
	a := newAPI(t, kshare.WithJudge())
	failures, warnings := a.brokenRules()
	require.Empty(t, failures)
	require.Empty(t, warnings)

	d := a.dial()
	q := kmsg.NewPtrShareAcknowledgeRequest()
	group, member := "workers", "7e0a7c3c-2f6b-4d2e-9f1a-6a4b2f1f0c01"
	q.Version, q.GroupID, q.MemberID = 2, &group, &member
	a.ask(d, q)
	failures, _ = a.brokenRules()
	require.Equal(t, []string{"wire.api.1", "wire.member.1", "share.session.epoch.4"}, failures)

	a.post("/v1/judge/reset", struct{}{}, nil)
	failures, _ = a.brokenRules()
	require.Empty(t, failures, "the verdicts are gone")

	a.ask(d, q)
	failures, _ = a.brokenRules()
	require.NotEmpty(t, failures, "the connection is judged on")
	a.post("/v1/reset", struct{}{}, nil)
	failures, _ = a.brokenRules()
	require.Empty(t, failures, "reset with the cluster")

	none := newAPI(t)
	require.Contains(t, none.refused(http.StatusConflict, http.MethodGet, "/v1/judge", nil), "--judge")
	require.Contains(t, none.refused(http.StatusConflict, http.MethodPost, "/v1/judge/reset", struct{}{}), "--judge")
}
