package scenario

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
)

// NewMutant makes a target like NewLocal's whose broker has a bug that it was given on purpose: it takes a RELEASE in a ShareAcknowledge for an ACCEPT, so that what a
// consumer gives back is never delivered again. Tests see by it whether golden files, comparisons and random scenarios find a broker out.
func NewMutant(opts ...kshare.Option) *Local {
	l := NewLocal(opts...)
	l.disturb = acceptWhatIsReleased
	return l
}

const shareAcknowledgeKey = 79

// acceptWhatIsReleased changes the types of a ShareAcknowledge's batches.
func acceptWhatIsReleased(frame []byte) []byte {
	if len(frame) < 10 || binary.BigEndian.Uint16(frame) != shareAcknowledgeKey {
		return frame
	}
	q := kmsg.NewPtrShareAcknowledgeRequest()
	q.SetVersion(int16(binary.BigEndian.Uint16(frame[2:])))
	body := 10 + max(0, int(int16(binary.BigEndian.Uint16(frame[8:])))) + 1 // behind the client id and an empty tag section
	if body > len(frame) || q.ReadFrom(frame[body:]) != nil {
		return frame
	}
	release, accept := acknowledgeTypes["release"], acknowledgeTypes["accept"]
	for i := range q.Topics {
		for j := range q.Topics[i].Partitions {
			for k := range q.Topics[i].Partitions[j].AcknowledgementBatches {
				types := q.Topics[i].Partitions[j].AcknowledgementBatches[k].AcknowledgeTypes
				for n := range types {
					if types[n] == release {
						types[n] = accept
					}
				}
			}
		}
	}
	return q.AppendTo(append([]byte{}, frame[:body]...))
}
