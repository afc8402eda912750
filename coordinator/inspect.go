package coordinator

// GroupState is a group as its coordinator knows it, for people and tests to look at.
type GroupState struct {
	ID      string
	Type    string        // classic, consumer or share
	State   string        // as ListGroups names it: Stable, Empty and so on
	Members []MemberState // in the order of their ids
}

// MemberState is a member of a group.
type MemberState struct {
	ID         string
	InstanceID *string // nil where the member is not static
	ClientID   string
	ClientHost string
	Epoch      int32 // the generation of the group for a member of a classic one
}

// GroupCount names what groups are counted by: their type and state, as in GroupState.
type GroupCount struct{ Type, State string }

// Count returns how many groups there are of each type and state.
func (g *Groups) Count() map[GroupCount]int {
	n := map[GroupCount]int{}
	for _, gr := range g.groups {
		n[GroupCount{string(gr.kind()), gr.state()}]++
	}
	return n
}

// ShareRebalances is how many heartbeats have begun a new epoch of a share group (GroupCoordinatorMetrics' share-group-rebalance-count).
func (g *Groups) ShareRebalances() int64 { return g.shareRebalances }

// Inspect returns all groups in the order of their ids.
func (g *Groups) Inspect() []GroupState {
	all := make([]GroupState, 0, len(g.groups))
	for _, gr := range g.sorted() {
		s := GroupState{ID: gr.id(), Type: string(gr.kind()), State: gr.state()}
		switch gr := gr.(type) {
		case *classicGroup:
			for _, id := range sortedKeys(gr.members) {
				m := gr.members[id]
				s.Members = append(s.Members, MemberState{m.id, m.instance, m.clientID, m.clientHost, gr.generation})
			}
		case *consumerGroup:
			for _, id := range sortedKeys(gr.members) {
				m := gr.members[id]
				s.Members = append(s.Members, MemberState{m.id, m.instance, m.clientID, m.clientHost, m.epoch})
			}
		case *shareGroup:
			for _, id := range sortedKeys(gr.members) {
				m := gr.members[id]
				s.Members = append(s.Members, MemberState{m.id, nil, m.clientID, m.clientHost, m.epoch})
			}
		}
		all = append(all, s)
	}
	return all
}
