package fault

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"kshare/internal/spelling"
	"kshare/protocol"
	"kshare/protocol/describe"
	"kshare/protocol/errorcode"
)

// maxHex is the most bytes that a rule may answer with.
const maxHex = 1 << 20

// Check tells why a rule could never act, or could not act as it says, in any cluster. What a key means that TxnShareAcknowledge may have is only known in a
// cluster: that the rule fits to it is looked at once it is added.
func (r *Rule) Check() error {
	if key, err := strconv.ParseInt(string(r.API), 10, 16); err == nil && protocol.TxnShareAcknowledgeMayHave(int16(key)) {
		return r.check(nil)
	}
	api, err := r.find(protocol.WithTxnShareAcknowledge(protocol.TxnShareAcknowledgeKey))
	if err != nil {
		return err
	}
	return r.check(api)
}

// find is the API that the rule names, nil where it names none.
func (r *Rule) find(apis protocol.Catalog) (*protocol.API, error) {
	if r.API == "" {
		return nil, nil
	}
	return apis.Find(string(r.API))
}

// check is Check with the API that the rule names, nil where it names none or one that is not known.
func (r *Rule) check(a *protocol.API) error {
	for _, check := range []func(*protocol.API) error{r.checkMatch, r.checkCount, r.checkAction, r.checkLevel, r.checkBytes} {
		if err := check(a); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rule) checkMatch(a *protocol.API) error {
	if r.Partition != nil && r.Topic == "" {
		return fmt.Errorf("partition=%d belongs to no topic: name topic too", *r.Partition)
	}
	if r.Partition != nil && *r.Partition < 0 {
		return fmt.Errorf("partition=%d is negative", *r.Partition)
	}
	if r.API == "" && r.Version != nil {
		return fmt.Errorf("version=%d is of no API: name api too", *r.Version)
	}
	if a == nil {
		return nil
	}
	if r.Version != nil && !a.Offers(*r.Version) && a.Name != "ApiVersions" {
		return fmt.Errorf("%s has no version %d: it has %d to %d", a.Name, *r.Version, a.MinVersion, a.Highest())
	}
	q := a.NewRequest(a.Highest())
	if q == nil {
		return fmt.Errorf("%s is not known well enough here for a rule", a.Name)
	}
	names := describe.NamesOf(q)
	switch {
	case r.Group != "" && !names.Group:
		return fmt.Errorf("a request of %s names no group: leave group=%s out", a.Name, r.Group)
	case r.Topic != "" && !names.Topic:
		return fmt.Errorf("a request of %s names no topic: leave topic=%s out", a.Name, r.Topic)
	case r.Partition != nil && !names.Partition && !hasLevel(a, Partition):
		return fmt.Errorf("a request of %s names no partition: leave partition=%d out", a.Name, *r.Partition)
	}
	return nil
}

func (r *Rule) checkCount(*protocol.API) error {
	switch {
	case r.Nth < 0:
		return fmt.Errorf("nth=%d is negative: the first match is 1", r.Nth)
	case r.Times < 0:
		return fmt.Errorf("times=%d is negative: leave it out for a rule that acts for ever", r.Times)
	case !(r.Probability >= 0 && r.Probability <= 1):
		return fmt.Errorf("probability=%v is not between 0 and 1", r.Probability)
	case r.Seed != 0 && r.Probability == 0 && r.Flip == 0:
		return fmt.Errorf("seed=%d is drawn from by probability and flip alone: leave it out or add one of them", r.Seed)
	}
	return nil
}

// actions are the actions of the rule.
func (r *Rule) actions() (all []string) {
	for _, a := range []struct {
		name string
		set  bool
	}{{"error", r.Error != ""}, {"delay", r.Delay != 0}, {"hold", r.Hold}, {"close", r.Close}, {"silence", r.Silence}} {
		if a.set {
			all = append(all, a.name)
		}
	}
	if r.alters() {
		all = append(all, "wrong bytes")
	}
	return all
}

func (r *Rule) checkAction(*protocol.API) error {
	actions := r.actions()
	switch len(actions) {
	case 0:
		return fmt.Errorf("the rule does nothing: give it one of error, delay, hold, close, silence, hex, truncate, flip and length")
	case 1:
	default:
		return fmt.Errorf("the rule does %s: a rule has one action, add a rule for each", strings.Join(actions, " and "))
	}
	switch {
	case r.Stage != "" && r.Stage != Before && r.Stage != After:
		return fmt.Errorf("stage=%s is neither before nor after", r.Stage)
	case r.Stage == Before && r.alters():
		return fmt.Errorf("stage=before has no answer yet whose bytes could be wrong: leave stage out")
	case r.Delay < 0:
		return fmt.Errorf("delay=%v is negative", r.Delay)
	case r.Hold && r.Name == "":
		return fmt.Errorf("a rule that holds is released by its name: add name")
	case r.Level != "" && r.Error == "":
		return fmt.Errorf("level=%s is where an error goes: add error, or leave level out", r.Level)
	}
	return nil
}

func (r *Rule) checkLevel(a *protocol.API) error {
	if r.Error == "" {
		return nil
	}
	if code, err := findCode(string(r.Error)); err != nil {
		return err
	} else if code == errorcode.None {
		return fmt.Errorf("error=%s is no error", r.Error)
	}
	if r.Level == "" {
		return nil
	}
	known := false
	for _, level := range allLevels {
		known = known || level == r.Level
	}
	if !known {
		return fmt.Errorf("level=%s: the levels are %s", r.Level, joinLevels(allLevels))
	}
	if a != nil && !hasLevel(a, r.Level) {
		return fmt.Errorf("an answer of %s has no error at level %s: it has them at %s", a.Name, r.Level, joinLevels(levelsOf(a)))
	}
	if r.Level == Acknowledge && r.API == "" {
		return fmt.Errorf("level=acknowledge is of ShareFetch alone: add api=ShareFetch")
	}
	return nil
}

func (r *Rule) checkBytes(*protocol.API) error {
	switch {
	case r.Hex != "" && len(r.Hex)/2 > maxHex:
		return fmt.Errorf("hex has %d bytes: it may have %d", len(r.Hex)/2, maxHex)
	case r.Truncate != nil && *r.Truncate < 0:
		return fmt.Errorf("truncate=%d is negative", *r.Truncate)
	case r.Flip < 0:
		return fmt.Errorf("flip=%d is negative", r.Flip)
	}
	if _, err := hex.DecodeString(r.Hex); err != nil {
		return fmt.Errorf("hex=%s is not bytes, two hexadecimal digits each", clip([]byte(r.Hex)))
	}
	return nil
}

// findCode finds an error code by its name or number. The number need not be one that Kafka knows.
func findCode(text string) (int16, error) {
	if n, err := strconv.ParseInt(text, 10, 16); err == nil {
		return int16(n), nil
	}
	if code, ok := errorcode.Code(text); ok {
		return code, nil
	}
	return 0, fmt.Errorf("no error of Kafka is called %q%s", text, spelling.DidYouMean(text, errorcode.Names()))
}
