package control_test

import (
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

func TestJudge(t *testing.T) {
	a := newAPI(t, kshare.WithJudge())
	failures, warnings := a.brokenRules()
	require.Empty(t, failures)
	require.Empty(t, warnings)

	d, err := a.cluster.OpenDirect(1)
	require.NoError(t, err)
	q := kmsg.NewPtrShareAcknowledgeRequest()
	group, member := "workers", "7e0a7c3c-2f6b-4d2e-9f1a-6a4b2f1f0c01"
	q.Version, q.GroupID, q.MemberID = 2, &group, &member
	d.Send(kmsg.NewRequestFormatter().AppendRequest(nil, q, 1)[4:])
	failures, _ = a.brokenRules()
	require.Equal(t, []string{"wire.api.1", "wire.member.1", "share.session.epoch.4"}, failures)

	a.post("/v1/judge/reset", struct{}{}, nil)
	failures, _ = a.brokenRules()
	require.Empty(t, failures, "the verdicts are gone")

	d.Send(kmsg.NewRequestFormatter().AppendRequest(nil, q, 2)[4:])
	failures, _ = a.brokenRules()
	require.NotEmpty(t, failures, "the connection is judged on")
	a.post("/v1/reset", struct{}{}, nil)
	failures, _ = a.brokenRules()
	require.Empty(t, failures, "reset with the cluster")

	none := newAPI(t)
	require.Contains(t, none.refused(http.StatusConflict, http.MethodGet, "/v1/judge", nil), "--judge")
	require.Contains(t, none.refused(http.StatusConflict, http.MethodPost, "/v1/judge/reset", struct{}{}), "--judge")
}
