package fault_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/fault"
	"kshare/protocol"
	"kshare/protocol/describe"
)

// forms are rules in both forms.
var forms = []struct{ text, json string }{
	{"api=ShareFetch topic=orders partition=0 nth=2 times=3 error=NOT_LEADER_OR_FOLLOWER level=partition stage=after",
		`{"api":"ShareFetch","topic":"orders","partition":0,"nth":2,"times":3,"error":"NOT_LEADER_OR_FOLLOWER","level":"partition","stage":"after"}`},
	{"close", `{"close":true}`},
	{"name=slow api=78 delay=1.5s", `{"name":"slow","api":78,"delay":"1.5s"}`},
	{"api=fetch version=12 node=1 client=c error=1234", `{"api":"fetch","version":12,"node":1,"client":"c","error":1234}`},
	{"name=n group=g hold", `{"name":"n","group":"g","hold":true}`},
	{"silence probability=0.25 seed=7", `{"silence":true,"probability":0.25,"seed":7}`},
	{"hex=00ff truncate=1 flip=3 length=-1 seed=18446744073709551615", `{"hex":"00ff","truncate":1,"flip":3,"length":-1,"seed":18446744073709551615}`},
	{"truncate=0", `{"truncate":0}`},
	{"api=Metadata topic=t partition=3 error=LEADER_NOT_AVAILABLE", `{"api":"Metadata","topic":"t","partition":3,"error":5}`},
}

func TestForms(t *testing.T) {
	for _, f := range forms {
		fromText, err := fault.ParseRule(strings.Fields(f.text)...)
		require.NoError(t, err, f.text)
		fromJSON, err := fault.DecodeRule([]byte(f.json))
		require.NoError(t, err, f.json)
		if fromJSON.Code() == fromText.Code() {
			fromJSON.Error = fromText.Error
		}
		require.Equal(t, fromText, fromJSON, f.text)
		again, err := fault.ParseRule(strings.Fields(fromText.String())...)
		require.NoError(t, err, fromText.String())
		require.Equal(t, fromText, again)
		b, err := json.Marshal(fromText)
		require.NoError(t, err)
		again, err = fault.DecodeRule(b)
		require.NoError(t, err, string(b))
		require.Equal(t, fromText, again)
	}
	r := fault.Rule{Name: "a b", Client: `"`, Delay: 90 * time.Second}
	require.Equal(t, `name="a b" client="\"" delay=1m30s`, r.String())
}

func TestRulesThatAreRefused(t *testing.T) {
	for text, why := range map[string]string{
		"":                             "does nothing: give it one of error, delay",
		"api=Fetch":                    "does nothing",
		"api=ShareFech close":          `no API of Kafka 4.4 is called "ShareFech": did you mean ShareFetch?`,
		"api=-2 close":                 "no API of Kafka 4.4 has the key -2",
		"api=TxnShareAcknowledg close": "did you mean TxnShareAcknowledge?",
		"api=TxnShareAcknowledge version=1 close":     "TxnShareAcknowledge has no version 1: it has 0 to 0",
		"api=TxnShareAcknowledge error=1 level=group": "TxnShareAcknowledge has no error at level group: it has them at top, partition",
		"apis=Fetch close":                            `no key "apis": did you mean api?; its keys are name, api, version`,
		"close api=Fetch api=Fetch":                   "api is said twice",
		"close=maybe":                                 "close=maybe: that is not true or false",
		"close=false":                                 "close=false says nothing",
		"nth":                                         "nth has no value: say nth=a whole number",
		"nth=x close":                                 "that is not a whole number",
		"partition=4294967296 close":                  "out of range for 32 bits",
		"delay=5":                                     "that is not a duration like 1.5s",
		"delay=-5s":                                   "delay=-5s is negative",
		"error=X close":                               "error and close: a rule has one action",
		"hold flip=1 name=x":                          "hold and wrong bytes: a rule has one action",
		"error=NOT_LEADER":                            `no error of Kafka is called "NOT_LEADER"`,
		"error=NOT_LEADER_OR_FOLOWER":                 "did you mean NOT_LEADER_OR_FOLLOWER?",
		"error=NONE":                                  "is no error",
		"error=40000":                                 "no error",
		"level=top close":                             "add error, or leave level out",
		"error=1 level=bottom":                        "the levels are top, group, coordinator",
		"api=Produce error=1 level=top":               "Produce has no error at level top: it has them at partition",
		"api=Metadata error=1 level=group":            "it has them at top, topic, partition",
		"error=1 level=acknowledge":                   "add api=ShareFetch",
		"hold":                                        "add name",
		"partition=0 close":                           "name topic too",
		"topic=t partition=-1 close":                  "is negative",
		"version=3 close":                             "name api too",
		"api=ShareFetch version=3 close":              "ShareFetch has no version 3: it has 1 to 2",
		"api=Heartbeat topic=t close":                 "Heartbeat names no topic",
		"api=Fetch group=g close":                     "Fetch names no group",
		"api=CreateTopics topic=t partition=0 close":  "CreateTopics names no partition",
		"nth=-1 close":                                "the first match is 1",
		"times=-1 close":                              "for ever",
		"probability=1.5 close":                       "not between 0 and 1",
		"probability=NaN close":                       "not between 0 and 1",
		"seed=1 close":                                "drawn from by probability and flip",
		"stage=during close":                          "neither before nor after",
		"stage=before flip=1":                         "leave stage out",
		"hex=0":                                       "two hexadecimal digits each",
		"hex=" + strings.Repeat("00", 1<<20+1):        "it may have 1048576",
		"truncate=-1":                                 "is negative",
		"flip=-1":                                     "is negative",
	} {
		_, err := fault.ParseRule(strings.Fields(text)...)
		assert.ErrorContains(t, err, why, clipped(text))
	}
	for text, why := range map[string]string{
		``:                               "ends before",
		`{"close":true`:                  "ends before",
		`[]`:                             "a rule is a JSON object",
		`{"close":true} {}`:              "something behind",
		`{"Close":true}`:                 `no key "Close": did you mean close?`,
		`{"close":true,"close":true}`:    "twice",
		`{"close":"true"}`:               "is not true or false",
		`{"close":null}`:                 "null says nothing",
		`{"api":null,"close":true}`:      "null says nothing",
		`{"nth":"2","close":true}`:       `"nth": "2" is not a whole number`,
		`{"nth":1.5,"close":true}`:       "is not a whole number",
		`{"delay":5}`:                    "5 is not a duration like 1.5s, as text",
		`{"api":70000,"close":true}`:     "is not text",
		`{"version":40000,"close":true}`: "is not a whole number",
		`{"close":{"a":[1,2,{}]}}`:       "is not true or false",
		`{"topic":1,"close":true}`:       "1 is not text",
	} {
		_, err := fault.DecodeRule([]byte(text))
		assert.ErrorContains(t, err, why, text)
	}
}

func clipped(s string) string { return s[:min(len(s), 80)] }

// FuzzDecodeRule decodes whatever there is: a rule that is taken has both forms, and they mean the same.
func FuzzDecodeRule(f *testing.F) {
	for _, form := range forms {
		f.Add(form.text, form.json)
	}
	f.Add("a=b", `{"delay":"9223372036854775807ns","flip":1}`)
	f.Fuzz(func(t *testing.T, text, object string) {
		fromText, err := fault.ParseRule(strings.Fields(text)...)
		if err == nil {
			require.NoError(t, fromText.Check())
		}
		r, err := fault.DecodeRule([]byte(object))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		b, err := json.Marshal(r)
		require.NoError(t, err)
		again, err := fault.DecodeRule(b)
		require.NoError(t, err, string(b))
		require.Equal(t, r, again)
		s := fault.Set{APIs: protocol.WithTxnShareAcknowledge(protocol.TxnShareAcknowledgeKey)}
		if _, err := s.Add(r); err != nil {
			key, numberErr := strconv.ParseInt(string(r.API), 10, 16)
			require.True(t, numberErr == nil && protocol.TxnShareAcknowledgeMayHave(int16(key)), "what the key means is known by the set alone: %v", err)
			return
		}
		for i := range protocol.APIs {
			a := &protocol.APIs[i]
			if r.Code() != 0 && a.NewResponse(a.MaxVersion) != nil {
				_, ok := r.Place(a, a.MaxVersion)
				require.True(t, ok, a.Name)
			}
			for _, act := range s.Match(&fault.Request{Key: a.Key, Version: a.MaxVersion}) {
				act.Alter([]byte("answer"))
			}
		}
	})
}

// What a key means that TxnShareAcknowledge may have depends on the cluster, as does whether it knows the name.
func TestKeysOfTxnShareAcknowledge(t *testing.T) {
	const taken = ""
	for _, c := range []struct {
		apis      protocol.Catalog
		rule, why string
	}{
		{protocol.Catalog{}, "api=TxnShareAcknowledge close", "TxnShareAcknowledge is of KIP-1289, which is not on"},
		{protocol.Catalog{}, "api=95 close", "no API of Kafka 4.4 has the key 95"},
		{protocol.Catalog{}, "api=4 close", "no API of Kafka 4.4 has the key 4"},
		{protocol.Catalog{}, "api=93 error=1 level=partition", "StreamsGroupTopologyDescriptionUpdate has no error at level partition"},
		{protocol.WithTxnShareAcknowledge(95), "api=txnshareacknowledge topic=t partition=0 error=1 level=partition", taken},
		{protocol.WithTxnShareAcknowledge(95), "api=95 group=g error=1 level=top", taken},
		{protocol.WithTxnShareAcknowledge(95), "api=94 topic=t close", "UnregisterController names no topic"},
		{protocol.WithTxnShareAcknowledge(93), "api=93 topic=t error=1 level=partition", taken},
		{protocol.WithTxnShareAcknowledge(93), "api=TxnShareAcknowledge topic=t error=1 level=partition", taken},
		{protocol.WithTxnShareAcknowledge(93), "api=StreamsGroupTopologyDescriptionUpdate close", "TxnShareAcknowledge has its key, 93"},
		{protocol.WithTxnShareAcknowledge(93), "api=93 error=1 level=group", "TxnShareAcknowledge has no error at level group"},
		{protocol.WithTxnShareAcknowledge(32000), "api=32000 version=0 hold name=x", taken},
		{protocol.WithTxnShareAcknowledge(32000), "api=95 close", "no API of Kafka 4.4 has the key 95"},
	} {
		s := fault.Set{APIs: c.apis}
		_, err := s.Add(parse(t, c.rule))
		if c.why == taken {
			assert.NoError(t, err, c.rule)
			continue
		}
		assert.ErrorContains(t, err, c.why, c.rule)
	}
	s := fault.Set{APIs: protocol.WithTxnShareAcknowledge(93)}
	_, err := s.Add(parse(t, "api=TxnShareAcknowledge close"))
	require.NoError(t, err)
	require.Len(t, s.Match(&fault.Request{Key: 93}), 1)
	require.Empty(t, s.Match(&fault.Request{Key: 95}))
}

// parse reads a rule.
func parse(t *testing.T, text string) fault.Rule {
	t.Helper()
	r, err := fault.ParseRule(strings.Fields(text)...)
	require.NoError(t, err)
	return r
}

// acts tells on which of n equal requests a rule acts.
func acts(t *testing.T, text string, n int, q *fault.Request) string {
	t.Helper()
	var s fault.Set
	_, err := s.Add(parse(t, text))
	require.NoError(t, err)
	var b strings.Builder
	for range n {
		b.WriteByte(".x"[len(s.Match(q))])
	}
	require.Equal(t, strings.Count(b.String(), "x"), s.Status()[0].Acts)
	return b.String()
}

func TestCounting(t *testing.T) {
	q := &fault.Request{Key: 1, Version: 12, Node: 1, Client: "c"}
	require.Equal(t, "xxxxx", acts(t, "close", 5, q))
	require.Equal(t, "..xxx", acts(t, "close nth=3", 5, q))
	require.Equal(t, "xx...", acts(t, "close times=2", 5, q))
	require.Equal(t, "..x..", acts(t, "close nth=3 times=1", 5, q))
	require.Equal(t, "xxxxx", acts(t, "close probability=1", 5, q))
	drawn := acts(t, "close probability=0.25 seed=7", 1000, q)
	require.Equal(t, drawn, acts(t, "close probability=0.25 seed=7", 1000, q))
	require.NotEqual(t, drawn, acts(t, "close probability=0.25 seed=8", 1000, q))
	require.InDelta(t, 250, strings.Count(drawn, "x"), 50)
	require.Equal(t, ".........."+drawn[:990], acts(t, "close probability=0.25 seed=7 nth=11", 1000, q), "draws begin with the n-th match")
	require.Equal(t, ".x...x..x.x..........x....x....x..", drawn[:34], "the sequence of a seed stays the same from release to release")
}

func TestMatching(t *testing.T) {
	q := &fault.Request{Key: 78, Version: 2, Node: 3, Client: "worker-1", Subject: &describe.Subject{
		Groups: []string{"g", "h"},
		Topics: []describe.Topic{{Name: "orders", Partitions: []int32{0, 1}}, {Name: "payments", Partitions: []int32{7}}, {Name: "whole"}},
	}}
	for text, matches := range map[string]bool{
		"close":                            true,
		"close api=ShareFetch":             true,
		"close api=78":                     true,
		"close api=sharefetch version=2":   true,
		"close api=ShareFetch version=1":   false,
		"close api=Fetch":                  false,
		"close node=3":                     true,
		"close node=0":                     false,
		"close client=worker-1":            true,
		"close client=worker":              false,
		"close group=h":                    true,
		"close group=i":                    false,
		"close topic=payments":             true,
		"close topic=payments group=g":     true,
		"close topic=payments group=i":     false,
		"close topic=orders partition=1":   true,
		"close topic=payments partition=1": false,
		"close topic=whole partition=9":    true,
	} {
		want := "."
		if matches {
			want = "x"
		}
		assert.Equal(t, want, acts(t, text, 1, q), text)
	}
	require.Equal(t, ".", acts(t, "close group=g", 1, &fault.Request{Key: 78}), "a request that cannot be decoded names nothing")
	require.Equal(t, "x", acts(t, "close topic=any partition=1", 1, &fault.Request{Key: 3, Subject: &describe.Subject{AllTopics: true}}))
}

func TestSet(t *testing.T) {
	var s fault.Set
	require.True(t, s.Empty())
	_, err := s.Add(fault.Rule{})
	require.Error(t, err)
	for i, name := range []string{"a", "b", "a"} {
		id, err := s.Add(fault.Rule{Name: name, Close: true})
		require.NoError(t, err)
		require.Equal(t, i+1, id)
	}
	require.ErrorContains(t, s.Remove(4), "no fault 4")
	require.NoError(t, s.Remove(1))
	require.Error(t, s.Remove(1))
	id, err := s.Add(fault.Rule{Close: true})
	require.NoError(t, err)
	require.Equal(t, 4, id, "an id is never given twice")
	acts := s.Match(&fault.Request{Key: 1})
	require.Len(t, acts, 3)
	require.Equal(t, []string{"b", "a", "fault 4"}, []string{acts[0].String(), acts[1].String(), acts[2].String()})
	require.True(t, s.HasName("a"))
	require.False(t, s.HasName("c"))
}

func TestWrongBytes(t *testing.T) {
	alter := func(text string, body ...byte) ([]byte, *int32) {
		r, err := fault.ParseRule(strings.Fields(text)...)
		require.NoError(t, err)
		var s fault.Set
		_, err = s.Add(r)
		require.NoError(t, err)
		before := append([]byte(nil), body...)
		out, length := s.Match(&fault.Request{})[0].Alter(body)
		require.Equal(t, before, body, "the answer itself is left alone")
		return out, length
	}
	out, length := alter("hex=c0de", 1, 2, 3)
	require.Equal(t, []byte{0xc0, 0xde}, out)
	require.Nil(t, length)
	out, _ = alter("truncate=2", 1, 2, 3)
	require.Equal(t, []byte{1, 2}, out)
	out, _ = alter("truncate=20", 1, 2, 3)
	require.Equal(t, []byte{1, 2, 3}, out)
	out, length = alter("length=5", 1, 2, 3)
	require.Equal(t, []byte{1, 2, 3}, out)
	require.Equal(t, int32(5), *length)
	for _, seed := range []string{"1", "2", "3"} {
		out, _ = alter("flip=5 seed="+seed, make([]byte, 100)...)
		bits := 0
		for _, b := range out {
			for ; b != 0; b &= b - 1 {
				bits++
			}
		}
		require.Equal(t, 5, bits, "seed %s", seed)
		again, _ := alter("flip=5 seed="+seed, make([]byte, 100)...)
		require.Equal(t, out, again)
	}
	out, _ = alter("flip=1000", 0)
	require.Equal(t, []byte{0xff}, out, "there are no more bits to flip")
	out, _ = alter("flip=1")
	require.Empty(t, out)
}

// The documentation of the package names each key, and each in the text form that is taken.
func TestEveryKeyIsDocumented(t *testing.T) {
	source, err := os.ReadFile("fault.go")
	require.NoError(t, err)
	doc, _, _ := strings.Cut(string(source), "package fault")
	_, err = fault.ParseRule("x")
	_, keys, _ := strings.Cut(err.Error(), "its keys are ")
	for key := range strings.SplitSeq(keys, ", ") {
		assert.Regexp(t, `(?m)^//.*\b`+key+`(=| )`, doc)
	}
}

// However rules are found, those act that a look at each of them would find, in the order in which they were added.
func TestFindingAgreesWithLooking(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	for range 300 {
		var s fault.Set
		var rules []fault.Rule
		for range 1 + r.IntN(20) {
			text := pick("", "api=Fetch ", "api=ShareFetch ", "api=Produce ") + pick("", "", "node=2 ", "client=c ")
			if !strings.Contains(text, "api=") || strings.Contains(text, "ShareFetch") {
				text += pick("", "group=g ", "group=h ")
			}
			if topic := pick("", "t", "u"); topic != "" {
				text += "topic=" + topic + pick("", " partition=0", " partition=1") + " "
			}
			rule := parse(t, text+"close")
			_, err := s.Add(rule)
			require.NoError(t, err)
			rules = append(rules, rule)
			if r.IntN(10) == 0 {
				id := r.IntN(len(rules)) + 1
				if s.Remove(id) == nil {
					rules[id-1] = fault.Rule{}
				}
			}
		}
		for range 20 {
			q := &fault.Request{Key: []int16{0, 1, 78}[r.IntN(3)], Version: 2, Node: int32(r.IntN(2) + 1), Client: pick("c", "d")}
			if r.IntN(5) > 0 {
				q.Subject = &describe.Subject{AllTopics: r.IntN(5) == 0}
				for range r.IntN(3) {
					q.Subject.Groups = append(q.Subject.Groups, pick("g", "h", "i"))
				}
				for range r.IntN(5) {
					topic := describe.Topic{Name: pick("t", "u", "v")}
					for range r.IntN(3) {
						topic.Partitions = append(topic.Partitions, int32(r.IntN(3)))
					}
					q.Subject.Topics = append(q.Subject.Topics, topic)
				}
			}
			var want, got []int
			for i := range rules {
				if rules[i].Close && looksLike(&rules[i], q) {
					want = append(want, i+1)
				}
			}
			for _, a := range s.Match(q) {
				got = append(got, a.ID)
			}
			require.Equal(t, want, got, "%+v of %v", q, rules)
		}
	}
}

// looksLike is what the documentation says of matching.
func looksLike(r *fault.Rule, q *fault.Request) bool {
	key := map[fault.NameOrNumber]int16{"Produce": 0, "Fetch": 1, "ShareFetch": 78}
	if r.API != "" && key[r.API] != q.Key || r.Node != nil && *r.Node != q.Node || r.Client != "" && r.Client != q.Client {
		return false
	}
	if r.Group == "" && r.Topic == "" {
		return true
	}
	if q.Subject == nil || r.Group != "" && !slices.Contains(q.Subject.Groups, r.Group) {
		return false
	}
	return r.Topic == "" || q.Subject.AllTopics || slices.ContainsFunc(q.Subject.Topics, func(t describe.Topic) bool {
		return t.Name == r.Topic && (r.Partition == nil || t.Partitions == nil || slices.Contains(t.Partitions, *r.Partition))
	})
}

// More rules than there may be are refused until one is removed.
func TestRulesAreBounded(t *testing.T) {
	var s fault.Set
	for range fault.MaxRules {
		_, err := s.Add(parse(t, "close"))
		require.NoError(t, err)
	}
	_, err := s.Add(parse(t, "close"))
	require.EqualError(t, err, "there are 1000 faults already: remove those that are no longer needed first")
	require.NoError(t, s.Remove(7))
	id, err := s.Add(parse(t, "close"))
	require.NoError(t, err)
	require.Equal(t, fault.MaxRules+1, id)
}
