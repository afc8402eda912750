package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"kshare/internal/spelling"
	"kshare/release"
)

// Static is a broker's configuration as it was started with: Kafka's server.properties. It does not change.
type Static struct {
	line   release.Line
	text   map[string]string // as written, without the white space around it
	values func() *Values
}

// Parse checks a static broker configuration. Of a key that stands twice the last value counts. Keys are Kafka's
// broker keys, internal ones included, also with a listener's prefix (listener.name.<listener>.<key>); whether kshare
// acts on a key plays no role. All unknown keys, bad values and contradictions are in one error, each by name.
func Parse(props []Property) (*Static, error) { return ParseFor(release.Latest, props) }

// ParseFor is Parse for brokers of a line of Apache Kafka.
func ParseFor(line release.Line, props []Property) (*Static, error) {
	s := &Static{line: line, text: map[string]string{}}
	s.values = sync.OnceValue(func() *Values { return newBrokerValues(s.text, nil, nil) })
	var errs []error
	for _, p := range props {
		k, err := staticKey(line, p.Key)
		if err == nil {
			_, err = k.Parse(p.Value)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Origin, err))
			continue
		}
		s.text[p.Key] = trim(p.Value)
	}
	if len(errs) == 0 {
		errs = append(errs, checkTags("group.streams.rack.aware.assignment.tags", s.text), s.Values().checkBroker())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// With gives the same configuration with some keys set otherwise, as for the nodes of one cluster, which differ in
// node.id, listeners and directories.
func (s *Static) With(values map[string]string) (*Static, error) {
	var props []Property
	for _, key := range slices.Sorted(maps.Keys(s.text)) {
		if _, replaced := values[key]; !replaced {
			props = append(props, Property{key, s.text[key], "configuration"})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		props = append(props, Property{key, values[key], "node"})
	}
	return ParseFor(s.line, props)
}

// Get gives a key's value as it was written; ok is false where the key is not set.
func (s *Static) Get(key string) (value string, ok bool) {
	value, ok = s.text[key]
	return value, ok
}

// Values gives the effective values: as set, else Kafka's defaults.
func (s *Static) Values() *Values { return s.values() }

// staticKey finds a broker key's definition, also behind a listener's prefix.
func staticKey(line release.Line, name string) (*Key, error) {
	if k := anyBrokerKey(name); k != nil && (has(line, k) || k.Until == 0) {
		if !has(line, k) {
			return nil, fmt.Errorf("unknown broker configuration %s: Apache Kafka %s has no such key, %s has", name, line, k.Since)
		}
		if k.runtimeOnly {
			return nil, fmt.Errorf("broker configuration %s can only be set at run time", name)
		}
		return k, nil
	}
	if k := authorizerKeys[name]; k != nil {
		return k, nil
	}
	if right, ok := renamed[name]; ok {
		return nil, fmt.Errorf("unknown broker configuration %s: %s", name, right)
	}
	if strings.HasPrefix(name, "listener.name.") {
		return nil, fmt.Errorf("unknown broker configuration %s: after listener.name.<listener>. stands the name of a broker configuration", name)
	}
	for _, scope := range []Scope{ScopeTopic, ScopeGroup, ScopeClientMetrics} {
		if k := Lookup(scope, name); k != nil {
			hint := ""
			if k.BrokerSynonym != "" {
				hint = "; as broker configuration it is " + k.BrokerSynonym
			}
			return nil, fmt.Errorf("unknown broker configuration %s: it is a configuration of a %s%s", name, scope, hint)
		}
	}
	if near := nearestKey(name); near != "" {
		return nil, fmt.Errorf("unknown broker configuration %s: did you mean %s?", name, near)
	}
	return nil, fmt.Errorf("unknown broker configuration %s: Apache Kafka 4.4.0 has no such key", name)
}

var listenerKey = pattern(`^listener\.name\.[^.]*\.(.*)$`)

// listenerBase gives the key behind a listener's prefix (listener.name.<listener>.) and a SASL mechanism's behind that.
func listenerBase(name string) (base string, ok bool) {
	m := listenerKey().FindStringSubmatch(name)
	if m == nil {
		return "", false
	}
	for _, mechanism := range mechanismKeys {
		if strings.HasSuffix(m[1], "."+mechanism) {
			return mechanism, true
		}
	}
	return m[1], true
}

// mechanismKeys may stand behind a listener's prefix and a SASL mechanism.
var mechanismKeys = []string{"sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.login.class", "sasl.server.callback.handler.class", "connections.max.reauth.ms"}

// brokerKey is Lookup of a broker key that may have a listener's prefix, nil for one that a line does not have.
func brokerKey(line release.Line, name string) *Key {
	if k := anyBrokerKey(name); has(line, k) {
		return k
	}
	return nil
}

// anyBrokerKey is brokerKey for the keys of all lines.
func anyBrokerKey(name string) *Key {
	if base, ok := listenerBase(name); ok {
		name = base
	}
	return Lookup(ScopeBroker, name)
}

// authorizerKeys are handed to the authorizer (authorizer.class.name) and are no configurations of the broker: nobody describes or alters them.
var authorizerKeys = map[string]*Key{
	"super.users":                    {Name: "super.users", Type: String},
	"allow.everyone.if.no.acl.found": {Name: "allow.everyone.if.no.acl.found", Type: Boolean},
}

// renamed are names that people use though this release has another one.
var renamed = map[string]string{
	"group.type":                              "a broker has no such key; the protocol of a group is its clients' choice (group.protocol=classic or consumer, or a share consumer)",
	"share.group.delivery.count.limit":        "its name is group.share.delivery.count.limit",
	"share.group.record.lock.duration.ms":     "its name is group.share.record.lock.duration.ms",
	"share.group.max.record.lock.duration.ms": "its name is group.share.max.record.lock.duration.ms",
	"group.share.record.lock.partition.limit": "its name is group.share.partition.max.record.locks",
	"group.share.max.groups":                  "it was removed; group.share.max.share.sessions bounds the sessions of a broker",
	"group.share.enable":                      "it was removed after Kafka 4.2; share groups are switched by the feature share.version",
	"unstable.api.versions":                   "its name is unstable.api.versions.enable",
	"zookeeper.connect":                       "it was removed with ZooKeeper in Kafka 4.0",
	"inter.broker.protocol.version":           "it was removed in Kafka 4.0; the feature metadata.version takes its place",
	"log.message.format.version":              "it was removed in Kafka 4.0",
	"log.message.timestamp.difference.max.ms": "it was removed in Kafka 4.0; use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms",
	"port":                         "it was removed; use listeners",
	"host.name":                    "it was removed; use listeners",
	"advertised.port":              "it was removed; use advertised.listeners",
	"advertised.host.name":         "it was removed; use advertised.listeners",
	"group.protocol":               "it is a configuration of a consumer",
	"bootstrap.servers":            "it is a configuration of a client; see listeners and advertised.listeners",
	"password.encoder.secret":      "it was removed with ZooKeeper in Kafka 4.0",
	"control.plane.listener.name":  "it was removed in Kafka 4.0",
	"reserved.broker.max.id":       "it was removed in Kafka 4.0",
	"offsets.commit.required.acks": "it was removed in Kafka 4.0",
}

// nearestKey gives the broker key that a name was probably meant to be, "" for none.
func nearestKey(name string) string {
	var known []string
	for _, k := range Keys(ScopeBroker) {
		if k.Until == 0 {
			known = append(known, k.Name)
		}
	}
	return spelling.Nearest(name, known)
}

// IsSecret tells whether the value of a broker configuration is a password or the like, which nobody is to be shown.
func IsSecret(name string) bool {
	k := anyBrokerKey(name)
	return k != nil && k.Type == Password
}
