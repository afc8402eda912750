package coordinator

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// regexMinRefresh is the time that passes at least between two resolutions of a group's regular expressions.
// Source: REGEX_BATCH_REFRESH_MIN_INTERVAL_MS in GroupMetadataManager.
const regexMinRefresh = 10 * time.Second

// resolvedRegex are the topics whose whole names match a regular expression, in their order.
type resolvedRegex struct {
	topics  []string
	version int64
	ms      int64 // when it was resolved
}

// compileRegex compiles a regular expression of RE2's syntax that has to match whole names.
func compileRegex(pattern string) (*regexp.Regexp, *failure) {
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, &failure{errorcode.InvalidRegularExpression, fmt.Sprintf(
			"SubscribedTopicRegex `%s` is not a valid regular expression: %s.", pattern, regexReason(err))}
	}
	return regexp.MustCompile(`\A(?:` + pattern + `)\z`), nil
}

// regexReason says what is wrong with an expression in the words of RE2/J, which Kafka uses.
func regexReason(err error) string {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	if e.Code == syntax.ErrInvalidPerlOp {
		return "invalid or unsupported Perl syntax"
	}
	return e.Code.String()
}

// regexCounts counts the members of each regular expression.
func (cg *consumerGroup) regexCounts() map[string]int {
	n := map[string]int{}
	for _, m := range cg.members {
		if p := m.pattern(); p != "" {
			n[p]++
		}
	}
	return n
}

func (cg *consumerGroup) forgetRegex(pattern string, e *Effects) {
	delete(cg.regexes, pattern)
	cg.recordRegexRemoval(pattern, e)
}

// regexState is what decides about a resolution, as it was before the request at hand changed anything.
type regexState struct {
	resolved    int
	refreshedMs int64 // 0 if nothing is resolved
}

func (cg *consumerGroup) regexState() regexState {
	s := regexState{resolved: len(cg.regexes)}
	for _, r := range cg.regexes {
		s.refreshedMs = max(s.refreshedMs, r.ms)
	}
	return s
}

// resolveDue reports whether the regular expressions are to be resolved now: one of them never was, topics
// changed, or the refresh interval is over. It never is before the least time has passed since the last time,
// unless the coordinator waits for no interval at all.
func (cg *consumerGroup) resolveDue(now time.Time, before regexState, isNew bool) bool {
	counts := cg.regexCounts()
	if len(counts) == 0 {
		return false
	}
	since := time.Duration(now.UnixMilli()-before.refreshedMs) * time.Millisecond
	if before.resolved > 0 && since < regexMinRefresh && cg.g.config.ConsumerAssignmentInterval > 0 {
		return false
	}
	return isNew || len(counts) != before.resolved || cg.newTopics || since >= cg.g.config.ConsumerRegexRefreshInterval
}

// resolve finds the topics of all regular expressions among those that the caller may describe. The group gets a new
// epoch if any of them has other topics now, or if the group's topics have changed unseen: an expression that nobody
// has any more was forgotten without one. Source: handleRegularExpressionsResult in GroupMetadataManager.
func (cg *consumerGroup) resolve(now time.Time, c Caller, e *Effects) {
	cg.newTopics = false
	changed := false
	for _, pattern := range sortedKeys(cg.regexCounts()) {
		re, fail := compileRegex(pattern)
		if fail != nil {
			continue // checked when the member subscribed
		}
		r := &resolvedRegex{ms: now.UnixMilli()}
		for _, name := range cg.g.topics.TopicNames() {
			if re.MatchString(name) && c.allowed(kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTopic, name) {
				r.topics = append(r.topics, name)
			}
		}
		old := cg.regexes[pattern]
		if old == nil {
			old = &resolvedRegex{}
		}
		r.version = old.version + 1
		changed = changed || !slices.Equal(old.topics, r.topics)
		cg.regexes[pattern] = r
		cg.recordRegex(pattern, r, e)
	}
	if changed || topicHash(cg.g.topics, cg.names()) != cg.hash {
		cg.bump(e)
	}
}
