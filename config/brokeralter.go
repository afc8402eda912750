package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kshare/protocol/errorcode"
)

// checkBrokerChange checks all that would be set for a broker, or for all brokers where name is "".
// Source: server DynamicBrokerConfig.java validateConfigs and core DynamicBrokerConfig.scala validate.
func (s *State) checkBrokerChange(nodeID int32, name string, set map[string]string) *refusal {
	for key := range set {
		if k := anyBrokerKey(key); k != nil && !has(s.line, k) { // of another line: taken unseen, like all that is unknown
			set = maps.Clone(set)
			delete(set, key)
		}
	}
	bad := func(format string, args ...any) *refusal {
		return refuse(errorcode.InvalidRequest, fmt.Sprintf(format, args...))
	}
	for _, rule := range []struct {
		broken  func(name string) bool
		message string
	}{
		{isReadOnly, "Cannot update these configs dynamically"},
		{needsListener, "These security configs can be dynamically updated only per-listener using the listener prefix"},
	} {
		if names := hashOrder(filter(set, rule.broken), 0); len(names) > 0 {
			return bad("%s: [%s]", rule.message, strings.Join(names, ", "))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if k := anyBrokerKey(key); k != nil {
			if _, err := k.Parse(set[key]); err != nil {
				return bad("%v", err)
			}
		}
	}
	if name == "" {
		if names := hashOrder(filter(set, isPerBroker), 0); len(names) > 0 {
			return bad("Cannot update these configs at default cluster level, broker id must be specified: [%s]", strings.Join(names, ", "))
		}
	}
	n := s.nodes[nodeID]
	next := newBrokerValues(n.static, s.forAll, set)
	if name == "" {
		next = newBrokerValues(n.static, set, n.dynamic)
	}
	if err := next.checkBroker(); err != nil {
		if r := requirement(""); errors.As(err, &r) {
			return bad("requirement failed: %s", r)
		}
		return bad("%v", err)
	}
	if err := checkThreads(s.Broker(nodeID), next); err != nil {
		return bad("Invalid value org.apache.kafka.common.config.ConfigException: %v for configuration Invalid dynamic configuration", err)
	}
	return nil
}

func filter(set map[string]string, keep func(string) bool) []string {
	var names []string
	for name := range set {
		if keep(name) {
			names = append(names, name)
		}
	}
	return names
}

func isReadOnly(name string) bool {
	k := Lookup(ScopeBroker, name)
	return k != nil && k.Dynamic == ReadOnly
}

// isPerBroker tells that a key can be set for one broker only. Behind a listener's prefix that is every key but the
// limits of connections and threads.
func isPerBroker(name string) bool {
	if base, ok := listenerBase(name); ok {
		return !slices.Contains([]string{"max.connection.creation.rate", "max.connections", "num.network.threads"}, base)
	}
	k := Lookup(ScopeBroker, name)
	return k != nil && k.Dynamic == PerBroker
}

// needsListener tells that a key can be set at run time only behind a listener's prefix.
func needsListener(name string) bool {
	return slices.Contains([]string{
		"ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.key.password",
		"ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.certificates",
	}, name)
}

// threadPools may be resized at run time by a factor of two at most.
var threadPools = []string{
	"num.io.threads", "num.network.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir", "background.threads",
	"remote.log.reader.threads", "remote.log.manager.copier.thread.pool.size", "remote.log.manager.expiration.thread.pool.size", "remote.log.manager.follower.thread.pool.size",
}

// checkThreads checks new sizes of thread pools against those in use.
// Source: server DynamicThreadPool.java and storage LogCleaner.java.
func checkThreads(now, next *Values) error {
	for _, key := range threadPools {
		was, is := now.Long(key), next.Long(key)
		limit := ""
		switch {
		case is < was/2:
			limit = "should be at least half the current value"
		case is > was*2:
			limit = "should not be greater than double the current value"
		default:
			continue
		}
		return fmt.Errorf("Dynamic thread count update validation failed for %s=%d, value %s %d", key, is, limit, was)
	}
	was, is := now.Long("log.cleaner.threads"), next.Long("log.cleaner.threads")
	switch {
	case is < 1:
		return errors.New("Log cleaner threads should be at least 1")
	case is < was/2:
		return fmt.Errorf("Log cleaner threads cannot be reduced to less than half the current value %d", was)
	case is > was*2:
		return fmt.Errorf("Log cleaner threads cannot be increased to more than double the current value %d", was)
	}
	return nil
}
