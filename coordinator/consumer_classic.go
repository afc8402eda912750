package coordinator

import (
	"time"

	"kshare/protocol/errorcode"
)

func (g *Groups) upgraded(now time.Time, classic *classicGroup, e *Effects) (*consumerGroup, *failure) {
	return nil, &failure{code: errorcode.GroupIDNotFound}
}

type classicProtocol struct{ sessionTimeoutMs int32 }

func (p *classicProtocol) equal(o *classicProtocol) bool { return true }
func (p *classicProtocol) append() []byte               { return nil }
func readClassicProtocol(r *recordReader) *classicProtocol { return nil }
func (cg *consumerGroup) downgrades(ids []string) bool { return false }
func (cg *consumerGroup) downgrade(now time.Time, ids []string, e *Effects) {}
func mixedJoinTimer(member string) string { return "join " + member }
func mixedSyncTimer(member string) string { return "sync " + member }
