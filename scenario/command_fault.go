package scenario

import (
	"slices"
	"strings"

	"kshare/fault"
)

func init() {
	register(&command{
		name:  "fault",
		usage: "fault NAME [api=API] [version=N] [node=N] [client=ID] [group=GROUP] [topic=TOPIC] [partition=N] [nth=N] [times=N] [probability=P] [seed=N] ACTION [stage=after]",
		summary: "Has something go wrong with requests that match. ACTION is error=CODE [level=LEVEL], delay=DURATION, hold, close, silence, hex=BYTES, truncate=N, flip=N or length=N. Before the request " +
			"is applied, unless stage=after.",
		example: `
topic orders
config group workers share.auto.offset.reset=earliest
produce orders-0 a
join workers m1 orders
fault lost api=ShareAcknowledge group=workers times=1 close stage=after
fetch workers m1
ack workers m1 orders-0 0=accept
unfault lost
state workers orders-0
----
orders: 1 partition
workers: ok
orders-0: offset 0
m1: epoch 3, assigned orders-0
lost: set
orders-0: acquired 0 count 1, lock 30s
  0 a
connection closed
lost: matched 1, acted 1
orders-0: not read by the leader
persisted: start 0, state epoch 2; 0 ACKNOWLEDGED count 1
`,
		freeWords: true, least: 2, most: -1, reach: inside,
		check: func(c *call) error { _, err := faultRule(c); return err },
		run: func(s *step, c *call) error {
			r, err := faultRule(c)
			if err != nil {
				return err
			}
			r.Group, r.Topic = s.wire(r.Group), s.wire(r.Topic)
			if slices.ContainsFunc(s.target.cluster().Faults(), func(f fault.Status) bool { return f.Rule.Name == r.Name }) {
				return mistakef("there is a fault %s already; unfault removes it", r.Name)
			}
			if _, err := s.target.cluster().AddFault(r); err != nil {
				return mistakeFrom(err)
			}
			s.printf("%s: set", r.Name)
			return nil
		},
	})
}

func faultRule(c *call) (fault.Rule, error) {
	if strings.Contains(c.words[0], "=") {
		return fault.Rule{}, mistakef("%q: a fault begins with its name", c.words[0])
	}
	return fault.ParseRule(append([]string{"name=" + c.words[0]}, c.words[1:]...)...)
}
