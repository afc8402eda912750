package check

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"kshare/sharepartition"
)

// Limits bound an exploration beyond the model.
type Limits struct {
	Memory  int64 // bytes for the states that were seen, about; 0 for 1 GiB
	Workers int   // goroutines, 0 for one each core
	// All goes on behind a property that does not hold, as far as the model goes, until each of them has a trace.
	All bool
	// Progress is called after each level of the search and about every second, nil for nobody.
	Progress func(Progress)
}

// Progress is how far an exploration has come.
type Progress struct {
	Depth     int   // the length of the traces that are made at present
	States    int64 // that are different
	Steps     int64 // that were taken
	Frontier  int64 // states whose steps are still to be taken, in this level
	Took      time.Duration
	PerSecond int64 // steps
}

// Result is what came of an exploration.
type Result struct {
	Progress
	Model Model
	// Broken are the properties that do not hold in a state that was seen, the first that was found first, each once.
	Broken []Broken
	// Whole tells that there is no other state, whatever the depth; Exhausted that all traces up to the model's depth were seen. Where neither is so
	// Why says what ended the search.
	Whole, Exhausted bool
	Why              string
	Bytes            int64 // of memory for the states
}

// node is a state that was seen, by how it was reached first.
type node struct{ parent, action uint32 }

// search is an exploration under way.
type search struct {
	root  *world
	nodes []node // in the order in which they were found: levels follow each other
	seen  table
}

// found is a step to a state that was not seen before its level.
type found struct {
	fingerprint uint64
	node        node
	broken      *Broken
}

// block is how many states a worker takes at a time.
const block = 2048

// Explore looks at all states of a model, breadth first, until a property does not hold or the bound is reached. An error says what is wrong with the model.
func Explore(ctx context.Context, m *Model, l Limits) (*Result, error) {
	root, err := newWorld(m)
	if err != nil {
		return nil, err
	}
	if l.Memory == 0 {
		l.Memory = 1 << 30
	}
	if l.Workers == 0 {
		l.Workers = runtime.GOMAXPROCS(0)
	}
	s := &search{root: root, nodes: []node{{}}}
	f := newFingerprinter(m)
	s.seen.add(f.fingerprint(root, nil))
	workers := make([]*worker, l.Workers)
	for i := range workers {
		workers[i] = &worker{search: s, fingerprinter: newFingerprinter(m)}
	}
	r := &Result{Model: *m}
	began := time.Now()
	last := began
	report := func(depth int, left int) {
		r.Progress = Progress{Depth: depth, States: int64(len(s.nodes)), Frontier: int64(left), Took: time.Since(began), Steps: r.Steps}
		r.PerSecond = int64(float64(r.Steps) / max(r.Took.Seconds(), 1e-9))
		if last = time.Now(); l.Progress != nil {
			l.Progress(r.Progress)
		}
	}
	from, depth := 0, 0
	for ; from < len(s.nodes); depth++ {
		to := len(s.nodes)
		if depth == m.Depth && m.Depth > 0 || depth == maxDepth {
			break
		}
		for from < to {
			out := make([][]found, len(workers)*4)
			r.Steps += s.expand(workers, out, from, to)
			from = min(to, from+len(out)*block)
			for _, list := range out {
				for _, x := range list {
					if x.broken != nil && !slices.ContainsFunc(r.Broken, func(b Broken) bool { return b.Property == x.broken.Property }) {
						x.broken.Trace = s.trace(x.node)
						r.Broken = append(r.Broken, *x.broken)
						if !l.All {
							report(depth+1, to-from)
							return r, nil
						}
					}
					if s.seen.add(x.fingerprint) {
						s.nodes = append(s.nodes, x.node)
					}
				}
			}
			if r.Bytes = s.bytes(); r.Bytes > l.Memory {
				r.Why = "the memory bound is reached"
			}
			if err := ctx.Err(); err != nil {
				r.Why = "it was ended"
			}
			if len(s.nodes) >= 1<<32-1 {
				r.Why = "there are 2^32 states"
			}
			if r.Why != "" {
				report(depth+1, to-from)
				return r, nil
			}
			if time.Since(last) > time.Second {
				report(depth+1, to-from)
			}
		}
		report(depth+1, 0)
	}
	r.Whole = from == len(s.nodes)
	r.Exhausted = r.Whole || depth == m.Depth
	if !r.Exhausted {
		r.Why = "traces may not be longer"
	}
	report(depth, 0)
	return r, nil
}

// bytes is what the states take, with what growing takes for a moment.
func (s *search) bytes() int64 { return int64(cap(s.nodes))*8 + int64(len(s.seen.slots))*8*3/2 }

// expand takes the steps of the states from from on, as far as there is room for blocks of them.
func (s *search) expand(workers []*worker, out [][]found, from, to int) (steps int64) {
	var wait sync.WaitGroup
	for i, w := range workers {
		wait.Go(func() {
			for b := i; b < len(out); b += len(workers) {
				if first := from + b*block; first < to {
					out[b] = w.block(first, min(first+block, to))
				}
			}
		})
	}
	wait.Wait()
	for _, w := range workers {
		steps += w.steps
		w.steps = 0
	}
	return steps
}

// worker takes steps. It remembers the states on the way to the last one that it came to: the next one's way has most of them in common.
type worker struct {
	search        *search
	fingerprinter *fingerprinter
	path          []visit // from the root on
	way           []uint32
	runs          []sharepartition.Run
	next          []sharepartition.Run
	actions       []action
	steps         int64
}

// visit is a state on the way, by its place among the nodes.
type visit struct {
	at    uint32
	world *world
}

// come is the state of a node.
func (k *worker) come(at uint32) *world {
	k.way = k.way[:0]
	for n := at; n != 0; n = k.search.nodes[n].parent {
		k.way = append(k.way, n)
	}
	slices.Reverse(k.way)
	if len(k.path) == 0 {
		k.path = append(k.path, visit{0, k.search.root})
	}
	common := 0
	for common < len(k.way) && common+1 < len(k.path) && k.path[common+1].at == k.way[common] {
		common++
	}
	k.path = k.path[:common+1]
	w := k.path[common].world
	for i := common; i < len(k.way); i++ {
		w = w.child()
		w.do(actionOf(k.search.nodes[k.way[i]].action), i+1)
		w.kept = w.persisted()
		k.path = append(k.path, visit{k.way[i], w})
	}
	return w
}

func (k *worker) block(from, to int) (list []found) {
	for at := from; at < to; at++ {
		w := k.come(uint32(at))
		k.runs = w.describe(k.runs[:0])
		k.actions = w.actions(k.actions[:0], k.runs)
		for _, a := range k.actions {
			c := w.child()
			c.do(a, len(k.way)+1)
			c.kept = c.persisted()
			k.next = c.describe(k.next[:0])
			c.look(w, k.next)
			k.steps++
			x := found{k.fingerprinter.fingerprint(c, k.next), node{uint32(at), a.word()}, c.broken}
			if x.broken == nil && k.search.seen.has(x.fingerprint) {
				continue
			}
			list = append(list, x)
		}
	}
	return list
}

func (w *world) describe(dst []sharepartition.Run) []sharepartition.Run {
	if w.part == nil {
		return dst
	}
	return w.part.Describe(dst, w.now)
}

// trace is the way to a node.
func (s *search) trace(last node) *Trace {
	t := &Trace{model: &s.root.model, actions: []action{actionOf(last.action)}}
	for n := last.parent; n != 0; n = s.nodes[n].parent {
		t.actions = append(t.actions, actionOf(s.nodes[n].action))
	}
	slices.Reverse(t.actions)
	return t
}

// table is a set of fingerprints: a hash table with open addressing, at most two thirds full.
type table struct {
	slots []uint64
	n     int
}

func (t *table) has(x uint64) bool {
	if len(t.slots) == 0 {
		return false
	}
	for i := x & uint64(len(t.slots)-1); t.slots[i] != 0; i = (i + 1) & uint64(len(t.slots)-1) {
		if t.slots[i] == x {
			return true
		}
	}
	return false
}

// add tells whether it was not there.
func (t *table) add(x uint64) bool {
	if 3*(t.n+1) > 2*len(t.slots) {
		old := t.slots
		t.slots, t.n = make([]uint64, max(1024, 2*len(old))), 0
		for _, y := range old {
			if y != 0 {
				t.add(y)
			}
		}
	}
	i := x & uint64(len(t.slots)-1)
	for ; t.slots[i] != 0; i = (i + 1) & uint64(len(t.slots)-1) {
		if t.slots[i] == x {
			return false
		}
	}
	t.slots[i] = x
	t.n++
	return true
}
