package replay

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kshare/protocol"
	"kshare/protocol/describe"
)

// Diff is one way in which a step of ours differs from the recorded one.
type Diff struct {
	API string // "" where no API could be told
	// Field is the names joined by dots without indices, or outcome, wait, bytes, frames, correlation, polling.
	// Of a list whose items are found by a key it is LIST[KEY] where ours lacks one, "LIST more" where ours has
	// one that was not recorded, and "LIST order".
	Field    string
	At       string // the same with indices
	Recorded string
	Ours     string
}

func (d Diff) String() string {
	return fmt.Sprintf("%s: recorded %s, ours %s", d.At, shorten(d.Recorded), shorten(d.Ours))
}

func shorten(s string) string {
	const most = 300
	if len(s) > most {
		return fmt.Sprintf("%s... (%d characters)", s[:most], len(s))
	}
	return s
}

// comparer compares answers of one session with the recorded ones.
type comparer struct {
	ids      *ids
	from, to int64 // the time that the session took, ms since 1970
	// least and most are the ms by which our clock has run ahead of the recording's so far: a time may have been stamped under any of them.
	least, most int64
	sent        map[uint64]bool // payloads that clients sent
	masked      map[*Rule]int   // how many values each rule treated

	// Of the step at hand:
	api     string
	all     bool // a Metadata request for all topics
	touched bool // an id or a rule let bytes differ
	diffs   []Diff
}

// newComparer returns a comparer for a session whose recorder started at a time.
func newComparer(s *Session, began time.Time) *comparer {
	c := &comparer{ids: newIDs(), sent: map[uint64]bool{}, masked: map[*Rule]int{}}
	if len(s.Steps) > 0 {
		c.from = began.Add(s.Steps[0].Start()).UnixMilli() - clockTolerance
		c.to = began.Add(s.Steps[len(s.Steps)-1].End).UnixMilli() + clockTolerance
	}
	for _, st := range s.Steps {
		c.noteSent(st.Request)
	}
	return c
}

// noteSent remembers the payloads of the compressed batches in a request. A batch is found by its magic and
// its CRC, so that requests need no decoding.
func (c *comparer) noteSent(request []byte) {
	for at := 0; at+protocol.BatchHeaderSize <= len(request); at++ {
		if request[at+16] != 2 {
			continue
		}
		h, _ := protocol.ParseBatchHeader(request[at:])
		if h.Compression() == 0 || h.Size() < protocol.BatchHeaderSize || h.Size() > len(request)-at || !crcHolds(request[at:at+h.Size()]) {
			continue
		}
		c.sent[payloadSum(request[at+protocol.BatchHeaderSize:at+h.Size()])] = true
	}
}

// begin starts the comparison of a step.
func (c *comparer) begin(api string, request []byte) {
	c.api, c.all, c.touched, c.diffs = api, api == "Metadata" && asksForAll(request), false, nil
}

// asksForAll tells whether a Metadata request asks for all topics: by no topics in version 0, by null later.
func asksForAll(request []byte) bool {
	if len(request) < 10 {
		return false
	}
	version := binary.BigEndian.Uint16(request[2:])
	body := request[10+max(0, int(int16(binary.BigEndian.Uint16(request[8:])))):]
	switch {
	case version >= 9:
		return len(body) > 1 && body[1] == 0
	case version == 0:
		return len(body) >= 4 && binary.BigEndian.Uint32(body) == 0
	}
	return len(body) >= 4 && binary.BigEndian.Uint32(body) == 1<<32-1
}

func (c *comparer) differ(field, at, recorded, our string) {
	c.diffs = append(c.diffs, Diff{c.api, field, strings.TrimPrefix(at, "."), recorded, our})
}

// frames compares two answer frames to a request of a key and version.
func (c *comparer) frames(key, version int16, recorded, our []byte) {
	r, err := decodeAnswer(key, version, recorded)
	if err != nil {
		c.undecoded(recorded, our)
		return
	}
	o, err := decodeAnswer(key, version, our)
	if err != nil {
		c.differ("bytes", "bytes", fmt.Sprintf("%x", recorded), fmt.Sprintf("%x, which is no answer: %v", our, err))
		return
	}
	if r.correlation != o.correlation {
		c.differ("correlation", "correlation", fmt.Sprint(r.correlation), fmt.Sprint(o.correlation))
	}
	c.values(r.tree, o.tree, "", "")
	if r.exact && !o.exact {
		c.differ("bytes", "bytes", fmt.Sprintf("%x", recorded), fmt.Sprintf("%x, which is not how its fields are encoded", our))
	}
	if len(c.diffs) == 0 && !c.touched && !bytes.Equal(recorded, our) {
		c.differ("bytes", "bytes", fmt.Sprintf("%x", recorded), fmt.Sprintf("%x", our))
	}
}

// undecoded compares answers that cannot be decoded.
func (c *comparer) undecoded(recorded, our []byte) {
	if want := c.ids.bytes(recorded); !bytes.Equal(want, our) {
		c.differ("bytes", "bytes", fmt.Sprintf("%x", want), fmt.Sprintf("%x", our))
	}
}

func (c *comparer) values(r, o *describe.Value, field, at string) {
	if r.Kind != o.Kind {
		c.differ(field, at, r.String(), o.String())
		return
	}
	switch r.Kind {
	case describe.Leaf:
		c.leaves(r.Leaf, o.Leaf, field, at)
	case describe.List:
		c.lists(r, o, field, at)
	case describe.Object:
		c.objects(r, o, field, at)
	case describe.Batch:
		c.batches(r, o, field, at)
	}
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// objects compares by name, in the recorded order. Only tags that kmsg does not know can be on one side alone.
func (c *comparer) objects(r, o *describe.Value, field, at string) {
	for i, name := range r.Names {
		if x := o.Field(name); x != nil {
			c.values(r.Items[i], x, join(field, name), at+"."+name)
		} else {
			c.differ(join(field, name), at+"."+name, r.Items[i].String(), "absent")
		}
	}
	for i, name := range o.Names {
		if r.Field(name) == nil {
			c.differ(join(field, name), at+"."+name, "absent", o.Items[i].String())
		}
	}
}

// keyed are lists of which items are found by a field, so that a missing one does not make all that follow
// differ. Their order counts all the same.
var keyed = map[string]string{
	"ApiVersions ApiKeys":               "ApiKey",
	"ApiVersions SupportedFeatures":     "Name",
	"ApiVersions FinalizedFeatures":     "Name",
	"CreateTopics Topics.Configs":       "Name",
	"DescribeConfigs Resources.Configs": "Name",
}

func (c *comparer) lists(r, o *describe.Value, field, at string) {
	rs, os := r.Items, o.Items
	if rule := ruleFor(c.api, field, anyOrder); rule != nil && (c.api != "Metadata" || c.all) {
		rs = c.ordered(r.Items, rule.key, true)
		os = c.ordered(o.Items, rule.key, false)
		if !slices.Equal(rs, r.Items) || !slices.Equal(os, o.Items) {
			c.mask(rule)
		}
	}
	if key := keyed[c.api+" "+field]; key != "" {
		c.keyedLists(rs, os, key, field, at)
		return
	}
	if len(rs) != len(os) {
		c.differ(field, at, fmt.Sprintf("%d items: %s", len(rs), r), fmt.Sprintf("%d items: %s", len(os), o))
		return
	}
	for i := range rs {
		c.values(rs[i], os[i], field, fmt.Sprintf("%s[%d]", at, i))
	}
}

func (c *comparer) mask(r *Rule) {
	c.masked[r]++
	c.touched = true
}

// ordered returns items in the order of keys, ids standing for what they stand for.
func (c *comparer) ordered(items []*describe.Value, keys string, recorded bool) []*describe.Value {
	text := func(v *describe.Value) string {
		var b strings.Builder
		for key := range strings.SplitSeq(keys, ",") {
			b.WriteString(c.orderText(v.Field(key), key, recorded) + "\x00")
		}
		return b.String()
	}
	items = slices.Clone(items)
	slices.SortStableFunc(items, func(a, b *describe.Value) int { return strings.Compare(text(a), text(b)) })
	return items
}

// orderText is a text that orders a field: for an id the one of ours, behind all others where it is not known.
func (c *comparer) orderText(x *describe.Value, key string, recorded bool) string {
	if x == nil || x.Kind != describe.Leaf {
		return ""
	}
	if k := idKindOf(key, x.Leaf); k != noID && !isAbsent(k, x.Leaf) {
		our := x.Leaf
		if known, ok := c.ids.ours[k][x.Leaf]; recorded && ok {
			our = known
		}
		if _, ok := c.ids.recorded[k][our]; !ok && !c.ids.literal[k][our] {
			return "~"
		}
		return idText(k, our)
	}
	if n, ok := x.Leaf.(int64); ok {
		return fmt.Sprintf("%020d", n)
	}
	return describe.PrintLeaf(x.Leaf)
}

func (c *comparer) keyedLists(rs, os []*describe.Value, key, field, at string) {
	name := func(v *describe.Value) string { return fmt.Sprint(v.Field(key).Leaf) }
	find := func(vs []*describe.Value, n string) int {
		return slices.IndexFunc(vs, func(v *describe.Value) bool { return name(v) == n })
	}
	last := -1
	for _, r := range rs {
		n := name(r)
		i := find(os, n)
		switch {
		case i < 0:
			c.differ(field+"["+n+"]", at+"["+n+"]", r.String(), "absent")
			continue
		case i < last:
			c.differ(field+" order", at+"["+n+"]", "in order", "out of order")
		}
		last = i
		c.values(r, os[i], field, at+"["+n+"]")
	}
	for _, o := range os {
		if n := name(o); find(rs, n) < 0 {
			c.differ(field+" more", at+"["+n+"]", "absent", o.String())
		}
	}
}

// batches compares record batches. Times that the broker stamped and bytes that it compressed have rules.
func (c *comparer) batches(r, o *describe.Value, field, at string) {
	attributes := r.Field("Attributes").Leaf.(int64)
	ours := attributes&protocol.AttributeCompressionMask == 0 || c.sent[payloadSum(r.Field("Payload").Leaf.([]byte))]
	for i, name := range r.Names {
		f := join(field, name)
		x := o.Field(name)
		if x == nil {
			c.differ(f, at+"."+name, r.Items[i].String(), "absent")
			continue
		}
		if rule := ruleFor(c.api, f, decompressed); rule != nil && !ours && o.Field("Content") != nil {
			if r.Items[i].String() != x.String() {
				c.mask(rule)
			}
			continue
		}
		c.values(r.Items[i], x, f, at+"."+name)
	}
}

func (c *comparer) leaves(r, o any, field, at string) {
	name := field[strings.LastIndexByte(field, '.')+1:]
	if k := idKindOf(name, r); k != noID {
		if !c.ids.match(k, r, o) {
			c.differ(field, at, c.standsFor(k, r), describe.PrintLeaf(o))
		} else if r != o {
			c.touched = true
		}
		return
	}
	if rule := ruleFor(c.api, field, anyValue, clockTime); rule != nil && c.bends(rule, r, o) {
		c.mask(rule)
		return
	}
	if s, ok := r.(string); ok && c.ids.text(s) != s {
		r, c.touched = c.ids.text(s), true
	}
	if x, ok := r.([]byte); ok && bytes.Equal(x, o.([]byte)) {
		return
	} else if ok {
		if want := c.ids.bytes(x); bytes.Equal(want, o.([]byte)) {
			c.touched = true
			return
		}
		c.differ(field, at, describe.PrintLeaf(r), describe.PrintLeaf(o))
		return
	}
	if r != o {
		c.differ(field, at, describe.PrintLeaf(r), describe.PrintLeaf(o))
	}
}

// standsFor prints a recorded id with the one of ours that it stands for.
func (c *comparer) standsFor(k idKind, recorded any) string {
	if our, ok := c.ids.ours[k][recorded]; ok && our != recorded {
		return fmt.Sprintf("%s, here %s", describe.PrintLeaf(recorded), describe.PrintLeaf(our))
	}
	return describe.PrintLeaf(recorded)
}

// bends tells whether a rule takes our value for the recorded one though it is another.
func (c *comparer) bends(rule *Rule, recorded, our any) bool {
	if recorded == our {
		return false
	}
	switch r := recorded.(type) {
	case int64:
		o := our.(int64)
		if rule.how == anyValue {
			return r >= 0 && o >= 0
		}
		return r >= c.from && r <= c.to && c.sameTime(r, o)
	case string:
		return rule.how == clockTime && c.sameButTimes(c.ids.text(r), our.(string))
	}
	return false
}

var timeInText = regexp.MustCompile(`\d{13,19}`)

func (c *comparer) sameTime(r, o int64) bool {
	d := o - r
	return d >= c.least-clockTolerance && d <= c.most+clockTolerance
}

// sameButTimes tells whether two texts are the same but for times in milliseconds within the tolerance.
func (c *comparer) sameButTimes(r, o string) bool {
	if timeInText.ReplaceAllString(r, "") != timeInText.ReplaceAllString(o, "") {
		return false
	}
	rs, os := timeInText.FindAllString(r, -1), timeInText.FindAllString(o, -1)
	if len(rs) != len(os) {
		return false
	}
	for i := range rs {
		a, err1 := strconv.ParseInt(rs[i], 10, 64)
		b, err2 := strconv.ParseInt(os[i], 10, 64)
		if err1 != nil || err2 != nil || a != b && !c.sameTime(a, b) {
			return false
		}
	}
	return true
}
