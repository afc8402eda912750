package replay

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"kshare/protocol"
	"kshare/protocol/describe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMutations alters every field of the recorded answers: each field of each version of each API, in the
// first answer that has it, in every way that its type allows and no rule lets pass. The comparison must see
// each alteration.
func TestMutations(t *testing.T) {
	if testing.Short() {
		t.Skip("a test of the comparison alone, which takes long under the race detector")
	}
	files, err := filepath.Glob(vectors + "/*.jsonl.gz")
	require.NoError(t, err)
	seen := map[string]bool{}
	altered := 0
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".jsonl.gz")
		s, err := Load(vectors, name)
		require.NoError(t, err)
		script := Scripts[name]
		if script == nil {
			script = &Script{}
		}
		c := newComparer(s, Began(script))
		for _, st := range s.Steps { // learn every id
			c.learnFrom(t, st)
		}
		for _, st := range s.Steps {
			if !st.Raw && len(st.Answers) == 1 {
				m := &mutator{t: t, c: c, session: name, step: st, seen: seen}
				m.run()
				altered += m.altered
			}
		}
	}
	t.Logf("%d alterations seen", altered)
	assert.Greater(t, altered, 5000)
}

func (c *comparer) learnFrom(t *testing.T, st *Step) {
	if st.Raw {
		return
	}
	_, err := c.ids.rewrite(st)
	require.NoError(t, err)
	for _, a := range st.Answers {
		c.begin(st.API, st.Request)
		c.frames(st.Key, st.Version, a, a)
		require.Empty(t, c.diffs, "step %s", st)
	}
}

type mutator struct {
	t       *testing.T
	c       *comparer
	session string
	step    *Step
	seen    map[string]bool
	body    kmsg.Response
	head    []byte
	altered int
}

func (m *mutator) run() {
	recorded := m.step.Answers[0]
	a, err := decodeAnswer(m.step.Key, m.step.Version, recorded)
	require.NoError(m.t, err)
	m.body = a.body
	m.head = recorded[:len(recorded)-len(a.body.AppendTo(nil))]
	if m.first("frame") {
		m.frame("frame longer", append(recorded[:len(recorded):len(recorded)], 0))
		m.frame("frame shorter", recorded[:len(recorded)-1])
		other := append([]byte(nil), recorded...)
		other[3]++
		m.frame("correlation", other)
	}
	m.walk(reflect.ValueOf(a.body).Elem(), "", "")
}

// first tells whether something has not been altered yet in this version of the API.
func (m *mutator) first(what string) bool {
	k := fmt.Sprintf("%s %d %s", m.step.API, m.step.Version, what)
	if m.seen[k] {
		return false
	}
	m.seen[k] = true
	return true
}

// frame checks that an altered frame is seen to be one.
func (m *mutator) frame(what string, frame []byte) {
	m.altered++
	m.c.begin(m.step.API, m.step.Request)
	m.c.frames(m.step.Key, m.step.Version, m.step.Answers[0], frame)
	if len(m.c.diffs) == 0 {
		m.t.Errorf("%s, step %s, %s v%d: %s is not seen", m.session, m.step, m.step.API, m.step.Version, what)
	}
}

// alter puts another value into a field and, where the encoding has it, checks that it is seen.
func (m *mutator) alter(v reflect.Value, field, how string, to any) {
	what := field + " " + how
	if m.seen[fmt.Sprintf("%s %d %s", m.step.API, m.step.Version, what)] {
		return
	}
	was := reflect.ValueOf(v.Interface())
	before := len(m.body.AppendTo(nil))
	old := m.body.AppendTo(nil)
	v.Set(reflect.ValueOf(to).Convert(v.Type()))
	b := m.body.AppendTo(nil)
	v.Set(was)
	if len(b) == before && string(b) == string(old) || !m.first(what) {
		return // this version has no such field, or cannot say it
	}
	m.frame(what, append(m.head[:len(m.head):len(m.head)], b...))
}

func (m *mutator) walk(v reflect.Value, field, name string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch {
			case f.Name == "UnknownTags":
				tags := kmsg.Tags{}
				tags.Set(77, []byte{1})
				m.alter(v.Field(i), join(field, f.Name), "added", tags)
			case f.IsExported() && f.Name != "Version":
				m.walk(v.Field(i), join(field, f.Name), f.Name)
			}
		}
	case reflect.Pointer:
		if v.IsNil() {
			m.alter(v, field, "not null", reflect.New(v.Type().Elem()).Interface())
			return
		}
		m.alter(v, field, "null", reflect.Zero(v.Type()).Interface())
		m.walk(v.Elem(), field, name)
	case reflect.Slice:
		m.slice(v, field, name)
	case reflect.Bool:
		m.alter(v, field, "flipped", !v.Bool())
	case reflect.String:
		m.alter(v, field, "longer", v.String()+"x")
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		m.integer(v, field)
	case reflect.Array:
		id := v.Interface().([16]byte)
		id[15]++
		m.alter(v, field, "another", id)
	}
}

func (m *mutator) integer(v reflect.Value, field string) {
	rule := ruleFor(m.step.API, field, anyValue, clockTime)
	switch {
	case rule == nil:
		m.alter(v, field, "more", v.Int()+1)
	case rule.how == clockTime:
		m.alter(v, field, "much later", v.Int()+clockTolerance+1)
	case v.Int() >= 0:
		m.alter(v, field, "absent", int64(-1))
	default:
		m.alter(v, field, "present", int64(1))
	}
}

func (m *mutator) slice(v reflect.Value, field, name string) {
	empty := reflect.MakeSlice(v.Type(), 0, 0).Interface()
	if v.IsNil() {
		m.alter(v, field, "empty", empty)
		return
	}
	m.alter(v, field, "null", reflect.Zero(v.Type()).Interface())
	if v.Type().Elem().Kind() == reflect.Uint8 {
		m.bytes(v, field, name)
		return
	}
	n := v.Len()
	if n == 0 {
		m.alter(v, field, "one more", reflect.MakeSlice(v.Type(), 1, 1).Interface())
		return
	}
	m.alter(v, field, "one less", v.Slice(0, n-1).Interface())
	m.alter(v, field, "one twice", reflect.Append(v.Slice3(0, n, n), v.Index(n-1)).Interface())
	if rule := ruleFor(m.step.API, field, anyOrder); n > 1 && (rule == nil || m.step.API == "Metadata" && !asksForAll(m.step.Request)) {
		swapped := reflect.MakeSlice(v.Type(), n, n)
		reflect.Copy(swapped, v)
		reflect.Swapper(swapped.Interface())(0, n-1)
		m.alter(v, field, "in another order", swapped.Interface())
	}
	for i := range n {
		m.walk(v.Index(i), field, name)
	}
}

func (m *mutator) bytes(v reflect.Value, field, name string) {
	b := v.Bytes()
	m.alter(v, field, "longer", append(b[:len(b):len(b)], 0))
	if len(b) == 0 {
		return
	}
	m.alter(v, field, "shorter", b[:len(b)-1])
	if describe.IsRecords(name) {
		m.batches(v, field, b)
	}
}

// batches alters each field of a batch's header, with its CRC put right again, and its last byte, without.
func (m *mutator) batches(v reflect.Value, field string, b []byte) {
	batches, _ := describe.WholeBatches(b)
	at := 0
	for _, x := range batches {
		h, _ := protocol.ParseBatchHeader(x)
		times := 0
		if h.IsControl() || h.IsLogAppendTime() {
			times = 1
		}
		form := fmt.Sprintf("codec %d stamped %d", h.Compression(), times)
		for _, f := range []struct {
			name string
			at   int // of the byte to raise, before the one where that is within a rule's tolerance
		}{
			{"BaseOffset", 7}, {"PartitionLeaderEpoch", 15}, {"CRC", 20}, {"Attributes", 22}, {"LastOffsetDelta", 26},
			{"BaseTimestamp", 34 - 2*times}, {"MaxTimestamp", 42 - 2*times}, {"ProducerID", 50}, {"ProducerEpoch", 52},
			{"BaseSequence", 56}, {"NumRecords", 60}, {"last byte", len(x) - 1},
		} {
			altered := append([]byte(nil), b...)
			y := altered[at : at+len(x)]
			y[f.at]++
			if f.name != "CRC" && f.name != "last byte" {
				binary.BigEndian.PutUint32(y[17:], protocol.BatchCRC(y))
			}
			m.alter(v, field, form+" "+f.name, altered)
		}
		at += len(x)
	}
}
