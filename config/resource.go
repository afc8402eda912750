package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"kshare/protocol/errorcode"
)

// maxTopicName bounds a topic's name, in bytes.
const maxTopicName = 249

var topicName = pattern(`^[a-zA-Z0-9._-]+$`)

// checkTopicName gives Kafka's message for an illegal name.
// Source: clients Topic.java.
func checkTopicName(name string) error {
	switch {
	case name == "":
		return errors.New("Topic name is invalid: the empty string is not allowed")
	case name == "." || name == "..":
		return fmt.Errorf("Topic name is invalid: '%s' is not allowed", name)
	case len(name) > maxTopicName:
		return fmt.Errorf("Topic name is invalid: the length of '%s' is longer than the max allowed length %d", name, maxTopicName)
	case !topicName().MatchString(name):
		return fmt.Errorf("Topic name is invalid: '%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
	}
	return nil
}

// parseAll checks every value that is set against its key, in the order of Keys.
func parseAll(scope Scope, set map[string]string) error {
	for _, k := range Keys(scope) {
		if text, ok := set[k.Name]; ok {
			if _, err := k.Parse(text); err != nil {
				return err
			}
		}
	}
	return nil
}

// unknownName gives the first name, in alphabetical order, that a scope does not know.
func (s *State) unknownName(scope Scope, set map[string]string) (string, bool) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !has(s.line, Lookup(scope, name)) {
			return name, true
		}
	}
	return "", false
}

// checkTopic checks all that is set for a topic.
// Source: storage LogConfig.java, validate.
func (s *State) checkTopic(set map[string]string, broker *Values) error {
	if name, ok := s.unknownName(ScopeTopic, set); ok {
		return errors.New("Unknown topic config name: " + name)
	}
	if err := parseAll(ScopeTopic, set); err != nil {
		return err
	}
	v := newTopicValues(broker, set)
	if low, high := v.Long("min.compaction.lag.ms"), v.Long("max.compaction.lag.ms"); low > high {
		return fmt.Errorf("conflict topic config setting min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)", low, high)
	}
	if v.Bool("remote.storage.enable") {
		return errors.New("Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.")
	}
	return nil
}

// checkGroup checks all that is set for a group.
// Source: group-coordinator GroupConfig.java, validate.
func (s *State) checkGroup(set map[string]string, broker *Values) error {
	if name, ok := s.unknownName(ScopeGroup, set); ok {
		return errors.New("Unknown group config name: " + name)
	}
	if err := checkTags("streams.rack.aware.assignment.tags", set); err != nil {
		return err
	}
	if err := parseAll(ScopeGroup, set); err != nil {
		return err
	}
	values := &Values{ScopeGroup, map[string]Value{}}
	for name, text := range set {
		values.values[name], _ = Lookup(ScopeGroup, name).Parse(text)
	}
	for _, b := range groupBounds {
		if err := b.check(values, broker, s.line.Traits().BoundsAreNamed); err != nil {
			return err
		}
	}
	if name, ok := values.values["streams.assignor.name"]; ok {
		if names := broker.List("group.streams.assignors"); !slices.Contains(names, name.(string)) {
			return fmt.Errorf("streams.assignor.name '%s' is not a registered task assignor. Registered assignors are: [%s].", name, strings.Join(names, ", "))
		}
	}
	for _, kind := range groupKinds {
		if err := checkSession(kind, values, broker); err != nil {
			return err
		}
	}
	if name, _ := values.values["errors.deadletterqueue.topic.name"].(string); strings.HasPrefix(name, "__") {
		return errors.New("errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'")
	}
	return nil
}

// check refuses a value that is set and out of the broker's bounds, which are named or said.
func (b bound) check(values, broker *Values, named bool) error {
	n, ok := values.values[b.key].(int64)
	switch {
	case !ok:
	case named && b.low != "" && n < broker.Long(b.low):
		return fmt.Errorf("%s must be greater than or equal to %s", b.key, b.low)
	case named && b.high != "" && n > broker.Long(b.high):
		return fmt.Errorf("%s must be less than or equal to %s", b.key, b.high)
	case b.low != "" && b.high != "":
		if low, high := broker.Long(b.low), broker.Long(b.high); n < low || n > high {
			return fmt.Errorf("%s must be in the range %d to %d inclusive.", b.key, low, high)
		}
	case b.high != "" && n > broker.Long(b.high):
		return fmt.Errorf("%s must be less than or equal to %d", b.key, broker.Long(b.high))
	case b.low != "" && n < broker.Long(b.low):
		return fmt.Errorf("%s must be greater than or equal to %d", b.key, broker.Long(b.low))
	}
	return nil
}

// checkSession demands that a session outlasts the heartbeat interval where one of them is set.
func checkSession(kind string, values, broker *Values) error {
	session, heartbeat := kind+".session.timeout.ms", kind+".heartbeat.interval.ms"
	s, sessionSet := values.values[session].(int64)
	h, heartbeatSet := values.values[heartbeat].(int64)
	if !sessionSet && !heartbeatSet {
		return nil
	}
	if !sessionSet {
		s = broker.Long("group." + session)
	}
	if !heartbeatSet {
		h = broker.Long("group." + heartbeat)
	}
	if s <= h {
		return fmt.Errorf("%s must be greater than %s", session, heartbeat)
	}
	return nil
}

// Bounds of a client metrics subscription's push interval, in milliseconds, inclusive.
const (
	minMetricsInterval = 100
	maxMetricsInterval = 3_600_000
)

// metricsMatches are the names that a client metrics subscription may match by.
var metricsMatches = []string{"client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port"}

// checkMetrics checks all that is set for a client metrics subscription.
// Source: server ClientMetricsConfigs.java, validate.
func (s *State) checkMetrics(set map[string]string) *refusal {
	if name, ok := s.unknownName(ScopeClientMetrics, set); ok {
		return refuse(errorcode.InvalidRequest, "Unknown client metrics configuration: "+name)
	}
	if err := parseAll(ScopeClientMetrics, set); err != nil {
		return refuse(errorcode.InvalidConfig, err.Error())
	}
	v := newMetricsValues(set)
	if ms := v.Int("interval.ms"); ms < minMetricsInterval || ms > maxMetricsInterval {
		return refuse(errorcode.InvalidRequest, fmt.Sprintf("Invalid value %d for interval.ms, interval must be between 100 and 3600000 (1 hour)", ms))
	}
	for _, pattern := range v.List("match") {
		parts := strings.Split(pattern, "=")
		if len(parts) == 2 && slices.Contains(metricsMatches, trim(parts[0])) {
			if _, err := regexp.Compile(trim(parts[1])); err == nil {
				continue
			}
		}
		return refuse(errorcode.InvalidConfig, "Illegal client matching pattern: "+pattern)
	}
	return nil
}
