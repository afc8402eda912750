//go:build !invariants

package txn

// checkTransition is follows in builds with the tag invariants.
func checkTransition(string, *Transaction, *Transaction) {}
