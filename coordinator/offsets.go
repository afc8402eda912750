package coordinator

import "time"

// offsets are the committed offsets of all groups.
type offsets struct{}

func newOffsets() *offsets { return &offsets{} }

func (o *offsets) unload(func(group string) bool) {}

func (g *Groups) deleteTopicOffsets(t Topic, e *Effects)                 {}
func (g *Groups) replayOffset(producerID int64, key, value []byte) error { return nil }
func (g *Groups) replayClassic(key, value []byte) error                  { return nil }
func (g *Groups) scheduleRetention(now time.Time)                        {}
