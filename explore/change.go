package explore

// Change is something that differs between a view and the next one.
type Change struct {
	// Kind is record, share-partition, group, member, session, transaction, marker, state-log, dead-letter, topic, partition, node or fault.
	Kind string `json:"kind"`
	// Text says it in words, like "orders-0 of workers: 0-4 AVAILABLE -> ACQUIRED by m1 (delivery 1, lock ends 00:00:30)".
	Text string `json:"text"`

	// What follows is set as far as it has a meaning for the kind.

	Group     string `json:"group,omitempty"`
	Member    string `json:"member,omitempty"`
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`      // where Topic is set
	First     int64  `json:"first"`          // of kind record
	Last      int64  `json:"last"`           // inclusive
	From      string `json:"from,omitempty"` // a state, "" where there was none
	To        string `json:"to,omitempty"`   // a state, "" where there is none any more
}
