package control_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"kshare"
	"kshare/clock"
	"kshare/control"
)

// scenario runs a text and returns the report.
func (a *api) scenario(text string) (r control.ScenarioReport) {
	a.t.Helper()
	a.post("/v1/scenarios", map[string]any{"text": text}, &r)
	return r
}

func TestScenario(t *testing.T) {
	a := newAPI(t)
	const text = `# Right, wrong, and without an expectation.
topic more partitions=2
produce more-0 a b
----
more: 2 partitions
more-0: offsets 0-1

produce more-1 a
----
more-1: offset 7

produce more-1 b

advance 31s
----
`
	r := a.scenario(text)
	require.Nil(t, r.Stopped)
	require.Equal(t, 1, r.Differing)
	require.Len(t, r.Blocks, 4)
	require.Equal(t, control.Command{Line: 3, Command: "produce more-0 a b", Shown: []string{"more-0: offsets 0-1"}}, r.Blocks[0].Commands[1])
	for i, want := range []struct{ compared, differs bool }{{true, false}, {true, true}, {false, false}, {true, false}} {
		require.Equal(t, want.compared, r.Blocks[i].Compared, i)
		require.Equal(t, want.differs, r.Blocks[i].Differs, i)
	}
	var now control.Time
	a.get("/v1/time", &now)
	require.Equal(t, began.Add(31*time.Second), now.Now, "the time of the cluster has passed")
	require.Equal(t, []string{"more-1: offset 2"}, a.run("produce more-1 c\n"), "the cluster is as the last scenario has left it")
}

// On the machine's clock a scenario goes over the network, sees the same inside, and waits for short times only.
func TestScenarioOnTheMachinesClock(t *testing.T) {
	a := newAPI(t, kshare.WithClock(clock.Machine{}))
	lines := a.run(acquire + "state workers orders-0\n")
	require.Contains(t, lines, "orders-0: acquired 0 count 1, lock 30s")
	require.Contains(t, strings.Join(lines, "\n"), "ACQUIRED")
	r := a.scenario("advance 31s\nproduce orders-0 a\n")
	require.Contains(t, r.Blocks[0].Commands[1].Omitted, "31s")
}

func TestScenarioMistakes(t *testing.T) {
	a := newAPI(t)
	require.Equal(t, "scenario:2: there is no command \"produse\": did you mean produce?; help lists them",
		a.refused(http.StatusBadRequest, http.MethodPost, "/v1/scenarios", map[string]any{"text": "topic a\nproduse a-0 x\n"}))
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/scenarios", map[string]any{"text": "nothing\n", "name": "mine"}), "mine:1:")
	r := a.scenario("produce orders-0 a\nwait nothing\nproduce orders-0 b\n")
	require.Equal(t, 2, r.Stopped.Line)
	require.Contains(t, r.Stopped.Reason, "nothing")
	require.Len(t, r.Blocks[0].Commands, 2)
	r = a.scenario("restart\n")
	require.Contains(t, r.Stopped.Reason, "not the script's to restart")
}

// Scripts of strangers end, whatever they ask for, and leave the cluster as good as before.
func TestHostileScenarios(t *testing.T) {
	a := newAPI(t)
	require.Contains(t, a.refused(http.StatusRequestEntityTooLarge, http.MethodPost, "/v1/scenarios", map[string]any{"text": strings.Repeat("help\n", 1<<18)}), "it may have 1048576")
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/scenarios", map[string]any{"text": strings.Repeat("help\n", 20_000)}), "20000 commands, there may be 10000")
	require.Contains(t, a.refused(http.StatusBadRequest, http.MethodPost, "/v1/scenarios", map[string]any{"text": "topic a\x00b\n"}), "zero byte")
	r := a.scenario(strings.Repeat("help\n", 9999))
	require.Contains(t, r.Stopped.Reason, "they may show 16777216")
	r = a.scenario("advance 24000h\n")
	require.Nil(t, r.Stopped)
	require.NotEmpty(t, a.run("produce orders-0 a\n"))
}

// A scenario ends with its request, be it waiting or next in line.
func TestScenarioEndsWithItsRequest(t *testing.T) {
	a := newAPI(t, kshare.WithClock(clock.Machine{}))
	ctx, cancel := context.WithCancel(context.Background())
	statuses := make(chan int)
	for range 3 {
		go func() {
			r := request(t, http.MethodPost, "/v1/scenarios", map[string]any{"text": "topic t\nadvance 10s\n"}).WithContext(ctx)
			statuses <- a.do(r).Code
		}()
	}
	for found := false; !found; { // one of them has begun
		var all control.Topics
		a.get("/v1/topics", &all)
		found = len(all.Topics) > 1
	}
	cancel()
	for range 3 {
		<-statuses
	}
	require.NotEmpty(t, a.run("produce orders-0 a\n"))
}
