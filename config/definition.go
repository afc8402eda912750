// Package config knows every configuration key of Apache Kafka 4.4.0 for brokers, topics, groups and client metrics:
// type, default, documentation, range, whether and where it may be changed at run time. It parses a static broker
// configuration, keeps what the configuration APIs change, and answers these APIs (DescribeConfigs,
// IncrementalAlterConfigs, AlterConfigs, ListConfigResources) and the configuration part of CreateTopics.
//
// The package holds no goroutine, clock, file or lock. The definitions are read out of Kafka's released jars by
// gen/Definitions.java.
package config

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"sync"

	"kshare/release"
)

// definitions has one line a key, documentation the documentation of the key in the same line.
var (
	//go:embed definitions.tsv
	definitions string
	//go:embed documentation.gz
	documentation []byte
)

// Scope is the kind of resource that a key configures.
type Scope uint8

// Scopes.
const (
	ScopeBroker Scope = iota
	ScopeTopic
	ScopeGroup
	ScopeClientMetrics
	scopes
)

var scopeNames = [scopes]string{"broker", "topic", "group", "client-metrics"}

func (s Scope) String() string { return scopeNames[s] }

// Type is a key's type, numbered as DescribeConfigs v3+ answers it (ConfigEntry.ConfigType).
type Type int8

// Types. Unknown is that of a broker key that is stored though Kafka does not know it.
const (
	Unknown Type = iota
	Boolean
	String
	Int
	Short
	Long
	Double
	List
	Class
	Password
)

var typeNames = [...]string{"UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"}

func (t Type) String() string { return typeNames[t] }

// Dynamic tells where a broker key may be changed at run time.
type Dynamic uint8

// ReadOnly keys are only read at start; PerBroker keys may be set for one broker; ClusterWide keys also for the
// default of all brokers (KIP-226).
const (
	ReadOnly Dynamic = iota
	PerBroker
	ClusterWide
)

// Key is the definition of one configuration key.
type Key struct {
	Name     string
	Scope    Scope
	Type     Type
	Default  *string      // in Kafka's text form; nil is null
	Internal bool         // described only where it is set
	Dynamic  Dynamic      // of broker keys
	Since    release.Line // the line that has brought it
	Until    release.Line // the last line that has it, 0 where all later ones do
	// BrokerSynonym is the broker key that a topic or group key falls back to, "" for none.
	BrokerSynonym string

	// runtimeOnly keys are no part of a static configuration and are described only where they are set.
	runtimeOnly bool

	line     int    // of definitions, from 0
	doc      string // of a key that is not among the definitions
	check    validator
	distinct bool // a list that drops repeated elements

	parsed   sync.Once
	fallback Value // the default as a value, once it is parsed
}

// Doc is what DescribeConfigs answers as documentation.
func (k *Key) Doc() string {
	if k.runtimeOnly {
		return ""
	}
	if k.doc != "" {
		return k.doc
	}
	return docs()[k.line]
}

// docs are the documentations in the order of definitions. A broker that is not asked for them does not unpack them.
var docs = sync.OnceValue(func() []string {
	zr, err := gzip.NewReader(bytes.NewReader(documentation))
	if err == nil {
		var text []byte
		if text, err = io.ReadAll(zr); err == nil {
			lines := strings.Split(string(text), "\n")
			for i, l := range lines {
				lines[i] = unescapeDoc.Replace(l)
			}
			return lines
		}
	}
	panic("config: embedded documentation: " + err.Error())
})

// Sensitive tells that values of the key are never answered.
func (k *Key) Sensitive() bool { return k.Type == Password }

type table struct {
	keys   []*Key // in the order in which a broker describes them; internal ones last
	byName map[string]*Key
}

func (t *table) add(k *Key) {
	t.keys = append(t.keys, k)
	t.byName[k.Name] = k
}

var tables = sync.OnceValue(func() *[scopes]table {
	var ts [scopes]table
	rows := strings.Count(definitions, "\n")
	ts[ScopeBroker] = table{make([]*Key, 0, rows), make(map[string]*Key, rows)} // most of them
	for i := range ts {
		if ts[i].byName == nil {
			ts[i].byName = map[string]*Key{}
		}
	}
	line := 0
	for text := range strings.Lines(definitions) {
		k := parseDefinition(strings.TrimSuffix(text, "\n"))
		k.line = line
		ts[k.Scope].add(k)
		line++
	}
	for _, name := range throttledRates {
		k := &Key{Name: name, Scope: ScopeBroker, Type: Long, Default: &unthrottled, Internal: true, Dynamic: ClusterWide, runtimeOnly: true, check: inRange("0", "_")}
		ts[ScopeBroker].add(k)
	}
	for _, k := range removed {
		ts[k.Scope].add(k)
	}
	noteBrought(&ts)
	return &ts
})

// throttledRates are the quotas of replication, in bytes per second.
// Source: server DynamicConfig.Broker.
var throttledRates = []string{"leader.replication.throttled.rate", "follower.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second"}

var unthrottled = "9223372036854775807"

func parseDefinition(line string) *Key {
	f := strings.Split(line, "\t")
	if len(f) != 6 {
		panic(fmt.Sprintf("config: embedded definition of %d columns: %.80s", len(f), line))
	}
	k := &Key{Name: f[1]}
	for i, n := range scopeNames {
		if n == f[0] {
			k.Scope = Scope(i)
		}
	}
	for i, n := range typeNames {
		if n == f[2] {
			k.Type = Type(i)
		}
	}
	if f[3] != `\0` && f[3] != `\1` {
		k.Default = &f[3]
	}
	for flag := range strings.SplitSeq(f[4], ",") {
		switch flag {
		case "internal":
			k.Internal = true
		case "per-broker":
			k.Dynamic = PerBroker
		case "cluster-wide":
			k.Dynamic = ClusterWide
		}
	}
	k.check, k.distinct = parseValidator(f[5], k.Name), strings.HasPrefix(f[5], "list ")
	switch k.Scope {
	case ScopeTopic:
		k.BrokerSynonym = topicSynonyms[k.Name]
	case ScopeGroup:
		k.BrokerSynonym = groupSynonyms[k.Name]
	}
	return k
}

var unescapeDoc = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t")

// Keys gives all keys of a scope in the order in which Kafka describes them, internal ones last. The slice is shared:
// do not change it.
func Keys(s Scope) []*Key { return tables()[s].keys }

// Lookup gives the definition of a key, nil for an unknown one.
func Lookup(s Scope, name string) *Key { return tables()[s].byName[name] }
