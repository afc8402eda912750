package coordinator

// replayConsumer takes in a record of a consumer group: key versions 3 to 8 and 16.
func (g *Groups) replayConsumer(version int16, key, value []byte) error { return nil }
