package scenario

import (
	"time"

	"kshare/clock"
)

func init() {
	register(&command{
		name:    "advance",
		usage:   "advance DURATION",
		summary: "Lets time pass. In the process that takes none; against a real Kafka up to 10s are waited for, and a longer time ends the comparison.",
		example: `
topic orders
config group workers share.auto.offset.reset=earliest
produce orders-0 a
join workers m1 orders
fetch workers m1
advance 30s
fetch workers m1
----
orders: 1 partition
workers: ok
orders-0: offset 0
m1: epoch 3, assigned orders-0
orders-0: acquired 0 count 1, lock 30s
  0 a
orders-0: acquired 0 count 2, lock 30s
  0 a
`,
		least: 1, most: 1, ahead: true,
		check: func(c *call) error { _, err := duration(c.words[0]); return err },
		run: func(s *step, c *call) error {
			d, err := duration(c.words[0])
			if err != nil {
				return err
			}
			if d > longestWait && !s.target.virtual() {
				return endsComparison{"time is moved by " + show(d) + ", which is not waited for"}
			}
			if err := clock.CheckReach(s.target.now().Add(d)); err != nil {
				return mistakef("%v", err)
			}
			return s.sleep(d)
		},
	})
	register(&command{
		name:    "wait",
		usage:   "wait NAME",
		summary: "Waits for what runs in the background under a name and shows what came of it, and after how long.",
		example: `
topic orders
join workers m1 orders
fetch workers m1 wait=5s &f
advance 2s
produce orders-0 a
wait f
----
orders: 1 partition
m1: epoch 3, assigned orders-0
orders-0: offset 0
after 2s: orders-0: acquired 0 count 1, lock 30s
  0 a
`,
		least: 1, most: 1, ahead: true,
		run: wait,
	})
}

// longestWait is what is waited for against a real Kafka.
const longestWait = 10 * time.Second

func wait(s *step, c *call) error {
	name := c.words[0]
	for i, st := range s.strands {
		if st.name != name {
			continue
		}
		for !st.finished {
			s.wakeBy(s.target.now().Add(answerLimit))
			if err := s.pause(); err != nil {
				return err
			}
		}
		s.strands = append(s.strands[:i:i], s.strands[i+1:]...)
		lines, err := st.lines()
		for _, l := range lines {
			s.printf("%s", l)
		}
		return err
	}
	return mistakef("nothing runs under the name %s", name)
}
