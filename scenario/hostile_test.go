package scenario

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A script that asks for too much, or makes no sense, is refused with its line and what is wrong, before it costs anything.
func TestHostileScripts(t *testing.T) {
	for script, want := range map[string]string{
		"topic orders\x00":                            "x:1: a zero byte",
		"----":                                        "x:1: a line ---- without a command before it",
		"topic orders\n# no\n----":                    "x:2: a comment between commands and their ----",
		"frobnicate":                                  `x:1: there is no command "frobnicate"`,
		"topik orders":                                `x:1: there is no command "topik": did you mean topic?; help lists them`,
		"topic orders\n---\norders: 1 partition":      `x:2: there is no command "---": the line between commands and what they show is ----`,
		"produce orders-0 a txn=yes":                  "x:1: txn= is that of a producer: name it with producer=NAME",
		"produce orders-0 a sequence=3":               "x:1: sequence= is that of a producer",
		"topic":                                       "x:1: usage: topic NAME",
		"fetch g m weit=5s":                           `x:1: fetch has no option "weit": did you mean wait?`,
		"fetch g m wait=5":                            `x:1: "5" is no duration`,
		"fetch g m wait=1s wait=2s":                   "x:1: the option wait is given twice",
		"ack g m 0=accept":                            "x:1: 0=accept: the partition comes before its offsets",
		"fetch g m max-records=50":                    `x:1: fetch has no option "max-records": did you mean records?; usage: fetch`,
		"fetch g m orders-0 weit=5s":                  `x:1: fetch has no option "weit": did you mean wait?; usage: fetch`,
		"ack g m orders-0 0=accept frobnicate=1":      `x:1: ack has no option "frobnicate"; usage: ack`,
		"txn-ack g m p1 orders-0 memberepoch=1":       `x:1: txn-ack has no option "memberepoch": did you mean member-epoch?; usage: txn-ack`,
		"ack g m orders-0 0=yes":                      `x:1: "yes" is no acknowledge type`,
		"produce orders 1":                            `x:1: "orders" is no partition`,
		"produce orders-0 a count=1000000":            "count=1000000",
		"produce orders-0 a size=9000000000":          "size=9000000000",
		"produce orders-0 a count=100000 size=100000": "a produce may have 67108864",
		"produce orders-0 " + strings.Repeat("a ", 1000) + "size=70000": "a produce may have 67108864",
		"produce orders-0 " + strings.Repeat("a", 1<<20):                "x:1: a line of",
		"advance 9999999h":           "is no duration from 0s",
		"advance -5s":                "is no duration",
		"topic \"orders":             "x:1: a quote without its end",
		"advance 1s &b":              "cannot run in the background",
		"topic a &b c":               "&name stands at the end",
		"send 78 99 {}":              "has the versions 0 to",
		"send 9999 0 {}":             "is no API",
		"topic orders {}":            "takes no JSON",
		"cluster brokers=100000":     "brokers=100000",
		"cluster timing=slow":        "timing=slow: fast or kafka",
		"fault f":                    "x:1:",
		"fault f api=Nonsense close": "no API of Kafka 4.4 is called",
	} {
		_, err := Parse("x", []byte(script))
		if want == "" {
			require.Error(t, err, script)
			continue
		}
		var m *Mistake
		if assert.ErrorAs(t, err, &m, script[:min(60, len(script))]) {
			assert.ErrorContains(t, err, want, script[:min(60, len(script))])
		}
	}
	_, err := Parse("x", []byte(strings.Repeat("groups\n", maxCommands+1)))
	assert.ErrorContains(t, err, "more than 100000 commands")
	_, err = Parse("x", make([]byte, MaxFile+1))
	assert.ErrorContains(t, err, "it may have 16777216")
}

// What shows only when it runs stops the run at its line, and what is open is closed.
func TestMistakesThatShowLate(t *testing.T) {
	for script, want := range map[string]string{
		"topic orders\ncluster brokers=2":         "x:2: cluster comes before every other command",
		"wait f":                                  "x:1: nothing runs under the name f",
		"disconnect g m":                          "x:1: m of g has no such connection",
		"groups &a\ngroups &a":                    "x:2: a runs already",
		"produce orders-0 a producer=p":           "x:1: there is no producer p",
		"cluster num.partitions=0\ntopic orders":  "x:1:",
		"unfault f":                               "x:1: there is no fault f",
		"stop-node 7":                             "x:1:",
		"move-leader orders-0 1":                  "x:1:",
		"send 3 12 {\"topics\": 5}":               "x:1: topics is to be a list",
		"send 3 12 {\"nonsense\": 5}":             `has no field "nonsense"`,
		"send 3 12 {" + strings.Repeat("[", 1000): "x:1:",
		strings.Repeat("produce orders-0 x size=60000000\n", 10): "the scenario has produced",
	} {
		f, err := Parse("x", []byte(script))
		require.NoError(t, err, script[:min(60, len(script))])
		_, err = Run(f, NewLocal(), Options{})
		assert.ErrorContains(t, err, want, script[:min(60, len(script))])
	}
}

// A run ends with its context, also where a command waits for what never comes.
func TestRunEndsWithItsContext(t *testing.T) {
	f, err := Parse("x", []byte("topic orders\nfault f api=Produce hold\nproduce orders-0 a\n"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = RunContext(ctx, f, NewLocal(), Options{})
	require.ErrorIs(t, err, context.Canceled)
}

// What grows with the square of a script's length is bounded or takes another way: each of these would take minutes.
func TestLongLines(t *testing.T) {
	c, err := parseCommand("topic " + strings.Repeat(`"a"b`, 250_000))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("ab", 250_000), c.words[0])

	run := func(script string) error {
		f, err := Parse("x", []byte(script))
		require.NoError(t, err)
		_, err = Run(f, NewLocal(), Options{})
		return err
	}
	require.NoError(t, run("topic orders\nsend ListGroups 4 {\"statesFilter\": [\""+strings.Repeat("<", 1_000_000)+"\"]}\n"))
	require.NoError(t, run("topic orders\nsend ListGroups 4 {\"statesFilter\": [\""+strings.Repeat("<<topic:orders>", 60_000)+"\"]}\n"))

	var many strings.Builder
	for i := range maxBackground + 1 {
		fmt.Fprintf(&many, "fetch workers m wait=1h &f%d\n", i)
	}
	require.ErrorContains(t, run("topic orders\njoin workers m orders\nfetch workers m wait=0s\n"+many.String()), "x:1004: 1000 commands run in the background already: wait for some of them")
}

// An error repeats little of what it is about.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("9", 100_000)
	for _, script := range []string{"fetch g m records=" + long, long, "topic \"" + long, "send ShareFetch 2 {\"maxWaitMillis\": " + long + "}", "send ShareFetch 2 {\"" + long + "\": 1}",
		"send ShareFetch 2 {\"topics\": [{\"topicId\": \"" + long + "\"}]}", "advance " + long, "fetch g m mode=" + long, "produce " + long + " a", "ack g m orders-0 0=" + long,
		"ack g m orders-0 " + long + "=accept", "join g m t " + long + "=1", "send " + long + " 0", "fault f " + long, "fault f error=" + long, "describe-group g type=" + long,
		"config " + long + " x a=1", "send-bytes x" + long, "list-offsets orders-0 at=" + long, "disk " + long, "unfault " + long, "wait " + long, "help " + long} {
		f, err := Parse("x", []byte(script))
		if err == nil {
			_, err = Run(f, NewLocal(), Options{})
		}
		if assert.Error(t, err, script[:min(40, len(script))]) {
			assert.Less(t, len(err.Error()), 2000, script[:min(40, len(script))])
		}
	}
}

// Whatever characters names have, what is shown is text that can be read again.
func TestControlCharactersAreEscaped(t *testing.T) {
	f, err := Parse("x", []byte("topic orders\ncommit \"g\\x00\\x1b[2J\\x7f\" orders-0=1\ngroups\n"))
	require.NoError(t, err)
	r, err := Run(f, NewLocal(), Options{})
	require.NoError(t, err)
	text := string(r.Rewritten())
	require.Contains(t, text, `g\x00\x1b[2J\x7f`)
	_, err = Parse("x", []byte(text))
	require.NoError(t, err)
}
