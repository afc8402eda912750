// Package check explores what the pure core of KIP-1289 can come to: every order of what members, producers and coordinators do, and of what
// goes wrong around them, up to a bound, breadth first. Properties are looked at in each state; the first that does not hold is shown by a shortest trace, as a scenario.
//
// What is explored are the machines themselves: sharepartition.Partition, sharecoordinator.Coordinator and txn.Coordinator, copied from state to state.
// Between them stands what package broker does with their answers, in shell.go, and what honest clients know, in world.go.
package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"kshare/internal/spelling"
	"kshare/kip1289"
)

// Faults are what may go wrong, or not be there, between any two steps.
const (
	Expire      = "expire"      // the next lock ends
	Renew       = "renew"       // members renew locks
	Slow        = "slow"        // the share coordinator gets a write late, or its answer comes late, or is an error
	Markers     = "markers"     // a marker comes late to the share coordinator, or its answer does
	Move        = "move"        // the records' partition gets another leader
	Crash       = "crash"       // the cluster crashes and comes back
	Coordinator = "coordinator" // a transactional id gets another coordinator
	Takeover    = "takeover"    // another instance takes a transactional id over
	Disconnect  = "disconnect"  // a member's connections break
	EndSession  = "end-session" // a member ends its share session
	Leave       = "leave"       // a member is out of the group while it still holds records
	LogStart    = "log-start"   // the oldest record is deleted
	Late        = "late"        // members stage what they had, after it was taken from them
)

// Faults lists all of them.
var Faults = []string{Expire, Renew, Slow, Markers, Move, Crash, Coordinator, Takeover, Disconnect, EndSession, Leave, LogStart, Late}

// Model is what is explored, and how far.
type Model struct {
	Records, Members, Producers int // 1 to 6, 1 to 3, 1 to 3
	Limit                       int // share.delivery.count.limit, 2 to 5
	Faults                      []string
	MostFaults                  int  // in one trace, 0 for any number; see world.counts
	CountAll                    bool // locks that end, renewals and late clients count as faults too
	InOrder                     bool // members settle what they hold in the order of its offsets
	Writes, Held                int  // state writes and markers that may be on their way at a time, 0 to 3
	EndTxn                      int  // the version of EndTxn that producers speak: 5, or 4 with which they keep their epoch
	Depth                       int  // the length of the longest trace, 0 for the whole state space
	Switches                    kip1289.Switches
}

// Default is a model with every fault, of which two may be in one trace, and the defaults of all switches. Its whole state space is about a million states.
func Default() Model {
	return Model{Records: 2, Members: 2, Producers: 1, Limit: 2, Faults: slices.Clone(Faults), MostFaults: 2, Writes: 1, Held: 1, EndTxn: 5}
}

// Bounds that state.go has room for.
const (
	maxRecords, maxMembers, maxProducers = 6, 3, 3
	maxOnTheirWay                        = 3
)

// Check tells why the model cannot be explored.
func (m *Model) Check() error {
	for _, n := range []struct {
		name        string
		n, from, to int
	}{
		{"records", m.Records, 1, maxRecords}, {"members", m.Members, 1, maxMembers}, {"producers", m.Producers, 1, maxProducers}, {"delivery limit", m.Limit, 2, 5},
		{"state writes on their way", m.Writes, 0, maxOnTheirWay}, {"markers on their way", m.Held, 0, maxOnTheirWay}, {"depth", m.Depth, 0, maxDepth}, {"version of EndTxn", m.EndTxn, 4, 5},
		{"faults in a trace", m.MostFaults, 0, maxDepth},
	} {
		if n.n < n.from || n.n > n.to {
			return fmt.Errorf("%s %d: from %d to %d", n.name, n.n, n.from, n.to)
		}
	}
	if _, err := FaultsNamed(m.Faults, nil); err != nil {
		return err
	}
	if m.Switches.Is(kip1289.AbortState, "acquired") || m.Switches.Is(kip1289.Route, "coordinators") {
		return errors.New("abort.state=acquired and txn.share.ack.route=coordinators are not modelled")
	}
	return nil
}

func (m *Model) has(fault string) bool { return slices.Contains(m.Faults, fault) }

// FaultsNamed are all faults where names is empty or "all", or those named, none with "none"; those in without are left out. An error names what is no fault.
func FaultsNamed(names, without []string) ([]string, error) {
	switch {
	case len(names) == 0 || slices.Equal(names, []string{"all"}):
		names = Faults
	case slices.Equal(names, []string{"none"}):
		names = nil
	}
	for _, f := range slices.Concat(names, without) {
		if !slices.Contains(Faults, f) {
			return nil, fmt.Errorf("there is no fault %q%s: there are %s", f, spelling.DidYouMean(f, Faults), strings.Join(Faults, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(f string) bool { return slices.Contains(without, f) }), nil
}
