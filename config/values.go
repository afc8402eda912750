package config

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Values are the effective values of all keys of one broker, topic, group or client metrics subscription. They do not
// change and may be kept and read by any goroutine. A getter of a name that does not exist, or of another type than
// the getter's, panics: names are the program's own.
type Values struct {
	scope  Scope
	values map[string]Value
}

// Int gives an INT or SHORT key's value.
func (v *Values) Int(key string) int32 { return int32(v.number(key, Int, Short)) }

// Long gives a LONG, INT or SHORT key's value.
func (v *Values) Long(key string) int64 { return v.number(key, Long, Int, Short) }

// Duration gives a number of milliseconds; what does not fit into a time.Duration gives the nearest one that does.
func (v *Values) Duration(key string) time.Duration {
	ms := v.Long(key)
	switch {
	case ms > math.MaxInt64/int64(time.Millisecond):
		return math.MaxInt64
	case ms < math.MinInt64/int64(time.Millisecond):
		return math.MinInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// Bool gives a BOOLEAN key's value.
func (v *Values) Bool(key string) bool { return v.typed(key, Boolean).(bool) }

// Double gives a DOUBLE key's value.
func (v *Values) Double(key string) float64 { return v.typed(key, Double).(float64) }

// String gives a STRING, CLASS or PASSWORD key's value; null is "".
func (v *Values) String(key string) string {
	s, _ := v.typed(key, String, Class, Password).(string)
	return s
}

// List gives a LIST key's elements; null is nil. The slice is shared: do not change it.
func (v *Values) List(key string) []string {
	list, _ := v.typed(key, List).([]string)
	return list
}

// IsNull tells that a key has no value and no default.
func (v *Values) IsNull(key string) bool { return v.typed(key) == nil }

// Text gives a key's value in Kafka's text form; ok is false for null.
func (v *Values) Text(key string) (text string, ok bool) {
	value := v.typed(key)
	return Format(value), value != nil
}

func (v *Values) number(key string, types ...Type) int64 {
	n, ok := v.typed(key, types...).(int64)
	if !ok {
		panic(fmt.Sprintf("config: %s configuration %s is null", v.scope, key))
	}
	return n
}

// typed gives a key's value after checking that the key is of one of the types; no types stand for any.
func (v *Values) typed(key string, types ...Type) Value {
	value, ok := v.values[key]
	if !ok {
		panic(fmt.Sprintf("config: no %s configuration %s", v.scope, key))
	}
	k := Lookup(v.scope, key)
	for _, t := range types {
		if k.Type == t {
			return value
		}
	}
	if len(types) > 0 {
		panic(fmt.Sprintf("config: %s configuration %s is of type %s", v.scope, key, k.Type))
	}
	return value
}

// inMillis gives the value of a family of keys (log.retention.ms, .minutes, .hours): of the first that is not null.
func (v *Values) inMillis(family []unitKey) (ms int64, ok bool) {
	for _, u := range family {
		if n, ok := v.values[u.name].(int64); ok {
			if n < 0 {
				return -1, true // without limit
			}
			return n * u.ms, true // an INT of hours fits
		}
	}
	return 0, false
}

// newBrokerValues computes a broker's values: set for the broker, set for all brokers, static, default. A key that is
// set at run time hides the static values of its whole family (log.retention.hours under log.retention.ms).
// Source: core DynamicBrokerConfig.overrideProps.
func newBrokerValues(static, forAll, forBroker map[string]string) *Values {
	v := &Values{ScopeBroker, make(map[string]Value, len(Keys(ScopeBroker)))}
	for _, k := range Keys(ScopeBroker) {
		layers := []map[string]string{forBroker, forAll, static}
		for _, u := range unitFamilies[k.Name] {
			if _, set := forBroker[u.name]; set {
				layers = layers[:1]
			} else if _, set := forAll[u.name]; set {
				layers = layers[:min(2, len(layers))]
			}
		}
		v.values[k.Name] = firstValid(k, layers...)
	}
	return v
}

// clampIntervals brings assignment intervals that were set at run time into their bounds.
// Source: group-coordinator GroupCoordinatorConfig.clampDynamicConfigs.
func (v *Values) clampIntervals() *Values {
	for _, kind := range groupKinds {
		prefix := "group." + kind + "."
		v.clamp(prefix+"assignment.interval.ms", v, prefix+"min.assignment.interval.ms", prefix+"max.assignment.interval.ms")
	}
	return v
}

// groupKinds are the kinds of groups that have configurations of their own.
var groupKinds = []string{"consumer", "share", "streams"}

// firstValid gives the first value that parses, else the default. What is stored has been checked when it was set;
// only data of another release may fail to parse.
func firstValid(k *Key, layers ...map[string]string) Value {
	for _, layer := range layers {
		if text, ok := layer[k.Name]; ok {
			if value, err := k.Parse(text); err == nil {
				return value
			}
		}
	}
	return k.byDefault()
}

// byDefault is the default as a value.
func (k *Key) byDefault() Value {
	k.parsed.Do(func() {
		if k.Default == nil {
			return
		}
		var err error
		if k.fallback, err = k.parseType(*k.Default); err != nil {
			panic(fmt.Sprintf("config: default of %s: %v", k.Name, err))
		}
	})
	return k.fallback
}

// newTopicValues computes a topic's values: set for the topic, else from its broker.
// Source: core AbstractKafkaConfig.extractLogConfigMap.
func newTopicValues(broker *Values, topic map[string]string) *Values {
	v := &Values{ScopeTopic, make(map[string]Value, len(Keys(ScopeTopic)))}
	for _, k := range Keys(ScopeTopic) {
		v.values[k.Name] = firstValid(k, topic)
		if _, set := topic[k.Name]; !set && k.BrokerSynonym != "" {
			v.values[k.Name] = broker.asTopic(k)
		}
	}
	return v
}

// asTopic gives a broker's value for a topic key.
func (v *Values) asTopic(k *Key) Value {
	if family := unitFamilies[k.BrokerSynonym]; family != nil {
		if ms, ok := v.inMillis(family); ok {
			return ms
		}
		return firstValid(k)
	}
	return v.values[k.BrokerSynonym]
}

// newGroupValues computes a group's values: set for the group and brought into the broker's bounds, else the broker's.
// Source: group-coordinator GroupConfig.evaluate.
func newGroupValues(broker *Values, group map[string]string) *Values {
	v := &Values{ScopeGroup, make(map[string]Value, len(Keys(ScopeGroup)))}
	for _, k := range Keys(ScopeGroup) {
		v.values[k.Name] = firstValid(k, group)
		if _, set := group[k.Name]; !set {
			v.values[k.Name] = broker.asGroup(k)
		}
	}
	for _, b := range groupBounds {
		v.clamp(b.key, broker, b.low, b.high)
	}
	// A session must outlast the heartbeat interval: where bounds moved under stored values both fall back.
	for _, kind := range groupKinds {
		session, heartbeat := kind+".session.timeout.ms", kind+".heartbeat.interval.ms"
		if v.Int(session) <= v.Int(heartbeat) {
			v.values[session] = broker.values["group."+session]
			v.values[heartbeat] = broker.values["group."+heartbeat]
		}
	}
	return v
}

// asGroup gives a broker's value for a group key; the assignor's name is the first of the broker's assignors.
func (v *Values) asGroup(k *Key) Value {
	if k.BrokerSynonym == "" {
		return firstValid(k)
	}
	value := v.values[k.BrokerSynonym]
	if list, ok := value.([]string); ok && k.Type == String {
		return strings.Join(list[:min(1, len(list))], "")
	}
	return value
}

// bound names the broker keys that bound a group key, "" for none.
type bound struct{ key, low, high string }

// groupBounds stand in the order in which Kafka checks them.
var groupBounds = []bound{
	rangeBound("consumer.heartbeat.interval.ms"),
	rangeBound("consumer.session.timeout.ms"),
	rangeBound("consumer.assignment.interval.ms"),
	rangeBound("share.heartbeat.interval.ms"),
	rangeBound("share.session.timeout.ms"),
	rangeBound("share.record.lock.duration.ms"),
	rangeBound("share.delivery.count.limit"),
	rangeBound("share.partition.max.record.locks"),
	rangeBound("share.assignment.interval.ms"),
	rangeBound("streams.heartbeat.interval.ms"),
	rangeBound("streams.session.timeout.ms"),
	{"streams.num.standby.replicas", "", "group.streams.max.standby.replicas"},
	rangeBound("streams.assignment.interval.ms"),
	{"streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms", ""},
	{"streams.num.warmup.replicas", "", "group.streams.max.warmup.replicas"},
}

func rangeBound(key string) bound {
	kind, rest, _ := strings.Cut(key, ".")
	return bound{key, "group." + kind + ".min." + rest, "group." + kind + ".max." + rest}
}

// clamp brings a value into the bounds that a broker's keys give.
func (v *Values) clamp(key string, broker *Values, low, high string) {
	n := v.Long(key)
	if high != "" {
		n = min(n, broker.Long(high))
	}
	if low != "" {
		n = max(n, broker.Long(low))
	}
	v.values[key] = n
}

// newMetricsValues computes the values of a client metrics subscription.
func newMetricsValues(subscription map[string]string) *Values {
	v := &Values{ScopeClientMetrics, map[string]Value{}}
	for _, k := range Keys(ScopeClientMetrics) {
		v.values[k.Name] = firstValid(k, subscription)
	}
	return v
}
