package sharecoordinator

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var exampleKey = Key{Group: "g1", Topic: [16]byte{0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xaf}, Partition: 3}

// The fields of ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey and ShareUpdateValue
// (share-coordinator/src/main/resources/common/message), one a line.
const (
	exampleKeyFields = `
		0002 6731                         GroupId, not flexible
		a0 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e af
		00000003                          Partition`
	exampleSnapshot = `
		0000                              version
		00000002                          SnapshotEpoch
		00000005                          StateEpoch
		00000007                          LeaderEpoch
		000000000000000a                  StartOffset
		0000000000000064                  CreateTimestamp
		0000000000000065                  WriteTimestamp
		03                                StateBatches, two
		000000000000000a 000000000000000b 02 0001 00
		000000000000000f 0000000000000010 00 0003 00`
	exampleUpdate = `
		0000                              version
		00000002                          SnapshotEpoch
		00000007                          LeaderEpoch
		000000000000000a                  StartOffset
		02                                StateBatches, one
		000000000000000a 000000000000000b 02 0001 00`
	countIsFour = `
		01 00 04 00000004                 tag 0, DeliveryCompleteCount`
	noTags = `
		00                                no tags: DeliveryCompleteCount is -1`
)

// fields is the bytes of a text like those above.
func fields(t *testing.T, text string) []byte {
	var digits strings.Builder
	for line := range strings.Lines(text) {
		for _, word := range strings.Fields(line) {
			if _, err := hex.DecodeString(word); err != nil {
				break // the rest is prose
			}
			digits.WriteString(word)
		}
	}
	b, err := hex.DecodeString(digits.String())
	require.NoError(t, err)
	return b
}

func TestRecordsAreKafkas(t *testing.T) {
	batches := []Batch{{10, 11, 2, 1, Staged{}}, {15, 16, 0, 3, Staged{}}}
	snapshot := func(complete int32) *Snapshot {
		return &Snapshot{
			State:         State{StateEpoch: 5, LeaderEpoch: 7, StartOffset: 10, DeliveryCompleteCount: complete, Batches: batches},
			SnapshotEpoch: 2, CreateTimestamp: 100, WriteTimestamp: 101,
		}
	}
	update := func(complete int32) *UpdateRecord {
		return &UpdateRecord{SnapshotEpoch: 2, LeaderEpoch: 7, StartOffset: 10, DeliveryCompleteCount: complete, Batches: batches[:1]}
	}
	for name, c := range map[string]struct {
		record     Record
		key, value string
	}{
		"snapshot":               {Record{Key: exampleKey, Snapshot: snapshot(4)}, "0000", exampleSnapshot + countIsFour},
		"snapshot without count": {Record{Key: exampleKey, Snapshot: snapshot(-1)}, "0000", exampleSnapshot + noTags},
		"update":                 {Record{Key: exampleKey, Update: update(4)}, "0001", exampleUpdate + countIsFour},
		"update without count":   {Record{Key: exampleKey, Update: update(-1)}, "0001", exampleUpdate + noTags},
		"tombstone":              {Record{Key: exampleKey}, "0000", ""},
	} {
		t.Run(name, func(t *testing.T) {
			key, value := c.record.Encode()
			assert.Equal(t, fields(t, c.key+exampleKeyFields), key)
			if c.value == "" {
				assert.Nil(t, value)
			} else {
				assert.Equal(t, fields(t, c.value), value)
			}
			read, err := Decode(key, value)
			require.NoError(t, err)
			assert.Equal(t, c.record, read)
		})
	}
}

func TestDecodeSkipsUnknownTags(t *testing.T) {
	key := fields(t, "0000"+exampleKeyFields)
	r, err := Decode(key, fields(t, exampleSnapshot+" 02 00 04 00000004 07 02 ffff"))
	require.NoError(t, err)
	assert.Equal(t, int32(4), r.Snapshot.DeliveryCompleteCount)
}

func TestDecodeRefuses(t *testing.T) {
	key := fields(t, "0000"+exampleKeyFields)
	value := fields(t, exampleSnapshot+countIsFour)
	for n := range value {
		_, err := Decode(key, value[:n:n])
		require.Error(t, err, "a value of %d of %d bytes", n, len(value))
	}
	for n := range key {
		_, err := Decode(key[:n:n], value)
		require.Error(t, err, "a key of %d of %d bytes", n, len(key))
	}
	for name, c := range map[string]struct{ key, value, err string }{
		"type":            {"0002" + exampleKeyFields, exampleSnapshot + noTags, "unknown type 2"},
		"version":         {"0000" + exampleKeyFields, "0001", "unknown version 1"},
		"group length":    {"0000 ffff", "0000", "cut short"},
		"too many":        {"0001" + exampleKeyFields, "0000 00000002 00000007 000000000000000a ffffffff07 00", "cut short"},
		"update deletion": {"0001" + exampleKeyFields, "", "an update without a value"},
	} {
		t.Run(name, func(t *testing.T) {
			value := fields(t, c.value)
			if c.value == "" {
				value = nil
			}
			_, err := Decode(fields(t, c.key), value)
			require.ErrorContains(t, err, c.err)
		})
	}
}

// FuzzDecode: whatever is decoded is encoded again to what means the same, and can be applied.
func FuzzDecode(f *testing.F) {
	for _, r := range []Record{
		{Key: exampleKey},
		{Key: exampleKey, Snapshot: &Snapshot{State: State{StartOffset: 3, DeliveryCompleteCount: 1, Batches: []Batch{{3, 4, 2, 1, Staged{}}, {4, 9, 4, 2, Staged{}}}}}},
		{Key: exampleKey, Update: &UpdateRecord{StartOffset: -1, LeaderEpoch: -1, DeliveryCompleteCount: -1, Batches: []Batch{{9, 3, 0, 1, Staged{}}}}},
	} {
		key, value := r.Encode()
		f.Add(key, value)
		f.Add(key, append(value, 0))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if len(value) == 0 {
			value = nil
		}
		r, err := Decode(key, value)
		if err != nil {
			return
		}
		key, value = r.Encode()
		again, err := Decode(key, value)
		require.NoError(t, err)
		require.Equal(t, r, again)
		twice, valueTwice := again.Encode()
		require.True(t, bytes.Equal(key, twice) && bytes.Equal(value, valueTwice))
		c := New(Config{UpdatesPerSnapshot: 1, Exists: func([16]byte, int32) bool { return true }})
		c.Apply(&r, 0)
		if s := c.states[r.Key]; s != nil {
			requireInvariant(t, &s.State)
		}
	})
}
