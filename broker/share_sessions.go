package broker

import (
	"time"
	"unicode/utf16"

	"kshare/acl"
	"kshare/fault"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
	"kshare/sharesession"
)

// maxShareMemberID is the length of a member id, in UTF-16 units, that a share request may have at most: that of a UUID.
const maxShareMemberID = 36

// shareCaller is whose share session a request belongs to.
type shareCaller struct {
	request       *request
	group, member string
}

func (s *shareCaller) key() sharesession.Key {
	return sharesession.Key{Group: s.group, Member: s.member}
}

// newShareCaller checks who sends a share request.
func newShareCaller(r *request, group, member *string) (shareCaller, int16) {
	switch {
	case !r.cluster.shareEnabled():
		return shareCaller{}, errorcode.UnsupportedVersion
	case group == nil:
		return shareCaller{}, errorcode.InvalidRequest
	case !r.may(acl.Read, acl.Group, *group):
		return shareCaller{}, errorcode.GroupAuthorizationFailed
	case member == nil, *member == "", tooLongForMember(*member):
		return shareCaller{}, errorcode.InvalidRequest
	}
	return shareCaller{r, *group, *member}, errorcode.None
}

// tooLongForMember counts UTF-16 units, of which there are at most as many as bytes.
func tooLongForMember(id string) bool {
	return len(id) > maxShareMemberID && len(utf16.Encode([]rune(id))) > maxShareMemberID
}

// sessions are the share sessions of the node that the request came to.
func (s *shareCaller) sessions() *sharesession.Sessions {
	return s.request.cluster.share.sessions[s.request.node.id]
}

// lockTimeoutMs is the AcquisitionLockTimeoutMs of an answer without top-level error.
func (s *shareCaller) lockTimeoutMs() int32 {
	return int32(s.request.cluster.shareLimits(s.group).LockDuration.Milliseconds())
}

// shareAckResult is how the acknowledgements for one partition ended. It holds once settle was called.
type shareAckResult struct {
	code    int16
	message *string
	leader  *leaderHint // set where a change of leader explains the code
	// whole means that the answer as a whole fails with the code.
	whole bool
	// sound tells that the acknowledgements came as far as the state of the share partition: they make sense and the partition exists.
	sound bool
	// empty tells that there were none. The answer has the result all the same where others were sound.
	empty bool
	// answered tells that the answer has an entry with it.
	answered bool

	change shareChange       // what is to be settled
	counts AcknowledgeCounts // the records of the acknowledgements
}

// shareChange is a change of a share partition that is not persisted yet: its records are no longer the member's, and nobody else's before
// settle. The zero value is none.
type shareChange struct {
	sp    *sharePartition
	write sharepartition.Write
	guard *sharecoordinator.Guard // of the transaction that it stages records for
}

// settle persists the change and lets it take effect. It returns whether the start offset has moved, which makes room for new records, and why
// the change failed; or the write that it goes on with.
func (s shareChange) settle() (moved bool, no *refusal, open *shareWrite) {
	if s.sp == nil {
		return false, nil, nil
	}
	before := s.sp.state.StartOffset()
	no, open = s.sp.persist(s.write, s.guard)
	return s.sp.settled(before), no, open
}

// settled follows the answer to a write of the share partition's state, before which it began at an offset. It returns whether it begins later now.
//
// Apache Kafka serves the waiting fetches only if it does: those that could have what was released go on waiting.
func (sp *sharePartition) settled(before int64) (moved bool) {
	moved = sp.state.StartOffset() > before
	sp.arm()
	if moved || sp.partition.cluster.timing == TimingFast {
		sp.wake()
	}
	return moved
}

func ackFailed(code int16, message string) *shareAckResult {
	r := &shareAckResult{code: code}
	if message != "" {
		r.message = &message
	}
	return r
}

// acknowledge applies a member's acknowledgements for one partition. renew tells that renewals are allowed: version 2 with IsRenewAck.
func (s *shareCaller) acknowledge(at sharesession.Partition, acks []sharepartition.Acknowledgement, renew bool) *shareAckResult {
	c := s.request.cluster
	if !s.request.mayOnTopicID(acl.Read, at.TopicID) {
		return ackFailed(errorcode.TopicAuthorizationFailed, "")
	}
	p, code := c.sharePartitionNamed(at)
	if injected := s.injected(at); injected != errorcode.None {
		r := ackFailed(injected, "")
		if injected == errorcode.NotLeaderOrFollower {
			r.leader = p.hint()
		}
		return r
	}
	if code == errorcode.UnknownTopicID { // found before anything is read of the acknowledgements
		return ackFailed(code, "")
	}
	if no := sharepartition.CheckFormat(acks, renew); no != nil {
		return ackRefused(no)
	}
	if code != errorcode.None {
		return ackFailed(code, "")
	}
	r := s.acknowledgeAt(p, acks)
	r.sound = true
	return r
}

func (s *shareCaller) acknowledgeAt(p *partition, acks []sharepartition.Acknowledgement) *shareAckResult {
	sp := p.shareGroups[s.group]
	if sp == nil || p.leader != s.request.node.id { // a node that does not lead has none either, and names no leader
		return ackFailed(errorcode.UnknownTopicOrPartition, "This server does not host this topic-partition.")
	}
	c := s.request.cluster
	w, no := sp.state.Acknowledge(c.clock.Now(), s.member, acks, c.shareLimits(s.group))
	if no != nil {
		return ackRefused(no)
	}
	sp.tell(ActionAcknowledge, func(t *ShareChange) { t.Member, t.Acks = s.member, acks })
	return &shareAckResult{change: shareChange{sp: sp, write: w}, counts: countAcknowledged(acks)}
}

// acknowledgeNothing is the result for a partition that a request names without acknowledgements.
func (s *shareCaller) acknowledgeNothing(at sharesession.Partition) *shareAckResult {
	if !s.request.mayOnTopicID(acl.Read, at.TopicID) {
		return ackFailed(errorcode.TopicAuthorizationFailed, "")
	}
	_, code := s.request.cluster.sharePartitionNamed(at)
	return &shareAckResult{code: code, empty: code == errorcode.None}
}

// injected is the error that faults give the acknowledgements for a partition.
func (s *shareCaller) injected(at sharesession.Partition) int16 {
	if code := s.request.injectedByID(fault.Acknowledge, at.TopicID, at.Partition); code != errorcode.None {
		return code
	}
	return s.request.injectedByID(fault.Partition, at.TopicID, at.Partition)
}

// settle lets the acknowledgements take effect. It returns whether they have moved the start offset. What is still to be written when it returns is
// among the open writes.
func (r *shareAckResult) settle(writes *openWrites) (moved bool) {
	moved, failed, open := r.change.settle()
	if open != nil {
		writes.add(open, r.persisted)
		return moved
	}
	r.persisted(failed)
	return moved
}

// persisted counts the acknowledgements, or notes why they could not be persisted.
func (r *shareAckResult) persisted(no *refusal) {
	sp := r.change.sp
	if no != nil || sp == nil {
		r.refuse(no)
		return
	}
	sp.counters.Acknowledged.add(&r.counts)
	sp.partition.cluster.share.counters.acknowledged.add(&r.counts)
}

// refuse notes why the acknowledgements could not be persisted, if they could not.
func (r *shareAckResult) refuse(no *refusal) {
	if no == nil {
		return
	}
	r.code, r.message = no.code, &no.message
	if no.code == errorcode.NotLeaderOrFollower {
		r.leader = r.change.sp.partition.hint()
	}
}

func ackRefused(no *sharepartition.Refusal) *shareAckResult {
	r := ackFailed(no.ErrorCode, no.Message)
	r.whole = no.WholeAnswer
	return r
}

// sharePartitionNamed finds the partition that a share request means.
func (c *Cluster) sharePartitionNamed(at sharesession.Partition) (*partition, int16) {
	t := c.topicsByID[at.TopicID]
	if t == nil {
		return nil, errorcode.UnknownTopicID
	}
	p := t.partition(at.Partition)
	if p == nil {
		return nil, errorcode.UnknownTopicOrPartition
	}
	return p, errorcode.None
}

// releaseDelay is how long the records of a closed session are on their way back with timing=kafka. Apache Kafka persists their release
// without the answer waiting for it: a fetch that follows the answer at once finds none of them, and one a little later all.
const releaseDelay = 10 * time.Millisecond

// closeSession ends the member's session and releases what it holds of the session's partitions.
func (s *shareCaller) closeSession() {
	ended, ok := s.sessions().Close(s.key())
	if !ok {
		return
	}
	c := s.request.cluster
	for _, released := range c.releaseShare(s.request.node, &ended) {
		if c.timing == TimingFast {
			released.settle()
		} else {
			c.after(releaseDelay, func() { released.settle() })
		}
	}
}

// releaseShare takes from a member whose session has ended what it holds.
func (c *Cluster) releaseShare(n *node, ended *sharesession.Ended) []shareChange {
	limits := c.shareLimits(ended.Key.Group)
	var released []shareChange
	for _, at := range ended.Partitions {
		p, code := c.sharePartitionNamed(at)
		if code != errorcode.None || p.leader != n.id {
			continue
		}
		if sp := p.shareGroups[ended.Key.Group]; sp != nil {
			w := sp.state.ReleaseMember(ended.Key.Member, limits)
			if w.ID != 0 {
				sp.tell(ActionRelease, func(s *ShareChange) { s.Member = ended.Key.Member })
			}
			released = append(released, shareChange{sp: sp, write: w})
		}
	}
	return released
}

// shareConnectionClosed ends the share session that was made last over a connection. When no session of its group is left on the node, the node forgets the
// group's share partitions; their state is read again with the next fetch.
func (c *Cluster) shareConnectionClosed(conn *connection) {
	if c.share == nil || c.closed {
		return
	}
	ended, emptied := c.share.sessions[conn.node.id].Disconnect(conn.id)
	c.share.counters.evictedSessions += int64(len(ended))
	for i := range ended {
		for _, released := range c.releaseShare(conn.node, &ended[i]) {
			released.settle()
		}
	}
	for _, group := range emptied {
		c.forgetShareGroup(conn.node, group)
	}
}

// endShareSessions ends the share sessions of a node that stops in an orderly way. Apache Kafka closes its connections before it learns that others lead what it
// led, so that the release of what members hold over them is stored.
func (c *Cluster) endShareSessions(n *node) {
	for _, ended := range c.share.sessions[n.id].Clear() {
		for _, released := range c.releaseShare(n, &ended) {
			if sp := released.sp; sp != nil { // those that wait there are not served any more
				sp.persist(released.write, nil)
			}
		}
	}
}

// forgetShareGroup forgets the share partitions of a group that a node leads: at once, or once all acknowledgements are answered. What is
// read anew before that lacks acknowledgements that may still be answered well, over other connections, and their records would be delivered again.
func (c *Cluster) forgetShareGroup(n *node, group string) {
	for _, t := range c.sortedTopics() {
		for _, p := range t.partitions {
			sp := p.shareGroups[group]
			switch {
			case sp == nil || p.leader != n.id:
			case sp.hasOpenAcknowledgements():
				sp.unused = true
			default:
				sp.forget()
			}
		}
	}
}
