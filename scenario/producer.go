package scenario

// producer is an idempotent or transactional producer as its client knows it.
type producer struct {
	name            string
	transactionalID *string
	id              int64
	epoch           int16
	next            map[topicPartition]int32 // sequences
}
