package broker

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// ApiVersions (18), v0 to v5.
//
// Behaviour:
//   - A version that is not known is answered as v0 with UNSUPPORTED_VERSION and the versions of this API alone; its body is not read (KIP-511).
//   - v3+: the client's name and version must match a pattern, else INVALID_REQUEST.
//   - v5: cluster id and node id come together or not at all; those of another cluster or node are answered with
//     REBOOTSTRAP_REQUIRED (KIP-1242).
//   - Features whose lowest level is 0 are left out below v4 (KAFKA-17492). Level 0 is not listed as finalised.

const apiVersionsKey = 18

func init() { handlers[apiVersionsKey] = &handler{handle: handleApiVersions} }

var clientSoftwarePattern = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func handleApiVersions(r *request) (answer, error) {
	api := r.api
	if !r.cluster.offers(api, r.header.Version) {
		return r.cluster.unsupportedApiVersions(api), nil
	}
	q, err := decode[*kmsg.ApiVersionsRequest](r)
	if err != nil {
		return nil, err
	}
	p := response[*kmsg.ApiVersionsResponse](q)
	if p.ErrorCode = r.cluster.checkApiVersions(r, q); p.ErrorCode != errorcode.None {
		return p, nil
	}
	if a := r.conn.auth; a != nil && a.state == authBegins {
		a.state = authVersioned // another one is out of turn
	}
	p.ApiKeys = make([]kmsg.ApiVersionsResponseApiKey, 0, len(protocol.APIs))
	for i := range protocol.APIs {
		if a := &protocol.APIs[i]; handlers[a.Key] != nil && r.cluster.offers(a, a.MinVersion) {
			p.ApiKeys = append(p.ApiKeys, r.cluster.offeredKey(a))
		}
	}
	if a := r.cluster.apis.TxnShareAcknowledge(); a != nil && r.cluster.takesTransactionalAcks() {
		p.ApiKeys = slices.DeleteFunc(p.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == a.Key })
		p.ApiKeys = append(p.ApiKeys, r.cluster.offeredKey(a))
	}
	if q.Version >= 3 {
		r.cluster.addFeatures(p)
	}
	return p, nil
}

// unsupportedApiVersions says which versions of the API there are.
func (c *Cluster) unsupportedApiVersions(api *protocol.API) *kmsg.ApiVersionsResponse {
	return &kmsg.ApiVersionsResponse{ErrorCode: errorcode.UnsupportedVersion, ApiKeys: []kmsg.ApiVersionsResponseApiKey{c.offeredKey(api)}}
}

func (c *Cluster) checkApiVersions(r *request, q *kmsg.ApiVersionsRequest) int16 {
	if q.Version >= 3 && (!clientSoftwarePattern.MatchString(q.ClientSoftwareName) || !clientSoftwarePattern.MatchString(q.ClientSoftwareVersion)) {
		return errorcode.InvalidRequest
	}
	if q.Version < 5 {
		return errorcode.None
	}
	if (q.ClusterID == nil) != (q.NodeID == -1) {
		return errorcode.InvalidRequest
	}
	if q.ClusterID != nil && (*q.ClusterID != c.id || q.NodeID != r.node.id) {
		return errorcode.RebootstrapRequired
	}
	return errorcode.None
}

func (c *Cluster) addFeatures(p *kmsg.ApiVersionsResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.FinalizedFeaturesEpoch = c.features.Epoch
	for _, f := range c.supportedFeatures() {
		if f.min > 0 || p.Version >= 4 {
			s := kmsg.NewApiVersionsResponseSupportedFeature()
			s.Name, s.MinVersion, s.MaxVersion = f.name, f.min, f.max
			p.SupportedFeatures = append(p.SupportedFeatures, s)
		}
	}
	for _, name := range finalizedOrder {
		if level := c.features.Levels[name]; level > 0 {
			s := kmsg.NewApiVersionsResponseFinalizedFeature()
			s.Name, s.MinVersionLevel, s.MaxVersionLevel = name, level, level
			p.FinalizedFeatures = append(p.FinalizedFeatures, s)
		}
	}
}

// offers tells whether the nodes have a version of an API.
func (c *Cluster) offers(a *protocol.API, version int16) bool {
	return a.MinVersion <= version && version <= c.highest(a)
}

// highest is the highest version of an API that the nodes offer, -1 where their line of Kafka does not have it. No line has TxnShareAcknowledge, whatever it has
// under its key.
func (c *Cluster) highest(a *protocol.API) int16 {
	switch {
	case a == c.apis.TxnShareAcknowledge():
		return a.MaxVersion
	case c.unstableVersions && a.Unstable != 0:
		return a.Unstable
	}
	return c.traits.Highest(a.Key, a.MaxVersion)
}

func (c *Cluster) offeredKey(a *protocol.API) kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = a.Key, a.MinVersion, c.highest(a)
	return k
}

// handlers are the APIs that this broker offers, by key. Each API's file adds its own.
var handlers = map[int16]*handler{}

// notOffered answers an API that Kafka has and this broker lacks: with UNSUPPORTED_VERSION and the API's name where the
// answer has room for them, else by closing the connection.
var notOffered = &handler{handle: func(r *request) (answer, error) {
	reason := fmt.Errorf("%s (api key %d) is an API of Kafka 4.4 that this broker does not offer", r.api.Name, r.api.Key)
	r.cluster.log.Warn("request for an API that is not offered", "api", r.api.Name, "key", r.api.Key, "client", r.header.ClientID)
	q := r.api.NewRequest(r.header.Version)
	if q == nil {
		return nil, reason
	}
	if err := r.read(q); err != nil {
		return nil, err
	}
	p := q.ResponseKind()
	if r.api.NeedsPlugin || !refuse(p, errorcode.UnsupportedVersion, reason.Error()) {
		return nil, reason
	}
	return p, nil
}}
