package coordinator

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupMetadataVersion is the version that GroupMetadata values are written in, the last that is not flexible.
// Values of versions 0 to 4 are read.
const groupMetadataVersion, maxGroupMetadataVersion int16 = 3, 4

var errVersion = errors.New("the value's version is not known")

func appendGroupMetadataKey(group string) []byte {
	key := kmsg.GroupMetadataKey{Version: keyGroupMetadata, Group: group}
	return key.AppendTo(nil)
}

// storeNew records that the group exists, without what its first member just did: that a restart may lose.
func (cg *classicGroup) storeNew(e *Effects) {
	value := kmsg.NewGroupMetadataValue()
	value.Version, value.CurrentStateTimestamp = groupMetadataVersion, cg.changedMs
	e.record(cg.name, appendGroupMetadataKey(cg.name), value.AppendTo(nil))
}

// store records the group as it is.
func (cg *classicGroup) store(e *Effects) {
	value := kmsg.NewGroupMetadataValue()
	value.Version, value.ProtocolType, value.Generation = groupMetadataVersion, cg.protocols, cg.generation
	value.CurrentStateTimestamp = cg.changedMs
	if cg.protocol != "" {
		value.Protocol = &cg.protocol
	}
	if cg.leader != "" {
		value.Leader = &cg.leader
	}
	for _, m := range cg.ordered() {
		x := kmsg.NewGroupMetadataValueMember()
		x.MemberID, x.InstanceID, x.ClientID, x.ClientHost = m.id, m.instance, m.clientID, m.clientHost
		x.RebalanceTimeoutMillis = int32(m.rebalanceTimeout.Milliseconds())
		x.SessionTimeoutMillis = int32(m.sessionTimeout.Milliseconds())
		x.Subscription, _ = m.metadata(cg.protocol)
		x.Assignment = m.assignment
		value.Members = append(value.Members, x)
	}
	e.record(cg.name, appendGroupMetadataKey(cg.name), value.AppendTo(nil))
}

// replayClassic takes in a GroupMetadata record.
func (g *Groups) replayClassic(key, value []byte) error {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if value == nil {
		g.forget(k.Group)
		return nil
	}
	var v kmsg.GroupMetadataValue
	if err := checkVersion(value, maxGroupMetadataVersion); err != nil {
		return fmt.Errorf("group %q: %w", k.Group, err)
	}
	if err := v.ReadFrom(value); err != nil {
		return fmt.Errorf("group %q: %w", k.Group, err)
	}
	g.forget(k.Group)
	cg := g.newClassicGroup(k.Group)
	cg.generation, cg.changedMs = v.Generation, v.CurrentStateTimestamp
	if v.Protocol != nil {
		cg.protocol = *v.Protocol
	}
	for _, x := range v.Members {
		m := &classicMember{
			id: x.MemberID, clientID: x.ClientID, clientHost: x.ClientHost, instance: x.InstanceID,
			sessionTimeout: millis(x.SessionTimeoutMillis), rebalanceTimeout: millis(x.RebalanceTimeoutMillis),
			protocols:  []kmsg.JoinGroupRequestProtocol{{Name: cg.protocol, Metadata: bytes.Clone(x.Subscription)}},
			assignment: bytes.Clone(x.Assignment),
		}
		if x.RebalanceTimeoutMillis < 0 {
			m.rebalanceTimeout = m.sessionTimeout
		}
		cg.add(m, v.ProtocolType)
	}
	cg.protocols = v.ProtocolType
	if v.Leader != nil && cg.members[*v.Leader] != nil {
		cg.leader = *v.Leader
	}
	if len(cg.members) > 0 {
		cg.current = classicStable
	}
	cg.computeSubscribed()
	return nil
}

// checkVersion checks the version that a record's value begins with.
func checkVersion(value []byte, highest int16) error {
	if len(value) < 2 {
		return fmt.Errorf("%w: it has %d bytes", errVersion, len(value))
	}
	if v := int16(value[0])<<8 | int16(value[1]); v < 0 || v > highest {
		return fmt.Errorf("%w: %d, the highest known is %d", errVersion, v, highest)
	}
	return nil
}

// loaded begins the sessions of the members that were stored, and a rebalance if they are too many by now.
func (cg *classicGroup) loaded(now time.Time, e *Effects) {
	for _, m := range cg.ordered() {
		cg.beat(now, m)
	}
	if len(cg.members) > cg.g.config.GroupMaxSize {
		cg.prepare(now, e)
	}
}
