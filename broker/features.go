package broker

import (
	"fmt"
	"slices"
	"strings"

	"kshare/release"
)

// feature is a feature of Kafka with the levels that a broker supports, both inclusive, and the one that a new cluster finalises.
type feature struct {
	name          string
	min, max, def int16
}

// supportedFeatures are the features of a broker (server-common/.../server/common/Feature.java; ApiVersions of running ones).
func supportedFeatures(r *release.Traits, transactionalAcks bool) []feature {
	share := r.ShareVersion
	if transactionalAcks {
		share = transactionalAckShareVersion
	}
	return []feature{
		{"group.version", 0, 1, 1},
		{"kraft.version", 0, 1, 0},
		{"metadata.version", 7, r.MetadataVersion, r.MetadataVersion},
		{"share.version", 0, share, share},
		{"streams.version", 0, 1, 1},
		{"transaction.version", 0, 2, 2},
		{elrFeature, 0, 1, 1},
	}
}

// supportedFeatures are those of the cluster's brokers.
func (c *Cluster) supportedFeatures() []feature {
	return supportedFeatures(c.traits, c.apis.TxnShareAcknowledge() != nil)
}

// finalizedOrder is the order in which a 4.4.0 broker lists finalised features. It is that of a hash map, as is that of supportedFeatures.
var finalizedOrder = []string{"group.version", "streams.version", "transaction.version", "eligible.leader.replicas.version", "share.version", "metadata.version", "kraft.version"}

// features are the finalised levels of a cluster.
type features struct {
	Levels map[string]int16
	// Epoch rises with every change. It is never 0: clients look at features only where the epoch is higher than one they know.
	Epoch int64
}

const featuresKey = "features"

// elrFeature is the feature that makes replicas eligible leaders (KIP-966).
const elrFeature = "eligible.leader.replicas.version"

// consumerProtocolEnabled tells whether consumer groups of KIP-848 are switched on.
func (c *Cluster) consumerProtocolEnabled() bool { return c.features.Levels["group.version"] >= 1 }

// firstFeaturesEpoch is the epoch of a new cluster, a small number above 0 as a freshly formatted node has.
const firstFeaturesEpoch = 16

// loadFeatures reads the finalised levels, or finalises those of a new cluster.
func (c *Cluster) loadFeatures(asked map[string]int16) error {
	if err := c.loadJSON(featuresKey, &c.features); err != nil {
		return err
	}
	if c.features.Levels != nil {
		return c.checkStoredFeatures()
	}
	c.features = features{Levels: map[string]int16{}, Epoch: firstFeaturesEpoch}
	for _, f := range c.supportedFeatures() {
		c.features.Levels[f.name] = f.def
	}
	for name, level := range asked {
		if err := CheckFeature(c.line, c.apis.TxnShareAcknowledge() != nil, name, level); err != nil {
			return err
		}
		c.features.Levels[name] = level
	}
	return c.storeJSON(featuresKey, &c.features)
}

// checkStoredFeatures refuses a store whose features the nodes do not support: one of a later line.
func (c *Cluster) checkStoredFeatures() error {
	for _, f := range c.supportedFeatures() {
		if level := c.features.Levels[f.name]; level > f.max {
			return fmt.Errorf("the store was left by a later Kafka: feature %s is finalised at level %d, and Kafka %s has the levels %d to %d", f.name, level, c.line, f.min, f.max)
		}
	}
	return nil
}

// CheckFeature tells whether a new cluster of a line, with transactional acknowledgements or without, can finalise the feature at the level.
func CheckFeature(line release.Line, transactionalAcks bool, name string, level int16) error {
	supportedFeatures := supportedFeatures(line.Traits(), transactionalAcks)
	i := slices.IndexFunc(supportedFeatures, func(f feature) bool { return f.name == name })
	if i < 0 {
		names := make([]string, len(supportedFeatures))
		for i, f := range supportedFeatures {
			names[i] = f.name
		}
		return fmt.Errorf("feature %q is unknown; Kafka %s has %s", name, line, strings.Join(names, ", "))
	}
	if f := supportedFeatures[i]; level < f.min || level > f.max {
		return fmt.Errorf("feature %s cannot be finalised at level %d, the levels of Kafka %s are %d to %d", name, level, line, f.min, f.max)
	}
	return nil
}
