package scenario

import "kshare"

func init() {
	register(&command{
		name:  "marker-writes",
		usage: "marker-writes NAME TRANSACTIONAL-ID [topic=TOPIC|partition=PARTITION] [count=N] hold=yes|delay=DURATION|error=CODE [stage=after]",
		summary: "Has the markers that end transactions of a transactional id wait until they are released or for a time, or fail with the partition's error, so many of them or all until " +
			"unfault; topic or partition is what the marker is for, also __share_group_state. The transaction is in PrepareCommit or PrepareAbort until all are written. With stage=after they are written at once, and " +
			"it is the partition's answers that wait or are the error.",
		example: `
topic orders
init-producer p1 txn=payments
produce orders-0 a producer=p1 txn=yes
marker-writes slow payments hold=yes
txn-end p1 commit once=yes
txn-describe payments
read orders-0 isolation=read_committed
release slow
txn-describe payments
read orders-0 isolation=read_committed
----
orders: 1 partition
p1: producer <p1>, epoch 0
orders-0: offset 0
slow: set
p1: committed, producer <p1>, epoch 1
payments: PrepareCommit, producer <p1>, epoch 1, timeout 1m, partitions orders-0
after 500ms: orders-0: to 1, stable to 0
slow: 1 goes on
payments: CompleteCommit, producer <p1>, epoch 1, timeout 1m
orders-0: to 2
  0 a | 1 (commit)
`,
		optionNames: []string{"topic", "partition", "count", "hold", "delay", "error", "stage"},
		least:       2, most: 2, reach: inside,
		check: func(c *call) error { _, err := markerWrites(c); return err },
		run: func(s *step, c *call) error {
			w, err := markerWrites(c)
			if err != nil {
				return err
			}
			w.TransactionalID, w.Topic = s.wire(w.TransactionalID), s.wire(w.Topic)
			return s.faultWrites(c.words[0], func() (*kshare.WriteFault, error) { return s.target.cluster().FaultMarkers(w) })
		},
	})
}

func markerWrites(c *call) (w kshare.MarkerWrites, err error) {
	w.TransactionalID = c.words[1]
	if topic, ok := c.options["topic"]; ok {
		w.Topic, w.Partition = topic, -1
	}
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
