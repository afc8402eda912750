package conformance

// bounded is a map that forgets what was put into it first when it has too much.
type bounded[K comparable, V any] struct {
	m     map[K]V
	order []K
	max   int
}

func newBounded[K comparable, V any](most int) bounded[K, V] {
	return bounded[K, V]{m: map[K]V{}, max: most}
}

func (b *bounded[K, V]) get(k K) (V, bool) {
	v, ok := b.m[k]
	return v, ok
}

// put puts a value, and tells what was forgotten for it.
func (b *bounded[K, V]) put(k K, v V) (key K, old V, evicted bool) {
	if _, there := b.m[k]; !there {
		if len(b.order) > 2*b.max {
			b.compact()
		}
		for len(b.m) >= b.max {
			key = b.order[0]
			b.order = b.order[1:]
			if old, evicted = b.m[key]; evicted {
				delete(b.m, key)
			}
		}
		b.order = append(b.order, k)
	}
	b.m[k] = v
	return key, old, evicted
}

// drop forgets a key.
func (b *bounded[K, V]) drop(k K) { delete(b.m, k) }

// compact leaves out of the order what is not there any more.
func (b *bounded[K, V]) compact() {
	seen := map[K]bool{}
	kept := b.order[:0:0]
	for _, k := range b.order {
		if _, there := b.m[k]; there && !seen[k] {
			seen[k] = true
			kept = append(kept, k)
		}
	}
	b.order = kept
}

// each calls f for all that is there, in the order in which it was put.
func (b *bounded[K, V]) each(f func(K, V)) {
	b.compact()
	for _, k := range b.order {
		f(k, b.m[k])
	}
}
