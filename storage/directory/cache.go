package directory

// cache bounds the memory of the newest batches of all logs. What came first goes first.
type cache struct {
	budget, bytes int64
	order         []*segmentLog // one entry a run of batches, oldest first; some may be gone already
}

// remember keeps a batch that was appended in memory.
func (s *store) remember(l *segmentLog, batch []byte) {
	c := &s.cache
	if l.recent.Append(batch) {
		c.order = append(c.order, l)
	}
	c.bytes += int64(len(batch))
	for c.bytes > c.budget && len(c.order) > 0 {
		c.bytes -= c.order[0].recent.DropOldestRun()
		c.order[0] = nil
		c.order = c.order[1:]
	}
}

// forget runs drop, which removes batches of a log from memory.
func (s *store) forget(l *segmentLog, drop func()) {
	before := l.recent.Size()
	drop()
	s.cache.bytes -= before - l.recent.Size()
}
