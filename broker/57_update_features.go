package broker

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/config"
	"kshare/protocol/errorcode"
)

// UpdateFeatures (57), v0 to v2.
//
// Behaviour (FeatureControlManager.updateFeatures):
//   - All updates are made or none: the first that cannot be is named in the top-level error of every version, and there are no results.
//   - v0 knows upgrades only, whatever AllowDowngrade says. v0 and v1 have a result for each update that was made.
//   - A feature named twice takes the last level. A level that is finalised already is no error, as upgrade or downgrade.
//   - metadata.version is never lowered.
//   - TimeoutMs does not matter.

const updateFeaturesKey = 57

func init() {
	handlers[updateFeaturesKey] = needing(writing(locked((*Cluster).updateFeatures)),
		onCluster(acl.Alter, saysAlter),
	)
}

// Upgrade types (org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType).
const (
	upgradeOnly     int8 = 1
	safeDowngrade   int8 = 2
	unsafeDowngrade int8 = 3
)

// featureUpdate is one update of a feature's finalised level.
type featureUpdate struct {
	name  string
	level int16
	kind  int8
}

func (c *Cluster) updateFeatures(_ *request, q *kmsg.UpdateFeaturesRequest) kmsg.Response {
	p := response[*kmsg.UpdateFeaturesResponse](q)
	updates := featureUpdates(q)
	for _, u := range updates {
		if why := c.checkFeatureUpdate(u); why != "" {
			p.ErrorCode = errorcode.InvalidUpdateVersion
			p.ErrorMessage = kmsg.StringPtr("The update failed for all features since the following feature had an error: " + why)
			return p
		}
	}
	if !q.ValidateOnly {
		if err := c.finalize(updates); err != nil {
			no := c.storageRefusal(err)
			p.ErrorCode, p.ErrorMessage = no.code, no.text()
			return p
		}
	}
	if q.Version >= 2 {
		return p
	}
	for i := range q.FeatureUpdates {
		result := kmsg.NewUpdateFeaturesResponseResult()
		result.Feature, result.ErrorMessage = q.FeatureUpdates[i].Feature, kmsg.StringPtr("NONE")
		p.Results = append(p.Results, result)
	}
	return p
}

// featureUpdates are the updates that a request asks for, in the order in which the controller looks at them: that of a hash map.
func featureUpdates(q *kmsg.UpdateFeaturesRequest) []featureUpdate {
	byName := map[string]featureUpdate{}
	var names []string
	for _, u := range q.FeatureUpdates {
		kind := u.UpgradeType
		if q.Version == 0 {
			kind = upgradeOnly
		}
		if _, twice := byName[u.Feature]; !twice {
			names = append(names, u.Feature)
		}
		byName[u.Feature] = featureUpdate{u.Feature, u.MaxVersionLevel, kind}
	}
	var updates []featureUpdate
	for _, name := range config.HashOrder(names) {
		updates = append(updates, byName[name])
	}
	return updates
}

// checkFeatureUpdate says why an update cannot be made, "" where it can.
func (c *Cluster) checkFeatureUpdate(u featureUpdate) string {
	invalid := func(why string, args ...any) string {
		return fmt.Sprintf("Invalid update version %d for feature %s. %s", u.level, u.name, fmt.Sprintf(why, args...))
	}
	known := c.supportedFeatures()
	supported := slices.IndexFunc(known, func(f feature) bool { return f.name == u.name })
	current := c.features.Levels[u.name]
	switch {
	case u.kind < upgradeOnly || u.kind > unsafeDowngrade:
		return invalid("The controller does not support the given upgrade type.")
	case u.level < 0:
		return invalid("A feature version cannot be less than 0.")
	case supported < 0 && u.level == 0:
		return invalid("Feature %s not found.", u.name)
	case supported < 0:
		return invalid("Local controller %d does not support this feature.", c.nodes[0].id)
	}
	switch f := known[supported]; {
	case u.level < f.min || u.level > f.max:
		return invalid("Local controller %d only supports versions %d-%d", c.nodes[0].id, f.min, f.max)
	case u.level < current && u.kind == upgradeOnly:
		return invalid("Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.")
	case u.level > current && u.kind != upgradeOnly:
		return invalid("Can't downgrade to a newer version.")
	case u.name == "metadata.version" && u.level < current:
		why := "Refusing to perform the requested downgrade because it might delete metadata information."
		if u.kind == unsafeDowngrade {
			why = "Unsafe metadata downgrade is not supported in this version."
		}
		return fmt.Sprintf("Unsupported metadata.version downgrade from %d to %d. %s", current, u.level, why)
	}
	return ""
}

// finalize makes updates that were checked, and lets them take effect.
func (c *Cluster) finalize(updates []featureUpdate) error {
	was := features{Levels: map[string]int16{}, Epoch: c.features.Epoch}
	for name, level := range c.features.Levels {
		was.Levels[name] = level
	}
	for _, u := range updates {
		c.features.Levels[u.name] = u.level
	}
	if !slices.ContainsFunc(updates, func(u featureUpdate) bool { return was.Levels[u.name] != u.level }) {
		return nil
	}
	c.features.Epoch++
	if err := c.storeJSON(featuresKey, &c.features); err != nil {
		c.features = was
		return err
	}
	return c.featuresChanged(was.Levels)
}

// featuresChanged lets finalised levels take effect that were others before.
func (c *Cluster) featuresChanged(was map[string]int16) error {
	c.groups.coordinator.SetProtocols(c.consumerProtocolEnabled(), c.shareEnabled())
	clear(c.share.settings)
	if !c.shareEnabled() {
		c.endShareGroups()
	}
	if elr := c.features.Levels[elrFeature]; elr != was[elrFeature] {
		return c.storeConfigs(c.config.SetEligibleLeaderReplicas(elr > 0, c.static.Values().Int("min.insync.replicas")))
	}
	return nil
}

// endShareGroups ends every share session and forgets every share partition, as a broker does when share.version falls to 0. Their state stays where it is.
func (c *Cluster) endShareGroups() {
	for _, n := range c.nodes {
		c.share.sessions[n.id].Clear()
	}
	for _, t := range c.sortedTopics() {
		for _, p := range t.partitions {
			for _, group := range p.shareGroupsInOrder() {
				p.shareGroups[group].forget()
			}
			p.shareLoads.each((*shareWaiter).finish)
		}
	}
}
