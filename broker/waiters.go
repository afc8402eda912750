package broker

import "slices"

// waiters is a list of parked requests in the order of their arrival.
type waiters[T comparable] struct{ list []T }

func (w *waiters[T]) add(t T) { w.list = append(w.list, t) }

func (w *waiters[T]) remove(t T) {
	if i := slices.Index(w.list, t); i >= 0 {
		w.list = slices.Delete(w.list, i, i+1)
	}
}

// each calls f for every waiter; f may remove any of them.
func (w *waiters[T]) each(f func(T)) {
	if len(w.list) == 0 {
		return
	}
	for _, t := range slices.Clone(w.list) {
		f(t)
	}
}
