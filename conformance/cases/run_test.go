//go:build unix

package cases

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare/conformance"
	"kshare/scenario"
	"kshare/shareclient"
)

// play is the variable that makes a driver of this test's program: what it is to do.
const play = "KSHARE_TEST_DRIVER"

func TestMain(m *testing.M) {
	if part := os.Getenv(play); part != "" && os.Getenv("KSJ_CASE") != "" {
		act(part)
		return
	}
	os.Exit(m.Run())
}

// act is a driver that misbehaves in every case, and says hello to whoever asks for it.
func act(part string) {
	fmt.Println(`{"ev":"hello","client":"test","version":"1","caps":["exp"]}`)
	if os.Getenv("KSJ_CASE") == "hello" {
		return
	}
	switch part {
	case "consumes":
		consumer, err := shareclient.NewConsumer(shareclient.ConsumerConfig{Group: os.Getenv("KSJ_GROUP"), Topics: strings.Split(os.Getenv("KSJ_TOPICS"), ",")},
			kgo.SeedBrokers(strings.Split(os.Getenv("KSJ_BOOTSTRAP"), ",")...))
		if err != nil {
			panic(err)
		}
		for {
			if _, err := consumer.Poll(context.Background()); err != nil {
				panic(err)
			}
		}
	case "hangs":
		select {}
	case "babbles":
		for {
			fmt.Println("what is this?")
		}
	case "crashes":
		fmt.Fprintln(os.Stderr, "out of order")
		os.Exit(3)
	case "has children":
		cmd := exec.Command("sleep", "1000")
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	case "connects":
		addr, _, _ := strings.Cut(os.Getenv("KSJ_BOOTSTRAP"), ",")
		var all []net.Conn
		for range 500 {
			if c, err := net.Dial("tcp", addr); err == nil {
				all = append(all, c)
			}
		}
		fmt.Fprintln(os.Stderr, len(all))
		select {}
	}
}

// A driver that misbehaves ends its case, with a word of why, and the next one is run.
func TestDriversThatMisbehave(t *testing.T) {
	for part, want := range map[string][2]string{
		"hangs":        {string(HarnessFailed), "the driver does nothing"},
		"babbles":      {string(HarnessFailed), `the driver writes what is no event: "what is this?"`},
		"crashes":      {string(HarnessFailed), "the client's process has ended: exit status 3"},
		"has children": {string(HarnessFailed), "the driver does nothing"},
		"connects":     {string(HarnessFailed), "the driver does nothing"},
	} {
		t.Run(part, func(t *testing.T) {
			t.Setenv(play, part)
			never := func(s *Stage) {
				s.Tell(map[string]any{"op": "run"})
				s.Await(time.Second, "a heartbeat", func() bool { return s.first(0, heartbeatKey, nil) != nil })
			}
			two := []Case{
				{ID: "tst.01", Level: conformance.Must, Says: "nothing", Source: "a test", Within: time.Minute, run: never},
				{ID: "tst.02", Level: conformance.Must, Says: "nothing", Source: "a test", Within: time.Minute, run: never},
			}
			r, err := Run(context.Background(), Options{Client: []string{os.Args[0]}, Cases: two})
			require.NoError(t, err)
			require.Len(t, r.Results, 2)
			for _, x := range r.Results {
				assert.Equal(t, want[0], string(x.Verdict), x.Why)
				assert.Contains(t, x.Why, want[1])
			}
			if part == "crashes" {
				assert.Equal(t, "out of order\n", r.Results[0].Stderr)
			}
		})
	}
}

// Results of an earlier run of the same version are kept.
func TestKnownResultsAreKept(t *testing.T) {
	t.Setenv(play, "hangs")
	known := []*Report{{Client: "test", Version: "1", Results: []Result{{ID: "tst.01", Verdict: Pass}}}, {Client: "test", Version: "2", Results: []Result{{ID: "tst.02", Verdict: Pass}}}}
	ran := 0
	r, err := Run(context.Background(), Options{Client: []string{os.Args[0]}, Known: known, Done: func(Result, *Report) { ran++ }, Cases: []Case{
		{ID: "tst.01", Within: time.Minute, run: func(s *Stage) { s.Failf("it is run again") }},
		{ID: "tst.02", Within: time.Minute, Needs: []string{"ktx"}, run: func(*Stage) {}},
	}})
	require.NoError(t, err)
	assert.Equal(t, 1, ran)
	assert.Equal(t, []Verdict{Pass, Skip}, []Verdict{r.Result("tst.01").Verdict, r.Result("tst.02").Verdict})
	assert.Equal(t, map[Verdict]int{Pass: 1, Skip: 1}, r.Summary)
}

// Who is no driver is told so.
func TestNoDriver(t *testing.T) {
	_, err := Run(context.Background(), Options{Client: []string{"/bin/sh", "-c", "echo what?; exit 4"}})
	require.ErrorContains(t, err, "the driver does not say hello: the driver has ended: exit status 4")
	require.ErrorContains(t, err, "what?")
}

// A case that has failed is put to the client again where that is asked for, and one that always fails stays failed.
func TestAgain(t *testing.T) {
	t.Setenv(play, "hangs")
	runs := map[string]int{}
	failing := func(times int) func(*Stage) {
		return func(s *Stage) {
			if runs[s.c.ID]++; runs[s.c.ID] <= times {
				s.Failf("busy")
			}
		}
	}
	all := []Case{
		{ID: "tst.01", Within: time.Minute, run: failing(0)},
		{ID: "tst.02", Within: time.Minute, run: failing(2)},
		{ID: "tst.03", Within: time.Minute, run: failing(3)},
	}
	r, err := Run(context.Background(), Options{Client: []string{os.Args[0]}, Cases: all, Again: 2})
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"tst.01": 1, "tst.02": 3, "tst.03": 3}, runs)
	assert.Equal(t, []Verdict{Pass, Pass, HarnessFailed}, []Verdict{r.Results[0].Verdict, r.Results[1].Verdict, r.Results[2].Verdict})
	assert.Empty(t, r.Results[0].Notes)
	require.Len(t, r.Results[1].Notes, 1)
	assert.Contains(t, r.Results[1].Notes[0], "unsteady: beside other cases the verdict was harness-failed")
}

// What the client has sent in a case that it does not pass is a scenario, which asks a cluster of its own the same and is answered the same.
func TestEvidenceIsAScenario(t *testing.T) {
	t.Setenv(play, "consumes")
	r, err := Run(context.Background(), Options{Client: []string{os.Args[0]}, Cases: []Case{{
		ID: "tst.01", Level: conformance.Must, Says: "it is answered", Source: "a test", Within: time.Minute, Setup: Setup{Records: 20}, run: func(s *Stage) {
			s.Next(30*time.Second, 0, shareFetchKey, "records", func(x *Seen) bool { p := fetched(x); return p != nil && acquiresAny(p) })
			s.Failf("this is why")
		},
	}}})
	require.NoError(t, err)
	require.Equal(t, Fail, r.Results[0].Verdict, r.Results[0].Why)
	text := r.Results[0].Scenario
	for _, want := range []string{"# fail: this is why", "topic t partitions=1", "produce t-0 10 11", "send ShareGroupHeartbeat 1", `"TopicID":"<topic:t>"`} {
		assert.Contains(t, string(text), want)
	}
	f, err := scenario.Parse("tst.01", text)
	require.NoError(t, err)
	played, err := scenario.Run(f, scenario.NewLocal(), scenario.Options{})
	require.NoError(t, err)
	assert.Contains(t, string(played.Rewritten()), `"AcquiredRecords": [{"FirstOffset": 0,"LastOffset": 19,"DeliveryCount": 1}]`)
}
