package scenario

import (
	"strings"

	"kshare"
	"kshare/protocol/describe"
)

func init() {
	register(&command{
		name:  "requests",
		usage: "requests [api=API] [group=GROUP] [member=MEMBER] [topic=TOPIC] [client=ID] [fields=yes]",
		summary: "Shows the last requests of clients and what became of them, without those of the script's own administration unless client=admin asks for them. A member is named with its group. " +
			"fields=yes shows what they said and what they were answered.",
		example: `
topic orders
produce orders-0 a
join workers m1 orders
fetch workers m1 wait=0s
requests
requests api=ShareGroupHeartbeat fields=yes
----
orders: 1 partition
orders-0: offset 0
m1: epoch 3, assigned orders-0
orders-0: nothing
at 0s Produce v13 from producer to node 1: answered
at 0s ShareGroupHeartbeat v1 from workers/m1 to node 1: answered
at 0s ShareFetch v2 from workers/m1 to node 1: answered
at 0s ShareGroupHeartbeat v1 from workers/m1 to node 1: answered
  request {"GroupID": "workers","MemberID": "m1","MemberEpoch": 0,"RackID": null,"SubscribedTopicNames": ["orders"]}
  answer {"ThrottleMillis": 0,"ErrorCode": 0,"ErrorMessage": null,"MemberID": "m1","MemberEpoch": 3,"HeartbeatIntervalMillis": 5000,"Assignment": {"TopicPartitions": [{"TopicID": "<topic:orders>","Partitions": [0]}]}}
`,
		optionNames: []string{"api", "group", "member", "topic", "client", "fields"},
		reach:       inside, looks: true,
		run: showRequests,
	})
}

func showRequests(s *step, c *call) error {
	fields, err := c.flag("fields")
	if err != nil {
		return err
	}
	q := kshare.RequestQuery{API: c.options["api"], Group: s.wire(c.options["group"]), Topic: s.wire(c.options["topic"]), ClientID: c.options["client"]}
	if name, ok := c.options["member"]; ok {
		if q.Group == "" {
			return mistakef("member=%s: name its group too", name)
		}
		q.Member = s.memberID(c.options["group"], name)
	}
	if s.target.cluster().RequestLog() == 0 {
		return mistakef("requests are not logged: start kshare serve with --request-log")
	}
	all, err := s.target.cluster().Requests(q)
	if err != nil {
		return mistakeFrom(err)
	}
	shown := 0
	for i := range all {
		r := &all[i]
		if strings.HasPrefix(r.ClientID, admin) && q.ClientID == "" {
			continue
		}
		shown++
		text := string(r.Outcome)
		if !r.Answered.IsZero() && r.Answered.After(r.Arrived) {
			text += " after " + show(r.Answered.Sub(r.Arrived))
		}
		if len(r.Faults) > 0 {
			text += " (" + strings.Join(r.Faults, ", ") + ")"
		}
		s.printf("at %s %s v%d from %s to node %d: %s", show(r.Arrived.Sub(s.started)), r.API, r.Version, r.ClientID, r.Node, text)
		if fields {
			s.showFields(r)
		}
	}
	if shown == 0 {
		s.printf("none")
	}
	return nil
}

// showFields shows a request and its answer as JSON, and what of them the log has not kept.
func (s *step) showFields(r *kshare.Request) {
	if q, err := r.Request(); err == nil && q != nil {
		tree := describe.Message(q)
		s.nameLeaves(tree, "")
		s.printf("  request %s", tree)
	}
	if p, err := r.Answer(); err == nil && p != nil {
		tree := describe.Message(p)
		s.nameLeaves(tree, "")
		s.printf("  answer %s", tree)
	}
	for _, what := range r.LeftOut() {
		s.printf("  left out: %s", what)
	}
}
