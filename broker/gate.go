package broker

import "sync/atomic"

// gate is what a node's connections pass before they are read from and written to. While it is shut they stand still, as if the network were cut.
// The zero value is open.
type gate struct{ shut atomic.Pointer[chan struct{}] }

// close shuts the gate, which is open.
func (g *gate) close() {
	opened := make(chan struct{})
	g.shut.Store(&opened)
}

// open lets everybody pass.
func (g *gate) open() {
	if opened := g.shut.Swap(nil); opened != nil {
		close(*opened)
	}
}

// pass waits while the gate is shut, until gone is closed at most.
func (g *gate) pass(gone <-chan struct{}) {
	for opened := g.shut.Load(); opened != nil; opened = g.shut.Load() {
		select {
		case <-*opened:
		case <-gone:
			return
		}
	}
}

// isShut tells whether the gate is shut.
func (g *gate) isShut() bool { return g.shut.Load() != nil }
