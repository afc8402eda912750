package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// compare is a rule between two broker keys: left <= right, or left < right where strict.
type compare struct {
	left, right string
	strict      bool
	text        string // the message; %[1]s is left, %[2]s right
}

const (
	atMost  = "%[1]s must be less than or equal to %[2]s"
	atLeast = "%[2]s must be greater than or equal to %[1]s"
)

// brokerRules stand in the order in which Kafka checks them.
// Source: GroupCoordinatorConfig.java, ShareGroupConfig.java and KafkaConfig.scala validateValues.
var brokerRules = slices.Concat(
	groupRules("consumer"), groupRules("share"), groupRules("streams"),
	[]compare{
		{"group.streams.num.standby.replicas", "group.streams.max.standby.replicas", false, atMost},
		{"group.streams.min.task.offset.interval.ms", "group.streams.task.offset.interval.ms", false, atLeast},
		{"group.streams.num.warmup.replicas", "group.streams.max.warmup.replicas", false, atMost},
	},
	shareRules("record.lock.duration.ms"), shareRules("delivery.count.limit"), shareRules("partition.max.record.locks"),
	[]compare{
		{"group.share.max.size", "group.share.max.share.sessions", false, atLeast},
		{"replica.fetch.wait.max.ms", "replica.socket.timeout.ms", false, "%[2]s should always be at least %[1]s to prevent unnecessary socket timeouts"},
		{"replica.fetch.wait.max.ms", "replica.lag.time.max.ms", false, "%[1]s should always be less than or equal to %[2]s to prevent frequent changes in ISR"},
	},
)

func groupRules(kind string) []compare {
	var rules []compare
	p := "group." + kind + "."
	for _, key := range []string{"heartbeat.interval.ms", "session.timeout.ms"} {
		rules = append(rules, compare{p + "min." + key, p + "max." + key, false, atLeast},
			compare{p + "min." + key, p + key, false, atLeast}, compare{p + key, p + "max." + key, false, atMost})
	}
	rules = append(rules, compare{p + "heartbeat.interval.ms", p + "session.timeout.ms", true, "%[1]s must be less than %[2]s"})
	const key = "assignment.interval.ms"
	return append(rules, compare{p + "min." + key, p + "max." + key, false, atLeast},
		compare{p + "min." + key, p + key, false, atLeast}, compare{p + key, p + "max." + key, false, atMost})
}

func shareRules(key string) []compare {
	p := "group.share."
	return []compare{{p + "min." + key, p + key, false, atLeast}, {p + key, p + "max." + key, false, atLeast}}
}

// checkBroker checks the rules between the keys of a broker.
func (v *Values) checkBroker() error {
	if err := v.checkNames(); err != nil {
		return err
	}
	for _, r := range brokerRules {
		left, right := v.Long(r.left), v.Long(r.right)
		if left > right || r.strict && left == right {
			message := fmt.Sprintf(r.text, r.left, r.right)
			if strings.HasPrefix(r.left, "replica.") {
				return requirement(message)
			}
			return errors.New(message)
		}
	}
	return v.checkAmounts()
}

// assignors are the server-side assignors that exist, by kind of group: short names and Kafka's classes.
var assignors = map[string][]string{
	"consumer": {"uniform", "range", "org.apache.kafka.coordinator.group.assignor.UniformAssignor", "org.apache.kafka.coordinator.group.assignor.RangeAssignor"},
	"share":    {"simple", "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"},
	"streams":  {"sticky", "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor"},
}

func (v *Values) checkNames() error {
	for _, kind := range groupKinds {
		key := "group." + kind + ".assignors"
		list := v.List(key)
		for _, name := range list {
			if !slices.Contains(assignors[kind], name) {
				return invalid(key, name, "Class cannot be found")
			}
		}
		if kind == "share" && len(list) != 1 {
			return fmt.Errorf("%s must contain exactly one assignor, but found %d", key, len(list))
		}
	}
	if !slices.Contains(v.List("group.coordinator.rebalance.protocols"), "classic") {
		return fmt.Errorf("group.coordinator.rebalance.protocols: Disabling the 'classic' protocol is not supported.")
	}
	if id := v.Long("broker.id"); id >= 0 && !v.IsNull("node.id") && id != v.Long("node.id") {
		return fmt.Errorf("`node.id` and `broker.id` must be set to the same value. `broker.id` is deprecated, please use `node.id` instead.")
	}
	for _, key := range []string{"offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec"} {
		if id := v.Long(key); id < 0 || id > 4 {
			return fmt.Errorf("%s: Unknown compression type id: %d", key, id)
		}
	}
	if dirs := v.List("cordoned.log.dirs"); len(dirs) > 1 && slices.Contains(dirs, "*") {
		return requirement("When cordoned.log.dirs is set to *, it must not contain other values")
	}
	if missing := v.uncordonable(); len(missing) > 0 {
		return requirement("All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : " + strings.Join(missing, ", "))
	}
	for _, key := range []string{"listener.security.protocol.map", "max.connections.per.ip.overrides"} {
		for _, entry := range splitList(v.String(key)) {
			if !strings.Contains(entry, ":") {
				return fmt.Errorf("Error parsing configuration property '%s': %q is not of the form name:value", key, entry)
			}
		}
	}
	if _, set := v.values["inter.broker.listener.name"].(string); set && v.String("security.inter.broker.protocol") != "PLAINTEXT" {
		return fmt.Errorf("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
	}
	return nil
}

// requirement is a rule's message; where a client sees it Kafka puts "requirement failed: " before it.
type requirement string

func (r requirement) Error() string { return string(r) }

// uncordonable gives the cordoned log directories that are none of the broker's.
func (v *Values) uncordonable() []string {
	dirs := v.List("log.dirs")
	if dirs == nil {
		dirs = v.List("log.dir")
	}
	var missing []string
	for _, d := range v.List("cordoned.log.dirs") {
		if d != "*" && !slices.Contains(dirs, d) {
			missing = append(missing, d)
		}
	}
	return missing
}

func (v *Values) checkAmounts() error {
	if ms, _ := v.inMillis(rollFamily); ms < 1 {
		return requirement("log.roll.ms must be greater than or equal to 1")
	}
	if ms, _ := v.inMillis(jitterFamily); ms < 0 {
		return requirement("log.roll.jitter.ms must be greater than or equal to 0")
	}
	// Any negative time is unlimited.
	if ms, _ := v.inMillis(retentionFamily); ms == 0 {
		return requirement("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
	}
	if threads := v.Long("log.cleaner.threads"); threads > 0 && v.Long("log.cleaner.dedupe.buffer.size")/threads < 1<<20 {
		return requirement("log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")
	}
	if n := v.Long("queued.max.request.bytes"); n > 0 && n < v.Long("socket.request.max.bytes") {
		return requirement("queued.max.request.bytes must be larger or equal to socket.request.max.bytes")
	}
	if v.Long("max.connections.per.ip") == 0 && v.String("max.connections.per.ip.overrides") == "" {
		return requirement("max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.")
	}
	for _, l := range v.List("advertised.listeners") {
		if strings.Contains(l, "//0.0.0.0:") {
			return requirement("advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.")
		}
	}
	return nil
}

// checkTags refuses a tag that stands twice; Kafka drops repeated elements of other lists.
func checkTags(key string, values map[string]string) error {
	tags := splitList(trim(values[key]))
	if len(dedupe(tags)) != len(tags) {
		return fmt.Errorf("%s must not contain duplicate tag keys.", key)
	}
	return nil
}
