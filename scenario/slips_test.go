package scenario

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A name that is all but the same as a known one is a mistake of the script, with its line and the right name. In quotes, or unlike any, it is the broker's to refuse.
func TestSlips(t *testing.T) {
	for script, want := range map[string]string{
		// options and configurations
		"topic orders partitons=3":                                    `x:1: topic has no option and Kafka no configuration "partitons": did you mean partitions? In quotes it is taken as it stands; usage: topic`,
		"topic orders partition=3":                                    "did you mean partitions?",
		"topic orders replica=1":                                      "did you mean replicas?",
		"topic orders retention.mss=1":                                "did you mean retention.ms?",
		"topic orders -retention.mss":                                 "did you mean retention.ms?",
		`topic orders "retention.mss=1"`:                              "",
		`topic orders "-retention.mss"`:                               "",
		"topic orders retention.hours=1":                              "",
		"config group workers share.record.lock.duration=15000":       "did you mean share.record.lock.duration.ms?",
		"config group workers shar.record.lock.duration.ms=15000":     "did you mean share.record.lock.duration.ms?",
		"config broker 1 num.partition=4":                             "did you mean num.partitions?",
		"config cluster \"\" num.partition=4":                         "did you mean num.partitions?",
		"describe-config topic orders retention.m":                    "did you mean retention.ms?",
		"describe-config group workers share.record.lock.duration.ms": "",
		"join workers m1 orders rak=a":                                `join has no option "rak": did you mean rack?`,
		"groups types=shar":                                           "types=shar: did you mean share?",
		`groups types="shar"`:                                         "",
		"groups states=Stabel":                                        "states=Stabel: did you mean Stable?",
		"groups states=stable":                                        "",
		"classic-join readers m1 orders protocols=rang":               "protocols=rang: did you mean range?",
		"list-offsets orders-0 at=erliest":                            "at=erliest: latest, earliest, max-timestamp, earliest-local, latest-tiered, or a time in ms: did you mean earliest?",
		"list-offsets orders-0 isolation=read_commited":               "isolation=read_commited: read_committed or read_uncommitted",
		"move-leader orders-0 1 hint=nope":                            "hint=nope: yes or no",
		"move-leader orders-0 4294967298":                             `the node: "4294967298" is no whole number, 0 or more`,
		"share-writes s workers error=FENCED_STATE":                   "did you mean FENCED_STATE_EPOCH?",
		"share-writes s workers":                                      "x:1: nothing goes wrong: name an error code",
		"produce orders-0 a time=now":                                 "time=now: write ms since 1970, or an age like -2h",
		"send ShareFetc 2 {}":                                         `"ShareFetc" is no API: did you mean ShareFetch?`,
		"send-bytes 0z":                                               `"0z" is not bytes, two hexadecimal digits each`,
		"fault f api=Fetch error=NOT_LEADER":                          "did you mean NOT_LEADER_OR_FOLLOWER?",
		// topics
		"topic orders\njoin workers m1 order":                                                         `x:2: the script makes no topic "order": did you mean orders? In quotes it is taken as it stands`,
		"topic orders\njoin workers m1 orders,odrers":                                                 `no topic "odrers"`,
		"topic orders\njoin workers m1 \"order\"":                                                     "",
		"topic orders\njoin workers m1 nothing":                                                       "",
		"topic orders1\njoin workers m1 orders2":                                                      "",
		"topic orders\ntopic order\nproduce order-0 a":                                                "",
		"produce order-0 a":                                                                           "",
		"topic orders\nproduce order-0 a":                                                             `x:2: the script makes no topic "order"`,
		"topic orders\nproduce \"order-0\" a":                                                         "",
		"topic orders\nfetch workers m1 partitions=orders-0,order-0":                                  `no topic "order"`,
		"topic orders\nfetch workers m1 orders-0 0=accept order-0 0-1=accept":                         `no topic "order"`,
		"topic orders\ncommit readers order-0=4":                                                      `no topic "order"`,
		"topic orders\ncommitted readers orders-0 order-0":                                            `no topic "order"`,
		"topic orders\ndelete-topic order":                                                            `no topic "order"`,
		"topic orders\ngrow-topic order 3":                                                            `no topic "order"`,
		"topic orders\ndelete-offsets readers order":                                                  `no topic "order"`,
		"topic orders\ndelete-offsets readers order-0":                                                `no topic "order"`,
		"topic orders\nheartbeat workers m1 topics=order":                                             `no topic "order"`,
		"topic orders\ndescribe-config topic order":                                                   `no topic "order"`,
		"topic orders\nfault f topic=order close":                                                     `no topic "order"`,
		"topic orders\nsend CreateTopics 7 {\"topics\": [{\"topic\": \"order\"}]}\nproduce order-0 a": "",
		// groups and members
		"join workers alice orders\nfetch worker alice":                                `x:2: the script makes no group "worker": did you mean workers?`,
		"join workers alice orders\nfetch workers alcie":                               `x:2: the script makes no member "alcie": did you mean alice?`,
		"join workers alice orders\nfetch workers \"alcie\"":                           "",
		"join workers alice orders\nfetch readers alcie":                               "",
		"join workers m123 orders\nfetch workers m124":                                 "",
		"join workers alice orders\nstate worker orders-0":                             `no group "worker"`,
		"join workers alice orders\nsend ShareFetch 2 as=workers/alcie {}":             `no member "alcie"`,
		"config group workers share.auto.offset.reset=earliest\ndescribe-group worker": `no group "worker"`,
		"commit readers orders-0=3\ncommitted reader":                                  `no group "reader"`,
		"join workers m1 orders\nmove-coordinator transaction worker 1":                "",
		"join workers m1 orders\nmove-coordinator group worker 1":                      `no group "worker"`,
	} {
		_, err := Parse("x", []byte(script))
		if want == "" {
			assert.NoError(t, err, script)
		} else {
			assert.ErrorContains(t, err, want, script)
		}
	}
}

// Slips are looked for in no more time than the rest of a script takes: of many names not at all.
func TestSlipsOfManyNames(t *testing.T) {
	var script strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&script, "topic topic-%d-\nproduce topc-%d--0 a\n", i, i)
	}
	_, err := Parse("x", []byte(script.String()))
	require.NoError(t, err)
}

// An error about JSON names the field and what was meant, always the first by name, and where the JSON ends too early.
func TestSlipsOfJSON(t *testing.T) {
	for command, want := range map[string]string{
		`send ShareFetch 2 {"memberrId": "m", "zone": 1}`:                `the message has no field "memberrId": did you mean MemberID?; it has GroupID`,
		`send ShareFetch 2 {"topics": [{"topicId": "<topics:orders>"}]}`: "<topics:orders>: did you mean <topic:orders>?",
		`send ShareFetch 2 {"groupId": "x"`:                              "the JSON cannot be read: at byte 0: it ends too early",
		`send ShareFetch 2 node=7 {}`:                                    "node=7: there is no such node; there are 1",
		`send ShareFetch 2 {"groupId": 5}`:                               "groupId is to be text, not a number",
	} {
		f, err := Parse("x", []byte(command+"\n"))
		require.NoError(t, err)
		for range 5 {
			_, err := Run(f, NewLocal(), Options{})
			var m *Mistake
			require.ErrorAs(t, err, &m, command)
			assert.Contains(t, m.Reason, want)
			assert.Equal(t, 1, m.Line)
		}
	}
}
