package connect

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kshare/internal/spelling"
)

// ConfigError is what is wrong with a property.
type ConfigError struct{ Property, Problem string }

func (e *ConfigError) Error() string { return e.Property + " " + e.Problem }

// wrong is what is wrong with the value of a property.
func wrong(property, value, problem string) *ConfigError {
	return &ConfigError{property, fmt.Sprintf("%q %s", value, problem)}
}

// Properties of connectors and workers.
const (
	nameKey        = "name"
	classKey       = "connector.class"
	tasksMaxKey    = "tasks.max"
	topicsKey      = "topics"
	regexKey       = "topics.regex"
	overrideKey    = "consumer.override.group.protocol"
	workerKey      = "consumer.group.protocol"
	policyKey      = "connector.client.config.override.policy"
	groupIDKey     = "share.group.id"
	modeKey        = "share.acknowledgement.mode"
	lockKey        = "share.acquisition.lock.timeout.ms"
	commitKey      = "share.commit.interval.ms"
	scopeKey       = "share.reject.scope"
	exactlyOnceKey = "exactly.once.support"
	toleranceKey   = "errors.tolerance"
	retryKey       = "errors.retry.timeout"
	retryDelayKey  = "errors.retry.delay.max.ms"
	logKey         = "errors.log.enable"
	logMessagesKey = "errors.log.include.messages"
	deadKey        = "errors.deadletterqueue.topic.name"
	deadCopiesKey  = "errors.deadletterqueue.topic.replication.factor"
	deadContextKey = "errors.deadletterqueue.context.headers.enable"
	bootstrapKey   = "bootstrap.servers"
	shutdownKey    = "task.shutdown.graceful.timeout.ms"
	flushKey       = "offset.flush.interval.ms"
	metadataAgeKey = "metadata.max.age.ms"
)

// connectorKeys are the properties that the worker knows of a connector; what else there is, is the plug-in's.
var connectorKeys = []string{
	nameKey, classKey, tasksMaxKey, topicsKey, regexKey, groupIDKey, modeKey, lockKey, commitKey, scopeKey, exactlyOnceKey, toleranceKey, retryKey, retryDelayKey,
	logKey, logMessagesKey, deadKey, deadCopiesKey, deadContextKey, overrideKey, "key.converter", "value.converter", "header.converter", "transforms", "predicates",
	"config.action.reload", "tasks.max.enforce", "consumer.override.group.id",
}

// Protocols of groups.
const (
	classicProtocol  = "classic"
	consumerProtocol = "consumer"
	shareProtocol    = "share"
)

// settings are a connector's configuration, resolved against the worker's.
type settings struct {
	name, class string
	tasksMax    int
	topics      []string
	regex       *regexp.Regexp // instead of topics
	config      map[string]string

	protocol       string // classic, consumer or share
	protocolFrom   string // the property that says so
	group, groupBy string // its id and the property that says so

	implicit       bool          // share.acknowledgement.mode
	lock           time.Duration // share.acquisition.lock.timeout.ms, 0 leaves the group's
	commitInterval time.Duration // 0 commits after each put
	rejectBatch    bool          // share.reject.scope=batch
	exactlyOnce    bool

	tolerateAll   bool
	retryTimeout  time.Duration // 0 for no retry, negative without an end
	retryDelayMax time.Duration
	logErrors     bool
	logMessages   bool
	deadLetters   string // topic, "" for none
	deadCopies    int16
	deadContext   bool // headers, in an ordinary group

	maxPollRecords  int32
	recordLimit     bool
	maxWait         time.Duration
	maxPollInterval time.Duration
	metadataAge     time.Duration
	offsetReset     string
	isolation       string
	transactionalID string // of the tasks, without their numbers
	flushInterval   time.Duration
	shutdown        time.Duration

	key, value converter
	transforms []transform
}

// reader reads properties and keeps the first thing that is wrong.
type reader struct {
	of  map[string]string
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// number is a whole number within bounds.
func (r *reader) number(key string, def, least, most int64) int64 {
	text, ok := r.of[key]
	if !ok {
		return def
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	switch {
	case err != nil:
		r.fail(wrong(key, text, "is not a whole number"))
	case n < least:
		r.fail(wrong(key, text, fmt.Sprintf("is below %d", least)))
	case n > most:
		r.fail(wrong(key, text, fmt.Sprintf("is above %d", most)))
	}
	return n
}

// maxMillis is the longest time in ms that is taken: what an int32 holds, as in Kafka.
const maxMillis = math.MaxInt32

func (r *reader) millis(key string, def time.Duration, least int64) time.Duration {
	return time.Duration(r.number(key, def.Milliseconds(), least, maxMillis)) * time.Millisecond
}

func (r *reader) boolean(key string, def bool) bool {
	switch text := r.of[key]; strings.ToLower(strings.TrimSpace(text)) {
	case "":
		return def
	case "true":
		return true
	case "false":
		return false
	default:
		r.fail(wrong(key, text, "is not true or false"))
		return def
	}
}

// one is one of several words, the first of which is the default.
func (r *reader) one(key string, words ...string) string {
	text, ok := r.of[key]
	if !ok {
		return words[0]
	}
	for _, w := range words {
		if strings.EqualFold(strings.TrimSpace(text), w) {
			return w
		}
	}
	r.fail(wrong(key, text, "is none of "+strings.Join(words, ", ")))
	return words[0]
}

// list are the words of a list.
func list(text string) (words []string) {
	for _, w := range strings.Split(text, ",") {
		if w = strings.TrimSpace(w); w != "" {
			words = append(words, w)
		}
	}
	return words
}

// fullMatch is an expression for whole names, as Kafka's are.
func fullMatch(text string) (*regexp.Regexp, error) { return regexp.Compile("^(?:" + text + ")$") }

// resolve makes the settings of a connector of its properties and the worker's. The error is a *ConfigError.
func resolve(worker, connector map[string]string) (*settings, error) {
	s := &settings{name: connector[nameKey], class: connector[classKey], config: maps.Clone(connector)}
	for key := range connector {
		if slices.Contains(connectorKeys, key) {
			continue
		}
		if meant := spelling.Slip(key, connectorKeys); meant != "" {
			return nil, &ConfigError{key, "is unknown: did you mean " + meant + "?"}
		}
	}
	r := &reader{of: connector}
	for _, key := range []string{nameKey, classKey} {
		if connector[key] == "" {
			r.fail(&ConfigError{key, "is missing"})
		}
	}
	s.tasksMax = int(r.number(tasksMaxKey, 1, 1, 10_000))
	s.resolveTopics(r)
	of, err := clientProperties(worker, connector)
	if err != nil {
		return nil, err
	}
	s.resolveProtocol(worker, connector, of, r)
	s.resolveShare(r)
	s.resolveErrors(r)
	w := &reader{of: worker}
	s.shutdown = w.millis(shutdownKey, 5*time.Second, 0)
	s.flushInterval = w.millis(flushKey, time.Minute, 1)
	for _, one := range []*reader{r, w} {
		if one.err != nil {
			return nil, one.err
		}
	}
	if err := s.resolveClients(of); err != nil {
		return nil, err
	}
	if s.key, err = converterOf("key.converter", worker, connector); err != nil {
		return nil, err
	}
	if s.value, err = converterOf("value.converter", worker, connector); err != nil {
		return nil, err
	}
	if s.transforms, err = newTransforms(connector); err != nil {
		return nil, err
	}
	return s, s.contradictions(connector)
}

func (s *settings) resolveTopics(r *reader) {
	s.topics = list(r.of[topicsKey])
	slices.Sort(s.topics)
	s.topics = slices.Compact(s.topics)
	text, ok := r.of[regexKey]
	switch {
	case ok && len(s.topics) > 0:
		r.fail(&ConfigError{topicsKey, "and " + regexKey + " exclude each other"})
	case ok:
		var err error
		if s.regex, err = fullMatch(text); err != nil {
			r.fail(wrong(regexKey, text, "is no expression: "+err.Error()))
		}
	case len(s.topics) == 0:
		r.fail(&ConfigError{topicsKey, "is missing, and " + regexKey + " too"})
	}
}

// client is a property of a client and the property that it was given by.
type client struct{ value, by string }

// clientProperties are those of the connector's clients: consumer.* of the worker, over which consumer.override.* of the connector stands, and producer likewise.
func clientProperties(worker, connector map[string]string) (map[string]client, error) {
	of := map[string]client{}
	for key, v := range worker {
		if strings.HasPrefix(key, "consumer.") || strings.HasPrefix(key, "producer.") {
			of[key] = client{v, key}
		}
	}
	policy := worker[policyKey]
	switch policy {
	case "", "All", "None", "Principal":
	default:
		return nil, wrong(policyKey, policy, "is none of All, None, Principal")
	}
	for _, key := range slices.Sorted(maps.Keys(connector)) {
		kind, name, ok := strings.Cut(key, ".override.")
		if !ok || kind != "consumer" && kind != "producer" {
			continue
		}
		if policy == "None" || policy == "Principal" && !strings.HasPrefix(name, "sasl.") && name != "security.protocol" {
			return nil, &ConfigError{key, "is not allowed by the worker's " + policyKey + "=" + policy}
		}
		of[kind+"."+name] = client{connector[key], key}
	}
	return of, nil
}

// resolveProtocol finds the group: the connector's word stands over the worker's.
func (s *settings) resolveProtocol(worker, connector map[string]string, of map[string]client, r *reader) {
	p, ok := of[workerKey]
	s.protocol, s.protocolFrom = classicProtocol, workerKey
	if ok {
		s.protocol, s.protocolFrom = strings.ToLower(strings.TrimSpace(p.value)), p.by
	}
	switch s.protocol {
	case classicProtocol, consumerProtocol, shareProtocol:
	default:
		r.fail(wrong(s.protocolFrom, p.value, "is none of classic, consumer, share"))
	}
	s.group, s.groupBy = "connect-"+s.name, nameKey
	if g, ok := of["consumer.group.id"]; ok {
		s.group, s.groupBy = g.value, g.by
	}
	if text, ok := connector[groupIDKey]; ok && s.protocol == shareProtocol {
		s.group, s.groupBy = text, groupIDKey
	}
	if s.group == "" {
		r.fail(wrong(s.groupBy, s.group, "is empty"))
	}
}

func (s *settings) resolveShare(r *reader) {
	s.implicit = r.one(modeKey, "explicit", "implicit") == "implicit"
	s.lock = r.millis(lockKey, 0, 1)
	s.commitInterval = r.millis(commitKey, 0, 0)
	s.rejectBatch = r.one(scopeKey, "record", "batch") == "batch"
	s.exactlyOnce = r.one(exactlyOnceKey, "disabled", "required") == "required"
}

func (s *settings) resolveErrors(r *reader) {
	s.tolerateAll = r.one(toleranceKey, "none", "all") == "all"
	s.retryTimeout = r.millis(retryKey, 0, -1)
	s.retryDelayMax = r.millis(retryDelayKey, time.Minute, 1)
	s.logErrors = r.boolean(logKey, false)
	s.logMessages = r.boolean(logMessagesKey, false)
	s.deadLetters = strings.TrimSpace(r.of[deadKey])
	s.deadCopies = int16(r.number(deadCopiesKey, 3, 1, math.MaxInt16))
	s.deadContext = r.boolean(deadContextKey, false)
	if s.deadLetters == "" {
		return
	}
	if slices.Contains(s.topics, s.deadLetters) || s.regex != nil && s.regex.MatchString(s.deadLetters) {
		r.fail(wrong(deadKey, s.deadLetters, "is one of the topics that are read"))
	}
}

// resolveClients reads what the clients are told; whatever is not named here is theirs to know, and no client of this worker does.
func (s *settings) resolveClients(of map[string]client) error {
	plain := map[string]string{}
	for key, c := range of {
		plain[key] = c.value
	}
	r := &reader{of: plain}
	s.maxPollRecords = int32(r.number("consumer.max.poll.records", 500, 1, math.MaxInt32))
	s.maxWait = r.millis("consumer.fetch.max.wait.ms", 500*time.Millisecond, 0)
	s.maxPollInterval = r.millis("consumer.max.poll.interval.ms", 5*time.Minute, 1)
	s.metadataAge = r.millis("consumer."+metadataAgeKey, 5*time.Minute, 1)
	s.recordLimit = r.one("consumer.share.acquire.mode", "batch_optimized", "record_limit") == "record_limit"
	s.offsetReset = r.one("consumer.auto.offset.reset", "earliest", "latest")
	s.isolation = r.one("consumer.isolation.level", "read_uncommitted", "read_committed")
	s.transactionalID = cmp.Or(plain["producer.transactional.id"], "connect-"+s.name)
	if c, ok := r.err.(*ConfigError); ok {
		return &ConfigError{of[c.Property].by, c.Problem}
	}
	return nil
}

// converterOf is the converter of the connector, or else of the worker, with the properties of where it is named.
func converterOf(property string, worker, connector map[string]string) (converter, error) {
	of, class := connector, connector[property]
	if class == "" {
		of, class = worker, worker[property]
	}
	if class == "" {
		return nil, &ConfigError{property, "is missing, and the worker has none"}
	}
	return newConverter(property, class, of)
}

// contradictions tells of properties that exclude each other.
func (s *settings) contradictions(connector map[string]string) error {
	if !s.exactlyOnce {
		return nil
	}
	switch {
	case s.protocol != shareProtocol:
		return wrong(exactlyOnceKey, "required", "needs "+overrideKey+"=share")
	case s.implicit:
		return wrong(modeKey, "implicit", "acknowledges outside of transactions: "+exactlyOnceKey+"=required needs explicit")
	case s.commitInterval > 0:
		return wrong(commitKey, connector[commitKey], "puts off what "+exactlyOnceKey+"=required does in a transaction for each poll")
	case connector["errors.retry.timeout"] != "" && s.retryTimeout != 0:
		return wrong(retryKey, connector[retryKey], "puts again what "+exactlyOnceKey+"=required aborts")
	}
	return nil
}

// unused are properties of share groups that have no effect since the group is none: what is left after share was taken out again.
func (s *settings) unused() (keys []string) {
	if s.protocol == shareProtocol {
		return nil
	}
	for _, key := range []string{groupIDKey, modeKey, lockKey, commitKey, scopeKey} {
		if _, ok := s.config[key]; ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// checkWorker tells what is wrong with the worker's properties by themselves.
func checkWorker(worker map[string]string) error {
	if len(list(worker[bootstrapKey])) == 0 {
		return &ConfigError{bootstrapKey, "is missing"}
	}
	r := &reader{of: worker}
	r.one(workerKey, classicProtocol, consumerProtocol, shareProtocol)
	r.one(policyKey, "All", "None", "Principal")
	r.millis(shutdownKey, 0, 0)
	r.millis(flushKey, time.Minute, 1)
	if r.err != nil {
		return r.err
	}
	for _, property := range []string{"key.converter", "value.converter"} {
		if class := worker[property]; class != "" {
			if _, err := newConverter(property, class, worker); err != nil {
				return err
			}
		}
	}
	return nil
}
