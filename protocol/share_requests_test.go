package protocol

import (
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// randomShareFetch makes a request of some topics, partitions and acknowledgements.
func randomShareFetch(r *rand.Rand, version int16) *kmsg.ShareFetchRequest {
	q := kmsg.NewPtrShareFetchRequest()
	q.SetVersion(version)
	if r.IntN(4) > 0 {
		q.GroupID, q.MemberID = kmsg.StringPtr("group"), kmsg.StringPtr("member-\u00e9")
	}
	q.ShareSessionEpoch, q.MaxWaitMillis, q.MinBytes, q.MaxBytes = r.Int32(), r.Int32(), r.Int32(), -r.Int32()
	q.MaxRecords, q.BatchSize = r.Int32(), r.Int32()
	if version >= 2 {
		q.ShareAcquireMode, q.IsRenewAck = int8(r.IntN(3)), r.IntN(2) == 0
	}
	for range r.IntN(4) {
		t := kmsg.NewShareFetchRequestTopic()
		t.TopicID[r.IntN(16)] = byte(r.Uint32())
		for range r.IntN(4) {
			p := kmsg.NewShareFetchRequestTopicPartition()
			p.Partition = r.Int32()
			for range r.IntN(3) {
				b := kmsg.NewShareFetchRequestTopicPartitionAcknowledgementBatch()
				b.FirstOffset, b.LastOffset = r.Int64(), -r.Int64()
				for range r.IntN(300) {
					b.AcknowledgeTypes = append(b.AcknowledgeTypes, int8(r.Uint32()))
				}
				p.AcknowledgementBatches = append(p.AcknowledgementBatches, b)
			}
			if r.IntN(4) == 0 {
				p.UnknownTags.Set(r.Uint32(), []byte("tag"))
			}
			t.Partitions = append(t.Partitions, p)
		}
		q.Topics = append(q.Topics, t)
		f := kmsg.NewShareFetchRequestForgottenTopicsData()
		f.Partitions = append(f.Partitions, r.Int32(), r.Int32())
		q.ForgottenTopicsData = append(q.ForgottenTopicsData, f)
	}
	return q
}

// asAcknowledge makes the ShareAcknowledge with the same acknowledgements.
func asAcknowledge(f *kmsg.ShareFetchRequest) *kmsg.ShareAcknowledgeRequest {
	q := kmsg.NewPtrShareAcknowledgeRequest()
	q.SetVersion(f.Version)
	q.GroupID, q.MemberID, q.ShareSessionEpoch, q.IsRenewAck = f.GroupID, f.MemberID, f.ShareSessionEpoch, f.IsRenewAck
	for _, ft := range f.Topics {
		t := kmsg.NewShareAcknowledgeRequestTopic()
		t.TopicID = ft.TopicID
		for _, fp := range ft.Partitions {
			p := kmsg.NewShareAcknowledgeRequestTopicPartition()
			p.Partition, p.UnknownTags = fp.Partition, fp.UnknownTags
			for _, fb := range fp.AcknowledgementBatches {
				b := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
				b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = fb.FirstOffset, fb.LastOffset, fb.AcknowledgeTypes
				p.AcknowledgementBatches = append(p.AcknowledgementBatches, b)
			}
			t.Partitions = append(t.Partitions, p)
		}
		q.Topics = append(q.Topics, t)
	}
	return q
}

// withoutTags leaves out what the decoder skips.
func withoutTags(q kmsg.Request) {
	switch q := q.(type) {
	case *kmsg.ShareFetchRequest:
		q.UnknownTags = kmsg.Tags{}
		for i := range q.Topics {
			q.Topics[i].UnknownTags = kmsg.Tags{}
			for j := range q.Topics[i].Partitions {
				p := &q.Topics[i].Partitions[j]
				p.UnknownTags = kmsg.Tags{}
				for k := range p.AcknowledgementBatches {
					p.AcknowledgementBatches[k].UnknownTags = kmsg.Tags{}
				}
			}
		}
		for i := range q.ForgottenTopicsData {
			q.ForgottenTopicsData[i].UnknownTags = kmsg.Tags{}
		}
	case *kmsg.ShareAcknowledgeRequest:
		q.UnknownTags = kmsg.Tags{}
		for i := range q.Topics {
			q.Topics[i].UnknownTags = kmsg.Tags{}
			for j := range q.Topics[i].Partitions {
				p := &q.Topics[i].Partitions[j]
				p.UnknownTags = kmsg.Tags{}
				for k := range p.AcknowledgementBatches {
					p.AcknowledgementBatches[k].UnknownTags = kmsg.Tags{}
				}
			}
		}
	}
}

// agree compares what the decoder makes of a body with what kmsg does: the same bytes again, or an error from both.
func agree(t *testing.T, d *ShareRequests, version int16, body []byte) {
	fetch, ack := kmsg.NewPtrShareFetchRequest(), kmsg.NewPtrShareAcknowledgeRequest()
	ourFetch, fetchErr := d.Fetch(version, body)
	ourAck, ackErr := d.Acknowledge(version, body)
	for _, c := range []struct {
		theirs, ours kmsg.Request
		err          error
	}{{fetch, ourFetch, fetchErr}, {ack, ourAck, ackErr}} {
		c.theirs.SetVersion(version)
		if err := c.theirs.ReadFrom(body); err != nil {
			require.ErrorIs(t, c.err, ErrMalformed, "kmsg says %v", err)
			continue
		}
		require.NoError(t, c.err)
		if !utf8.Valid(body) && !validStrings(fetch, ack) {
			continue // kmsg leaves such strings as they are
		}
		withoutTags(c.theirs)
		require.Equal(t, c.theirs.AppendTo(nil), c.ours.AppendTo(nil))
	}
}

func validStrings(f *kmsg.ShareFetchRequest, a *kmsg.ShareAcknowledgeRequest) bool {
	for _, s := range []*string{f.GroupID, f.MemberID, a.GroupID, a.MemberID} {
		if s != nil && !utf8.ValidString(*s) {
			return false
		}
	}
	return true
}

func TestShareRequestsAsKmsg(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var d ShareRequests
	for range 500 {
		version := int16(1 + r.IntN(2))
		q := randomShareFetch(r, version)
		for _, body := range [][]byte{q.AppendTo(nil), asAcknowledge(q).AppendTo(nil)} {
			agree(t, &d, version, body)
			agree(t, &d, version, body[:r.IntN(len(body)+1)])
			for range 5 {
				body[r.IntN(len(body))] = byte(r.Uint32())
				agree(t, &d, version, body)
			}
		}
	}
}

func TestShareRequestsReplaceMalformedStrings(t *testing.T) {
	q := kmsg.NewPtrShareAcknowledgeRequest()
	q.SetVersion(2)
	q.GroupID, q.MemberID = kmsg.StringPtr("a\xff\xfeb"), kmsg.StringPtr("m")
	var d ShareRequests
	for range 2 {
		got, err := d.Acknowledge(2, q.AppendTo(nil))
		require.NoError(t, err)
		require.Equal(t, "a\ufffd\ufffdb", *got.GroupID)
	}
}

func TestShareRequestsReuseTheirMemory(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	q := randomShareFetch(rand.New(rand.NewPCG(3, 4)), 2)
	q.GroupID, q.MemberID = kmsg.StringPtr("g"), kmsg.StringPtr("m")
	fetch, ack := q.AppendTo(nil), asAcknowledge(q).AppendTo(nil)
	var d ShareRequests
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := d.Fetch(2, fetch); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Acknowledge(2, ack); err != nil {
			t.Fatal(err)
		}
	}))
}

func FuzzShareRequests(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 10 {
		q := randomShareFetch(r, 2)
		f.Add(int16(2), q.AppendTo(nil))
		f.Add(int16(1), asAcknowledge(q).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		var d ShareRequests
		agree(t, &d, 1+version&1, body)
		agree(t, &d, 1+version&1, body)
	})
}
