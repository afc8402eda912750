package fields

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

const many = 1 << 30

// sample writes a request in which each array has one element and nothing is null but, where it is not "", the field with a path.
type sample struct {
	out      []byte
	version  int16
	flexible bool
	null     string
	at       int // where that null is
	// paths of what can be null in the encoding, with whether it may be.
	paths   []string
	allowed map[string]bool
}

func encode(q *request, version int16, null string) *sample {
	s := &sample{version: version, flexible: q.flexible.has(version), null: null, allowed: map[string]bool{}}
	s.fields(q.fields, "")
	return s
}

func (s *sample) fields(fs []field, path string) {
	var tagged []*field
	for i := range fs {
		f := &fs[i]
		switch {
		case !f.versions.has(s.version):
		case f.tagged.has(s.version):
			tagged = append(tagged, f)
		default:
			s.field(f, path)
		}
	}
	if !s.flexible {
		return
	}
	slices.SortFunc(tagged, func(a, b *field) int { return int(a.tag) - int(b.tag) })
	s.out = binary.AppendUvarint(s.out, uint64(len(tagged)))
	for _, f := range tagged {
		value := &sample{version: s.version, flexible: true, null: s.null, allowed: s.allowed}
		value.field(f, path)
		s.paths = append(s.paths, value.paths...)
		s.out = binary.AppendUvarint(s.out, uint64(f.tag))
		s.out = binary.AppendUvarint(s.out, uint64(len(value.out)))
		if value.null != "" && slices.Contains(value.paths, value.null) {
			s.at = len(s.out) + value.at
		}
		s.out = append(s.out, value.out...)
	}
}

// nullable writes null where the path is the one to be null.
func (s *sample) nullable(path string, allowed bool, size int) bool {
	s.paths = append(s.paths, path)
	s.allowed[path] = allowed
	if path != s.null {
		return false
	}
	s.at = len(s.out)
	s.length(-1, size)
	return true
}

func (s *sample) length(n, size int) {
	switch {
	case s.flexible:
		s.out = binary.AppendUvarint(s.out, uint64(n+1))
	case size == 2:
		s.out = binary.BigEndian.AppendUint16(s.out, uint16(n))
	default:
		s.out = binary.BigEndian.AppendUint32(s.out, uint32(n))
	}
}

func (s *sample) field(f *field, path string) {
	path = strings.TrimPrefix(path+"."+f.name, ".")
	switch {
	case f.array:
		if s.nullable(path, f.nullable.has(s.version), 4) {
			return
		}
		s.length(1, 4)
		path += "[0]"
	case f.kind == kindStruct && f.nullable.has(s.version):
		s.paths = append(s.paths, path)
		s.allowed[path] = true
		if path == s.null {
			s.at, s.out = len(s.out), append(s.out, 0xff)
			return
		}
		s.out = append(s.out, 1)
	}
	allowed := !f.array && f.nullable.has(s.version)
	switch f.kind {
	case kindStruct:
		s.fields(f.fields, path)
	case kindString:
		if !s.nullable(path, allowed, 2) {
			s.length(1, 2)
			s.out = append(s.out, 'x')
		}
	case kindBytes:
		if !s.nullable(path, allowed, 4) {
			s.length(1, 4)
			s.out = append(s.out, 'x')
		}
	default:
		s.out = append(s.out, bytes.Repeat([]byte{1}, int(f.kind))...)
	}
}

// everyVersion calls f for each version of each API that a 4.4 broker offers.
func everyVersion(t *testing.T, f func(api *protocol.API, q *request, version int16)) {
	for i := range protocol.APIs {
		api := &protocol.APIs[i]
		require.GreaterOrEqual(t, byKey[api.Key], int8(0), api.Name)
		for version := api.MinVersion; version <= api.Highest(); version++ {
			q := &requests[byKey[api.Key]]
			require.Equal(t, api.IsFlexible(version), q.flexible.has(version), "%s v%d", api.Name, version)
			f(api, q, version)
		}
	}
	f(protocol.TxnShareAcknowledgeAPI(93), &txnShareAcknowledge, 0)
}

func TestNullIsAllowedWhereTheMessageFileSaysSo(t *testing.T) {
	nulls := map[bool]int{}
	everyVersion(t, func(api *protocol.API, q *request, version int16) {
		whole := encode(q, version, "")
		_, err := Check(api, version, whole.out, many)
		require.NoError(t, err, "%s v%d", api.Name, version)
		for _, path := range whole.paths {
			s := encode(q, version, path)
			_, err := Check(api, version, s.out, many)
			nulls[s.allowed[path]]++
			if s.allowed[path] {
				require.NoError(t, err, "%s v%d: null %s", api.Name, version, path)
				continue
			}
			require.ErrorIs(t, err, protocol.ErrMalformed)
			require.ErrorContains(t, err, fmt.Sprintf("malformed request: %s at byte %d of the body's %d: a null ", path, s.at, len(s.out)), "%s v%d", api.Name, version)
		}
	})
	require.Equal(t, map[bool]int{true: 223, false: 915}, nulls)
}

func TestTableHasTheFieldsOfTheDecoders(t *testing.T) {
	everyVersion(t, func(api *protocol.API, q *request, version int16) {
		k := api.NewRequest(version)
		if k == nil {
			return
		}
		body := encode(q, version, "").out
		require.NoError(t, k.ReadFrom(body), "%s v%d", api.Name, version)
		require.Equal(t, body, k.AppendTo(nil), "%s v%d", api.Name, version)
	})
}

func TestCutShort(t *testing.T) {
	everyVersion(t, func(api *protocol.API, q *request, version int16) {
		body := encode(q, version, "").out
		for cut := range len(body) {
			_, err := Check(api, version, body[:cut], many)
			require.ErrorIs(t, err, protocol.ErrMalformed, "%s v%d cut to %d of %d", api.Name, version, cut, len(body))
			require.ErrorContains(t, err, fmt.Sprintf(" of the body's %d: ", cut))
		}
	})
}

func TestWhatIsWrong(t *testing.T) {
	fetch, produce := protocol.APIByKey(78), protocol.APIByKey(0)
	whole := encode(&requests[byKey[78]], 2, "").out
	for _, c := range []struct {
		name    string
		api     *protocol.API
		version int16
		body    []byte
		want    string
	}{
		{"inside an element", fetch, 2, whole[:40], "Topics[0].TopicId at byte 31 of the body's 40: 16 bytes are expected, 9 are left"},
		{"inside a string", fetch, 2, []byte{9, 'g'}, "GroupId at byte 0 of the body's 2: a string of 8 bytes, 1 are left"},
		{"more elements than bytes", fetch, 2, append(slices.Clone(whole[:30]), 0x80, 1, 0), "Topics at byte 30 of the body's 33: an array of 127 elements, 1 bytes are left"},
		{"a varint cut short", fetch, 2, append(slices.Clone(whole[:30]), 0x80), "Topics at byte 30 of the body's 31: the bytes end inside of a varint"},
		{"a varint that is too long", fetch, 2, append(slices.Clone(whole[:30]), 0x80, 0x80, 0x80, 0x80, 0x80, 0), "Topics at byte 30 of the body's 36: a varint of more than 32 bits"},
		{"a tag cut short", fetch, 2, append(slices.Clone(whole[:len(whole)-1]), 1, 7, 5, 0), fmt.Sprintf("tagged fields at byte %d of the body's %d: tag 7 of 5 bytes, 1 are left", len(whole), len(whole)+3)},
		{"a tag of a later version", protocol.APIByKey(1), 12, append(make([]byte, 25), 1, 1, 1, 1, 1, 1, 1), "ReplicaState at byte 29 of the body's 32: tag 1, which the version does not have"},
		{"a struct neither null nor there", protocol.APIByKey(75), 0, []byte{1, 0, 0, 0, 0, 0xfe, 0}, "Cursor at byte 5 of the body's 7: -2 in place of -1 or 1"},
		{"a string that is too long", produce, 9, append([]byte{0x81, 0x80, 2}, make([]byte, 1<<16)...), "TransactionalId at byte 0 of the body's 65539: a string of 32768 bytes, it may have 32767"},
		{"a length of no sense", produce, 9, []byte{0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, "TopicData at byte 7 of the body's 12: a null array, it may not be null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Check(c.api, c.version, c.body, many)
			require.EqualError(t, err, "malformed request: "+c.want)
		})
	}
}

func TestElementsAreCounted(t *testing.T) {
	q := kmsg.NewPtrShareFetchRequest()
	q.Version = 2
	topic := kmsg.NewShareFetchRequestTopic()
	for range 5 {
		p := kmsg.NewShareFetchRequestTopicPartition()
		b := kmsg.NewShareFetchRequestTopicPartitionAcknowledgementBatch()
		b.AcknowledgeTypes = make([]int8, 1000)
		p.AcknowledgementBatches = append(p.AcknowledgementBatches, b)
		topic.Partitions = append(topic.Partitions, p)
	}
	q.Topics = append(q.Topics, topic)
	forgotten := kmsg.NewShareFetchRequestForgottenTopicsData()
	forgotten.Partitions = make([]int32, 7)
	q.ForgottenTopicsData = append(q.ForgottenTopicsData, forgotten)
	body, api := q.AppendTo(nil), protocol.APIByKey(78)
	n, err := Check(api, 2, body, many)
	require.NoError(t, err)
	require.Equal(t, 1+5+5+1+7, n)
	n, err = Check(api, 2, body, 8)
	require.NoError(t, err)
	require.Greater(t, n, 8)
}

func TestCheckAllocatesNothing(t *testing.T) {
	api, body := protocol.APIByKey(78), encode(&requests[byKey[78]], 2, "").out
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := Check(api, 2, body, many); err != nil {
			t.Fatal(err)
		}
	}))
}

func BenchmarkCheck(b *testing.B) {
	q := kmsg.NewPtrShareAcknowledgeRequest()
	q.Version = 2
	q.GroupID, q.MemberID = kmsg.StringPtr("group"), kmsg.StringPtr("J8rGpOyyRQaLjFVzqqYg7g")
	topic := kmsg.NewShareAcknowledgeRequestTopic()
	p := kmsg.NewShareAcknowledgeRequestTopicPartition()
	for range 100 {
		batch := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
		batch.AcknowledgeTypes = []int8{1}
		p.AcknowledgementBatches = append(p.AcknowledgementBatches, batch)
	}
	topic.Partitions = append(topic.Partitions, p)
	q.Topics = append(q.Topics, topic)
	many100, one := q.AppendTo(nil), 0
	q.Topics[0].Partitions[0].AcknowledgementBatches = p.AcknowledgementBatches[:1]
	for _, c := range []struct {
		name string
		body []byte
	}{{"1 batch", q.AppendTo(nil)}, {"100 batches", many100}} {
		b.Run(c.name, func(b *testing.B) {
			api := protocol.APIByKey(79)
			for b.Loop() {
				n, _ := Check(api, 2, c.body, many)
				one += n
			}
		})
		b.Run(c.name+" decoded", func(b *testing.B) {
			var d protocol.ShareRequests
			for b.Loop() {
				if _, err := d.Acknowledge(2, c.body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzCheck wants the decoders to take what passes.
func FuzzCheck(f *testing.F) {
	for i := range requests {
		api := protocol.APIByKey(requests[i].key)
		if api == nil {
			continue
		}
		f.Add(api.Key, api.MaxVersion, encode(&requests[i], api.MaxVersion, "").out)
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		api := protocol.APIByKey(key)
		if api == nil || !api.Offers(version) {
			return
		}
		n, err := Check(api, version, body, 1000)
		k := api.NewRequest(version)
		if err != nil || n > 1000 || k == nil {
			return
		}
		require.NoError(t, k.ReadFrom(body))
	})
}

// What stands behind the last field is counted, and a request that is cut short is told as by Check.
func TestTrailing(t *testing.T) {
	q := kmsg.NewPtrShareGroupHeartbeatRequest()
	q.Version, q.GroupID, q.MemberID = 1, "g", "m"
	api := protocol.APIByKey(76)
	body := q.AppendTo(nil)
	for extra := range 3 {
		n, err := Trailing(api, 1, append(slices.Clone(body), make([]byte, extra)...))
		require.NoError(t, err)
		require.Equal(t, extra, n)
	}
	_, err := Trailing(api, 1, body[:3])
	_, want := Check(api, 1, body[:3], 100)
	require.Error(t, err)
	require.Equal(t, want, err)
	n, err := Trailing(&protocol.API{Key: 120, Name: "None"}, 0, body)
	require.NoError(t, err)
	require.Zero(t, n, "an API that Kafka does not have is not checked")
}
