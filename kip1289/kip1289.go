// Package kip1289 lists the points on which the texts and drafts of KIP-1289 (transactional acknowledgements of share groups) differ, or on which the
// draft does not keep its promise: each is a switch with a default under which every acknowledgement of a
// transaction takes effect once or not at all.
//
// Sources, as they are named in the switches: "text" is the KIP's text, "draft" the draft implementation (apache/kafka pull request 22357, its latest
// form unless said), "kshare" a decision of this broker.
package kip1289

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kshare/protocol"
)

// Names of switches.
const (
	APIKey                = "txn.share.ack.api.key"
	Route                 = "txn.share.ack.route"
	FeatureGate           = "feature.gate"
	AbortState            = "abort.state"
	AllowRelease          = "allow.release.in.txn"
	AllowGap              = "allow.gap.in.txn"
	DeliveryLimitOnAbort  = "delivery.limit.on.abort"
	MemberValidation      = "member.validation"
	EpochMatch            = "epoch.match"
	LateStageFence        = "late.stage.fence"
	StageRevertRearms     = "stage.revert.rearms.lock"
	StageBelowStart       = "stage.below.start"
	LeaderRefresh         = "leader.refresh"
	PersistedMerge        = "persisted.merge"
	CoordinatorEpochCheck = "coordinator.epoch.check"
	KeepPreparedTxn       = "keep.prepared.txn"
)

// Switch is one point on which there is a choice.
type Switch struct {
	Name    string
	Subject string // what is chosen
	Sides   []Side // the default first
}

// Side is one choice of a switch.
type Side struct {
	Value string // "N" stands for a number
	Does  string
	Says  string // who says it
}

// Default is the value that holds unless another is set.
func (s *Switch) Default() string {
	if s.Name == APIKey {
		return strconv.Itoa(int(protocol.TxnShareAcknowledgeKey))
	}
	return s.Sides[0].Value
}

// List is all switches in the order in which people read them.
var List = []Switch{
	{APIKey, "the API key of TxnShareAcknowledge", []Side{
		{"N", "95 unless set; 93 and 94 were used too", "draft, where the next free number was taken each time"},
	}},
	{Route, "who takes the acknowledgements", []Side{
		{"leader", "the leader of the source partition", "draft"},
		{"coordinators", "the group's coordinator, which has the leaders stage them", "text"},
	}},
	{FeatureGate, "when transactional acknowledgements are taken", []Side{
		{"levels", "from share.version 3 and transaction.version 2 on", "draft"},
		{"open", "always", "kshare"},
	}},
	{AbortState, "what an abort makes of a record", []Side{
		{"available", "AVAILABLE: anybody may have it", "draft; the text's test plan"},
		{"acquired", "ACQUIRED by its former holder, with a new lock; AVAILABLE where nobody is known", "text, section 2"},
	}},
	{AllowRelease, "whether RELEASE may be part of a transaction", []Side{
		{"false", "INVALID_REQUEST", "draft"},
		{"true", "a commit makes it AVAILABLE, and an abort too", "text"},
	}},
	{AllowGap, "whether a gap (type 0) may be part of a transaction", []Side{
		{"true", "a commit archives it", "draft"},
		{"false", "INVALID_REQUEST: batches with control records cannot be acknowledged whole", "draft, second form"},
	}},
	{DeliveryLimitOnAbort, "whether an abort ends a delivery as a release does", []Side{
		{"enforce", "a record that was delivered as often as allowed is archived", "kshare, after KIP-1240"},
		{"ignore", "it is AVAILABLE and delivered once more", "draft"},
	}},
	{MemberValidation, "whether the member and its epoch are checked", []Side{
		{"coordinator", "by the group coordinator: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH; the previous epoch is taken", "draft"},
		{"off", "not at all: a member that was removed stages what it still holds", "draft, second form"},
	}},
	{EpochMatch, "which transaction a marker ends", []Side{
		{"at-or-below", "those of the producer with an epoch below the marker's, and up to transaction.version 1 also with the marker's", "kshare"},
		{"exact", "that with the epoch before the marker's: others wait for ever", "draft"},
	}},
	{LateStageFence, "whether staging for a transaction that has ended is refused", []Side{
		{"on", "INVALID_PRODUCER_EPOCH, or TRANSACTION_ABORTABLE where the end has kept the epoch or the share coordinator has changed meanwhile", "kshare, with guards as Kafka's logs have them"},
		{"off", "it is stored, and waits for ever, or is decided with the next transaction of the same epoch", "draft"},
	}},
	{StageRevertRearms, "what becomes of the lock of a record that could not be staged", []Side{
		{"on", "it goes on", "kshare"},
		{"off", "there is none: the record is held until its holder leaves", "draft"},
	}},
	{StageBelowStart, "what becomes of an acknowledgement of records that the start offset has passed", []Side{
		{"refuse", "INVALID_RECORD_STATE", "kshare"},
		{"pass", "it is taken and does nothing: a member whose lock ended commits its output beside that of the member that had the records next", "draft"},
	}},
	{LeaderRefresh, "how a leader learns of the end of a transaction", []Side{
		{"targeted", "it is told of the records that are decided", "draft, in effect"},
		{"reload", "it reads the partition anew and forgets who holds what", "draft, second form"},
	}},
	{PersistedMerge, "which of two writes of one delivery stands", []Side{
		{"last-writer", "the later one, where one of them is TX_PENDING", "kshare"},
		{"higher-state", "the higher state: nothing gets past TX_PENDING but a marker", "draft"},
	}},
	{CoordinatorEpochCheck, "whether markers of a replaced transaction coordinator are refused", []Side{
		{"on", "TRANSACTION_COORDINATOR_FENCED", "kshare, as for other partitions"},
		{"off", "they are taken", "draft"},
	}},
	{KeepPreparedTxn, "whether a transaction that its owner has prepared can be kept by the next (KIP-939, version 6 of InitProducerId)", []Side{
		{"refuse", "UNSUPPORTED_VERSION", "Apache Kafka 4.4.0, which has not finished KIP-939"},
		{"keep", "it goes on as it is, and the next owner ends it", "KIP-939 and its draft (apache/kafka pull request 21735)"},
	}},
}

// Find returns the switch with a name, nil where there is none.
func Find(name string) *Switch {
	if i := slices.IndexFunc(List, func(s Switch) bool { return s.Name == name }); i >= 0 {
		return &List[i]
	}
	return nil
}

// Switches are the values that differ from the defaults. The zero value has none; a value is not changed once it is shared.
type Switches struct{ values map[string]string }

// With returns the switches with one more set. It is an error if there is no such switch, or it has no such value.
func (s Switches) With(name, value string) (Switches, error) {
	w := Find(name)
	if w == nil {
		names := make([]string, len(List))
		for i := range List {
			names[i] = List[i].Name
		}
		return s, fmt.Errorf("KIP-1289 has no switch %q; there are %s", name, strings.Join(names, ", "))
	}
	if err := w.check(value); err != nil {
		return s, fmt.Errorf("switch %s of KIP-1289: %w", name, err)
	}
	values := maps.Clone(s.values)
	if values == nil {
		values = map[string]string{}
	}
	values[name] = value
	return Switches{values}, nil
}

func (w *Switch) check(value string) error {
	if w.Name == APIKey {
		n, err := strconv.ParseInt(value, 10, 16)
		switch {
		case err != nil || n < 0:
			return fmt.Errorf("%q is no API key, which is 0 to 32767", value)
		case !protocol.TxnShareAcknowledgeMayHave(int16(n)):
			return fmt.Errorf("key %d is that of %s", n, protocol.APIByKey(int16(n)).Name)
		}
		return nil
	}
	values := make([]string, len(w.Sides))
	for i, side := range w.Sides {
		values[i] = side.Value
	}
	if !slices.Contains(values, value) {
		return fmt.Errorf("%q is none of its values, which are %s", value, strings.Join(values, " and "))
	}
	return nil
}

// Parse reads switches of the form name=value.
func Parse(texts ...string) (Switches, error) {
	var s Switches
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return s, errors.New("a switch of KIP-1289 is name=value, not " + strconv.Quote(text))
		}
		var err error
		if s, err = s.With(name, value); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Value is the value of a switch.
func (s Switches) Value(name string) string {
	if v, ok := s.values[name]; ok {
		return v
	}
	return Find(name).Default()
}

// Is tells whether a switch has a value.
func (s Switches) Is(name, value string) bool { return s.Value(name) == value }

// Key is the API key of TxnShareAcknowledge.
func (s Switches) Key() int16 {
	n, _ := strconv.ParseInt(s.Value(APIKey), 10, 16) // checked when it was set
	return int16(n)
}

// Set are the switches that do not have their defaults, as name=value, in the order of List.
func (s Switches) Set() []string {
	var set []string
	for i := range List {
		if v := s.Value(List[i].Name); v != List[i].Default() {
			set = append(set, List[i].Name+"="+v)
		}
	}
	return set
}
