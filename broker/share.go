package broker

// share is what the nodes know of share groups beyond their membership.
type share struct{ cluster *Cluster }

type sharePartition struct{}

func newShare(c *Cluster) *share { return &share{cluster: c} }

func (s *share) load() error { return nil }

func (s *share) topicDeleted(*topic) {}

func (c *Cluster) shareConnectionClosed(*connection) {}

func (p *partition) wakeShareFetches() {}
