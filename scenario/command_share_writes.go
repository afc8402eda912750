package scenario

import (
	"time"

	"kshare"
	"kshare/fault"
	"kshare/internal/spelling"
	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:  "share-writes",
		usage: "share-writes NAME GROUP [partition=PARTITION] [count=N] hold=yes|delay=DURATION|error=CODE [stage=after]",
		summary: "Has writes of a share group's state wait until they are released or for a time, or fail with the share coordinator's error, so many of them or all until unfault. What they " +
			"change is neither free nor done until they are answered. With stage=after they are stored at once, and it is their answers that wait or are the error.",
		example: `
topic orders
config group workers share.auto.offset.reset=earliest
produce orders-0 a
join workers m1 orders
join workers m2 orders
fetch workers m1
share-writes slow workers hold=yes
ack workers m1 orders-0 0=release &a
state workers orders-0
fetch workers m2 wait=0s
release slow
wait a
unfault slow
fetch workers m2
share-writes lost workers count=1 error=INVALID_REQUEST stage=after
ack workers m2 orders-0 0=accept
persisted workers orders-0
----
orders: 1 partition
workers: ok
orders-0: offset 0
m1: epoch 3, assigned orders-0
m2: epoch 4, assigned orders-0
orders-0: acquired 0 count 1, lock 30s
  0 a
slow: set
orders-0: start 0, end 1, 1 in flight
  0  AVAILABLE  count 1  (its write is unanswered)
persisted: start -1, state epoch 2
orders-0: nothing
slow: 1 goes on
orders-0: ok
slow: ended
orders-0: acquired 0 count 2, lock 30s
  0 a
lost: set
orders-0: UNKNOWN_SERVER_ERROR (-1): Error in write state RPC. Unable to write share group state: INVALID_REQUEST
orders-0: start 0, state epoch 2; 0 ACKNOWLEDGED count 2
`,
		optionNames: []string{"partition", "count", "hold", "delay", "error", "stage"},
		least:       2, most: 2, reach: inside,
		check: func(c *call) error { _, err := shareWrites(c); return err },
		run: func(s *step, c *call) error {
			name := c.words[0]
			w, err := shareWrites(c)
			if err != nil {
				return err
			}
			w.Group, w.Topic = s.wire(w.Group), s.wire(w.Topic)
			return s.faultWrites(name, func() (*kshare.WriteFault, error) { return s.target.cluster().FaultShareWrites(w) })
		},
	})
}

// faultWrites begins a fault of writes under a name.
func (s *step) faultWrites(name string, begin func() (*kshare.WriteFault, error)) error {
	if s.writeFaults[name] != nil {
		return mistakef("there is a fault %s already; unfault removes it", name)
	}
	f, err := begin()
	if err != nil {
		return mistakeFrom(err)
	}
	if s.writeFaults == nil {
		s.writeFaults = map[string]*kshare.WriteFault{}
	}
	s.writeFaults[name] = f
	s.printf("%s: set", name)
	return nil
}

func shareWrites(c *call) (w kshare.ShareWrites, err error) {
	w.Group = c.words[1]
	if err := partitionOption(c, &w.Topic, &w.Partition); err != nil {
		return w, err
	}
	f, err := faultyWrites(c)
	if err != nil {
		return w, err
	}
	w.Count, w.Hold, w.Delay, w.ErrorCode, w.Stage = f.count, f.hold, f.delay, f.code, f.stage
	if err := w.Check(); err != nil {
		return w, mistakeFrom(err)
	}
	return w, nil
}

// partitionOption reads the option partition, where there is one.
func partitionOption(c *call, topic *string, partition *int32) error {
	text, ok := c.options["partition"]
	if !ok {
		return nil
	}
	at, err := parsePartition(text)
	*topic, *partition = at.topic, at.partition
	return err
}

// faultyWriteOptions are the options that faults of writes have in common.
type faultyWriteOptions struct {
	count int
	hold  bool
	delay time.Duration
	code  int16
	stage fault.Stage
}

// faultyWrites reads them.
func faultyWrites(c *call) (f faultyWriteOptions, err error) {
	n, err := c.numberOption("count", 0, 0, 1<<31-1)
	if err != nil {
		return f, err
	}
	f.count, f.stage = int(n), fault.Stage(c.options["stage"])
	if f.hold, err = c.flag("hold"); err != nil {
		return f, err
	}
	if f.delay, err = c.durationOption("delay", 0); err != nil {
		return f, err
	}
	if e, ok := c.options["error"]; ok {
		if f.code, ok = errorcode.Code(e); !ok {
			return f, mistakef("error=%s: Kafka has no such error code%s", e, spelling.DidYouMean(e, errorcode.Names()))
		}
	}
	return f, nil
}
