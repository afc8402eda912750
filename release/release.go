// Package release says in what the lines of Apache Kafka differ that kshare can be: those that have share groups for production. Everything else is
// as 4.4 has it.
package release

import (
	"fmt"
	"slices"
	"strings"
)

// Line is a line of releases. A later one is greater; 0 is none.
type Line int8

// The lines, by their first releases 4.2.0, 4.3.0 and 4.4.0.
const (
	Kafka42 Line = iota + 1
	Kafka43
	Kafka44
	lines

	Latest = lines - 1
)

// String is the line as people write it.
func (l Line) String() string { return names[l] }

var names = [lines]string{Kafka42: "4.2", Kafka43: "4.3", Kafka44: "4.4"}

// Parse reads a line, as in 4.3.
func Parse(text string) (Line, error) {
	if l := slices.Index(names[1:], text); text != "" && l >= 0 {
		return Line(l) + 1, nil
	}
	return 0, fmt.Errorf("%q is no line of Apache Kafka that is known here; there are %s", text, strings.Join(names[1:], ", "))
}

// Traits are what a line does in its own way. Its configuration keys are package config's.
type Traits struct {
	// MetadataVersion and ShareVersion are the highest levels of the features, which new clusters finalise. Level 2 of share.version brings dead-letter queues.
	MetadataVersion, ShareVersion int16
	// MaxVersion are the highest versions of the APIs that later lines have more versions of; -1 is an API that later lines have brought.
	MaxVersion map[int16]int16

	// FirstEpoch is the epoch of a share or consumer group before its first member joins.
	FirstEpoch int32
	// AssignmentInterval tells that a share or consumer group has an interval between two assignments (KIP-1263); otherwise each epoch has one at once.
	AssignmentInterval bool
	// LooksWhileAssigning tells that a share group looks at each heartbeat whether members lack partitions, also while an assignment is due anyway: leaving
	// members raise the epoch twice.
	LooksWhileAssigning bool
	// EpochsOfEmptyGroupsMeet tells that a share group which loses its last member has one epoch, for group and assignment (KAFKA-20442).
	EpochsOfEmptyGroupsMeet bool
	// AddedPartitionsFromStart tells that a partition added to a topic that a share group knows begins at 0, whatever share.auto.offset.reset says (KAFKA-20742).
	AddedPartitionsFromStart bool

	// StartNeverFalls tells that a share coordinator keeps the higher start offset of a write and what it has.
	StartNeverFalls bool
	// EpochsMayBeLeftOut tells that -1 as the leader or state epoch of a WriteShareGroupState is not checked, rather than refused; a leader epoch of
	// ReadShareGroupState that is negative is an old one then.
	EpochsMayBeLeftOut bool
	// FencedStateEpoch is what a share coordinator says of a state epoch that is too old.
	FencedStateEpoch string
	// UnknownTopicsFailFetches tells that a ShareFetch whose session has a topic id that is none fails as a whole, with UNKNOWN_SERVER_ERROR.
	UnknownTopicsFailFetches bool
	// CountsAlteredOffsets tells that a share partition whose start offset is set has a lag before anything of it is acknowledged.
	CountsAlteredOffsets bool

	// BoundsAreNamed tells that a group's configuration out of bounds is refused with the name of the broker's bound, rather than with the bounds.
	BoundsAreNamed bool
	// GroupsFallBackToBrokers tells that a group's configuration is described with the broker's behind it.
	GroupsFallBackToBrokers bool
}

// Keys of APIs that changed.
const (
	apiVersions                 = 18
	txnOffsetCommit             = 28
	describeLogDirs             = 35
	deleteGroups                = 42
	streamsGroupHeartbeat       = 88
	streamsGroupDescribe        = 89
	streamsGroupTopology        = 93
	unregisterController        = 94
	broughtLater          int16 = -1
)

// What share coordinators say of a state epoch that is too old.
const (
	oldStateEpoch          = "The coordinator rejected the request because the state epoch did not match."
	oldStateEpochBefore4_4 = "The share coordinator rejected the request because the share-group state epoch did not match."
)

var traits = [lines]Traits{
	Kafka42: {
		MetadataVersion: 29,
		ShareVersion:    1,
		MaxVersion: map[int16]int16{
			apiVersions: 4, txnOffsetCommit: 5, describeLogDirs: 4, deleteGroups: 2, streamsGroupHeartbeat: 0, streamsGroupDescribe: 0,
			streamsGroupTopology: broughtLater, unregisterController: broughtLater,
		},
		FirstEpoch:               0,
		LooksWhileAssigning:      true,
		EpochsMayBeLeftOut:       true,
		FencedStateEpoch:         oldStateEpochBefore4_4,
		UnknownTopicsFailFetches: true,
		BoundsAreNamed:           true,
	},
	Kafka43: {
		MetadataVersion: 30,
		ShareVersion:    1,
		MaxVersion: map[int16]int16{
			apiVersions: 4, txnOffsetCommit: 5, deleteGroups: 2, streamsGroupHeartbeat: 0, streamsGroupDescribe: 0,
			streamsGroupTopology: broughtLater, unregisterController: broughtLater,
		},
		FirstEpoch:               1,
		AssignmentInterval:       true,
		EpochsMayBeLeftOut:       true,
		FencedStateEpoch:         oldStateEpochBefore4_4,
		UnknownTopicsFailFetches: true,
		CountsAlteredOffsets:     true,
		BoundsAreNamed:           true,
		GroupsFallBackToBrokers:  true,
	},
	Kafka44: {
		MetadataVersion:          33,
		ShareVersion:             2,
		FirstEpoch:               1,
		AssignmentInterval:       true,
		EpochsOfEmptyGroupsMeet:  true,
		AddedPartitionsFromStart: true,
		StartNeverFalls:          true,
		FencedStateEpoch:         oldStateEpoch,
		CountsAlteredOffsets:     true,
		GroupsFallBackToBrokers:  true,
	},
}

// Traits are what the line does in its own way. They are not to be changed.
func (l Line) Traits() *Traits { return &traits[l] }

// Highest is the highest version of an API that the line offers, given that of the latest; -1 where it does not have the API.
func (t *Traits) Highest(key, latest int16) int16 {
	if v, ok := t.MaxVersion[key]; ok {
		return v
	}
	return latest
}
