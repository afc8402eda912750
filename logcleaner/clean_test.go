package logcleaner

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"kshare/protocol"
)

// split takes batches that lie behind each other apart.
func split(t require.TestingT, b []byte) (all [][]byte) {
	for len(b) > 0 {
		h, err := protocol.ParseBatchHeader(b)
		require.NoError(t, err)
		all = append(all, b[:h.Size():h.Size()])
		b = b[h.Size():]
	}
	return all
}

// clean runs a round over batches.
func clean(t require.TestingT, c *Cleaning, batches [][]byte) (left [][]byte) {
	each := func(f func(*protocol.BatchHeader, []byte)) {
		for _, b := range batches {
			h, err := protocol.ParseBatchHeader(b)
			require.NoError(t, err)
			require.Equal(t, h.CRC, protocol.BatchCRC(b))
			f(&h, b)
		}
	}
	if c.MaxRecordBody == 0 {
		c.MaxRecordBody = 1 << 20
	}
	each(func(h *protocol.BatchHeader, b []byte) {
		if h.BaseOffset >= c.From && h.BaseOffset < c.To {
			require.NoError(t, c.Map(h, b))
		}
	})
	each(func(h *protocol.BatchHeader, b []byte) {
		if h.BaseOffset >= c.To {
			left = append(left, b)
			return
		}
		cleaned, err := c.Clean(h, b)
		require.NoError(t, err)
		if cleaned != nil {
			left = append(left, cleaned)
		}
	})
	return left
}

// recorded are the records that Fetches of the recorded session on compaction were answered with, by the name of the step.
func recorded(t *testing.T) map[string][]byte {
	f, err := os.Open("../testdata/vectors/compaction.jsonl.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	fetched := map[string][]byte{}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s struct {
			Step     string
			Key      int16
			Version  int16
			Request  string `json:"request_hex"`
			Response string `json:"response_hex"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &s))
		body := func(text string, headerVersion int) []byte {
			b, err := hex.DecodeString(text)
			require.NoError(t, err)
			r := kbin.Reader{Src: b}
			r.Span(4)
			if headerVersion == 2 {
				r.Span(4)
				r.NullableString()
			}
			kmsg.SkipTags(&r)
			return r.Src
		}
		switch s.Key {
		case 0:
			q := kmsg.ProduceRequest{Version: s.Version}
			require.NoError(t, q.ReadFrom(body(s.Request, 2)))
			fetched[s.Step] = q.Topics[0].Partitions[0].Records
		case 1:
			p := kmsg.FetchResponse{Version: s.Version}
			require.NoError(t, p.ReadFrom(body(s.Response, 1)))
			fetched[s.Step] = p.Topics[0].Partitions[0].RecordBatches
		}
	}
	require.NoError(t, lines.Err())
	return fetched
}

// What is left are the bytes that the cleaner of a running Apache Kafka 4.4.0 left.
func TestCleansAsRecorded(t *testing.T) {
	fetched := recorded(t)
	before, after := split(t, fetched["cp-before"]), split(t, fetched["cp-after"])
	require.Len(t, before, 5)
	require.Len(t, after, 5)
	tombstone, err := protocol.ParseBatchHeader(after[2])
	require.NoError(t, err)
	const day = 24 * 3_600_000
	var left [][]byte
	for _, retention := range []int64{100_000, day} { // as the topic was configured
		c := &Cleaning{To: 7, Now: tombstone.DeleteHorizon() - retention, DeleteRetentionMs: retention, Producers: map[int64]Producer{900: {LastOffset: 5}}}
		left = clean(t, c, before)
		assert.Equal(t, after, left)
	}
	again := &Cleaning{From: 7, To: 7, Now: tombstone.DeleteHorizon() - 1, Producers: map[int64]Producer{900: {LastOffset: 5}}}
	assert.Equal(t, after, clean(t, again, left), "nothing is done twice")

	// The data of an aborted transaction goes first, its marker stays, and readers are still told of it.
	aborted, marker := bytes.Clone(fetched["ct-produce-1"]), split(t, fetched["ct-after"])[0]
	h, err := protocol.ParseBatchHeader(marker)
	require.NoError(t, err)
	require.EqualValues(t, 2, h.BaseOffset)
	c := &Cleaning{To: 3, Now: 1_796_042_509_000, Producers: map[int64]Producer{h.ProducerID: {LastOffset: -1, Epoch: h.ProducerEpoch}},
		Aborted: []Aborted{{h.ProducerID, 0}}}
	assert.Equal(t, [][]byte{marker}, clean(t, c, [][]byte{aborted, marker}))
	assert.Equal(t, c.Aborted, c.Kept())
}

// describe is a batch as text: offsets and records as they stand, "0-3 h=5 1:k=v@7 3:k=null@9".
func describe(t require.TestingT, b []byte) string {
	h, err := protocol.ParseBatchHeader(b)
	require.NoError(t, err)
	require.Equal(t, h.CRC, protocol.BatchCRC(b))
	out := fmt.Sprintf("%d-%d", h.BaseOffset, h.LastOffset())
	if h.IsControl() {
		out += " marker"
	}
	if h.Compression() != 0 {
		out += fmt.Sprintf(" codec=%d", h.Compression())
	}
	if horizon := h.DeleteHorizon(); horizon >= 0 {
		out += fmt.Sprintf(" horizon=%d", horizon)
	}
	records, err := protocol.OpenRecords(&h, b, 1<<20)
	require.NoError(t, err)
	defer records.Close()
	latest := int64(-1)
	for {
		var r protocol.Record
		if err := records.Next(&r); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
		value := string(r.Value)
		if r.ValueSize < 0 {
			value = "null"
		}
		latest = max(latest, h.RecordTimestamp(&r))
		if h.IsControl() {
			continue
		}
		out += fmt.Sprintf(" %d:%s=%s@%d", h.BaseOffset+int64(r.OffsetDelta), r.Key, value, h.RecordTimestamp(&r))
		for rest := r.Headers; len(rest) > 0; {
			var header protocol.Header
			header, rest, err = protocol.NextHeader(rest)
			require.NoError(t, err)
			out += fmt.Sprintf("[%s=%s]", header.Key, header.Value)
		}
	}
	if h.NumRecords > 0 {
		require.Equal(t, latest, h.MaxTimestamp)
	}
	return out
}

// log makes batches at consecutive offsets.
type log struct {
	t       require.TestingT
	end     int64
	batches [][]byte
}

// add adds a batch of words like k=v and k=null; the n-th has the timestamp n.
func (l *log) add(words string, set ...func(*protocol.BatchBuilder)) {
	b := protocol.NewBatchBuilder()
	b.BaseOffset, b.LeaderEpoch = l.end, 3
	for _, f := range set {
		f(b)
	}
	require.NoError(l.t, b.Reset(nil))
	for i, w := range strings.Fields(words) {
		key, value, keyed := strings.Cut(w, "=")
		k, v := []byte(key), []byte(value)
		if !keyed {
			k, v = nil, []byte(w)
		} else if value == "null" {
			v = nil
		}
		require.NoError(l.t, b.Append(l.end+int64(i), k, v, protocol.Header{Key: []byte("n"), Value: []byte("1")}))
	}
	batch, err := b.Finish()
	require.NoError(l.t, err)
	l.batches = append(l.batches, batch)
	l.end += int64(b.NumRecords())
}

func (l *log) marker(producer int64, epoch int16, control int16) {
	b := protocol.EndTxnMarker(producer, epoch, 0, control, l.end)
	protocol.SetBatchOffset(b, l.end, 3)
	l.batches = append(l.batches, b)
	l.end++
}

func (l *log) clean(c *Cleaning) (described []string) {
	l.batches = clean(l.t, c, l.batches)
	for _, b := range l.batches {
		described = append(described, describe(l.t, b))
	}
	return described
}

func by(producer int64, transactional bool) func(*protocol.BatchBuilder) {
	return func(b *protocol.BatchBuilder) {
		b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = producer, 0, 0, transactional
	}
}

func TestTombstones(t *testing.T) {
	l := &log{t: t}
	l.add("k=a l=b")
	l.add("k=null m=c", func(b *protocol.BatchBuilder) { b.Compression = protocol.DefaultCompression(protocol.CompressionGzip) })
	l.add("l=null")
	l.add("n=d", func(b *protocol.BatchBuilder) { b.LogAppendTime = 77 })
	l.add("end=e")
	require.Equal(t, []string{
		"2-3 codec=1 horizon=150 2:k=null@2[n=1] 3:m=c@3[n=1]", "4-4 horizon=150 4:l=null@4[n=1]", "5-5 5:n=d@77[n=1]", "6-6 6:end=e@6[n=1]",
	}, l.clean(&Cleaning{To: 6, Now: 100, DeleteRetentionMs: 50}))
	require.Equal(t, []string{
		"2-3 codec=1 horizon=150 2:k=null@2[n=1] 3:m=c@3[n=1]", "4-4 horizon=150 4:l=null@4[n=1]", "5-5 5:n=d@77[n=1]", "6-6 6:end=e@6[n=1]",
	}, l.clean(&Cleaning{From: 6, To: 6, Now: 149, DeleteRetentionMs: 1}), "the horizon stays")
	require.Equal(t, []string{
		"2-3 codec=1 horizon=150 3:m=c@3[n=1]", "5-5 5:n=d@77[n=1]", "6-6 6:end=e@6[n=1]",
	}, l.clean(&Cleaning{From: 6, To: 6, Now: 150, DeleteRetentionMs: 50}))
}

func TestWhatStaysWithoutRecords(t *testing.T) {
	l := &log{t: t}
	l.add("k=a", by(1, false))
	l.add("k=b", by(2, false))
	l.add("k=c j", by(1, false))
	l.add("k=d")
	l.add("x=y")
	require.Equal(t, []string{"1-1", "2-3", "4-4 4:k=d@4[n=1]", "5-5 5:x=y@5[n=1]"},
		l.clean(&Cleaning{To: 5, Now: 100, Producers: map[int64]Producer{1: {LastOffset: 3}, 2: {LastOffset: 1}}}), "the last batch of each producer, without keyless records")
	first, err := protocol.ParseBatchHeader(l.batches[0])
	require.NoError(t, err)
	require.Equal(t, protocol.BatchHeader{BaseOffset: 1, Length: 49, PartitionLeaderEpoch: 3, Magic: 2, CRC: first.CRC, BaseTimestamp: -1, MaxTimestamp: 1, ProducerID: 2}, first)
	l.add("k=e")
	l.add("j")
	l.add("x=z")
	require.Equal(t, []string{"2-3", "5-5 5:x=y@5[n=1]", "6-6 6:k=e@6[n=1]", "7-7", "8-8 8:x=z@8[n=1]"},
		l.clean(&Cleaning{From: 5, To: 8, Now: 100, Producers: map[int64]Producer{1: {LastOffset: 3}}}), "where the round ends is known, who no longer writes is forgotten")
}

func TestTransactions(t *testing.T) {
	l := &log{t: t}
	l.add("k=a l=b", by(1, true)) // 0-1
	l.add("k=x m=y", by(2, true)) // 2-3
	l.marker(2, 0, protocol.ControlAbort)
	l.marker(1, 0, protocol.ControlCommit)
	l.add("k=c", by(1, true)) // 6
	l.marker(1, 0, protocol.ControlCommit)
	l.add("end=1 ") // 8
	aborted := []Aborted{{2, 2}}
	c := &Cleaning{To: 8, Now: 100, DeleteRetentionMs: 50, Aborted: aborted}
	require.Equal(t, []string{"0-1 1:l=b@1[n=1]", "4-4 marker", "5-5 marker", "6-6 6:k=c@6[n=1]", "7-7 marker", "8-8 8:end=1@8[n=1]"}, l.clean(c))
	require.Equal(t, aborted, c.Kept())
	l.add("l=d k=d") // 9-10
	l.add("end=2")   // 11
	c = &Cleaning{From: 8, To: 11, Now: 200, DeleteRetentionMs: 50, Aborted: aborted}
	require.Equal(t, []string{"4-4 marker horizon=250", "5-5 marker", "7-7 marker", "8-8 8:end=1@8[n=1]", "9-10 9:l=d@9[n=1] 10:k=d@10[n=1]", "11-11 11:end=2@11[n=1]"},
		l.clean(c), "a marker without data goes later, one whose data has just gone is looked at next time")
	require.Empty(t, c.Kept())
	c = &Cleaning{From: 11, To: 11, Now: 250, DeleteRetentionMs: 50, Aborted: aborted}
	require.Equal(t, []string{"5-5 marker horizon=300", "7-7 marker horizon=300", "8-8 8:end=1@8[n=1]", "9-10 9:l=d@9[n=1] 10:k=d@10[n=1]", "11-11 11:end=2@11[n=1]"}, l.clean(c))
	c = &Cleaning{From: 11, To: 11, Now: 300, DeleteRetentionMs: 50, Producers: map[int64]Producer{1: {LastOffset: -1}}}
	require.Equal(t, []string{"5-5 marker", "7-7 marker", "8-8 8:end=1@8[n=1]", "9-10 9:l=d@9[n=1] 10:k=d@10[n=1]", "11-11 11:end=2@11[n=1]"},
		l.clean(c), "of a producer's epoch its markers tell")
	require.Len(t, l.batches[0], protocol.BatchHeaderSize)
}

// Whatever is written and however often it is cleaned, who reads to the end has the last value of each key, at its offset.
func TestTheLastValueOfEachKeyIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &log{t: t}
		want := map[string]string{}
		cleaned := int64(0)
		for n := range rapid.Int64Range(1, 30).Draw(t, "steps") {
			if rapid.IntRange(0, 4).Draw(t, "clean") == 0 && len(l.batches) > 1 {
				at, err := protocol.ParseBatchHeader(l.batches[rapid.IntRange(1, len(l.batches)-1).Draw(t, "to")])
				require.NoError(t, err)
				to := max(cleaned, at.BaseOffset)
				l.clean(&Cleaning{From: cleaned, To: to, Now: 100 * n, DeleteRetentionMs: 250})
				cleaned = to
				continue
			}
			var words []string
			for range rapid.IntRange(1, 4).Draw(t, "records") {
				words = append(words, rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key")+"="+rapid.SampledFrom([]string{"1", "2", "null"}).Draw(t, "value"))
			}
			for i, w := range words {
				key, value, _ := strings.Cut(w, "=")
				want[key] = fmt.Sprintf("%d:%s", l.end+int64(i), value)
			}
			codec := rapid.Int8Range(0, 4).Draw(t, "codec")
			l.add(strings.Join(words, " "), func(b *protocol.BatchBuilder) { b.Compression = protocol.DefaultCompression(codec) })
		}
		have := map[string]string{}
		last := int64(-1)
		for _, b := range l.batches {
			h, err := protocol.ParseBatchHeader(b)
			require.NoError(t, err)
			require.Greater(t, h.BaseOffset, last)
			last = h.LastOffset()
			for _, w := range strings.Fields(describe(t, b)) {
				offset, rest, ok := strings.Cut(w, ":")
				if key, value, is := strings.Cut(rest, "="); ok && is {
					have[key] = offset + ":" + strings.Split(value, "@")[0]
				}
			}
		}
		require.Equal(t, l.end-1, last, "the end is known")
		for key, v := range want {
			if strings.HasSuffix(v, ":null") && have[key] == "" {
				continue // its tombstone is gone
			}
			require.Equal(t, v, have[key])
		}
	})
}
