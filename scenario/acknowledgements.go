package scenario

import (
	"strconv"
	"strings"
	"unicode"

	"kshare/internal/spelling"
	"kshare/protocol/errorcode"
)

// acknowledgements are what a request acknowledges of one partition.
type acknowledgements struct {
	partition topicPartition
	batches   []acknowledgement
}

// acknowledgement is a range of offsets, both inclusive, and a type for all or one for each.
type acknowledgement struct {
	first, last int64
	types       []int8
}

var acknowledgeTypes = map[string]int8{"gap": 0, "accept": 1, "release": 2, "reject": 3, "renew": 4}

// acknowledgements reads the words from a place on, like: orders-0 0-4=accept 5-6=release,gap orders-1 0=reject. A range without types has none.
func (c *call) acknowledgements(from int) (all []acknowledgements, err error) {
	for _, w := range c.words[from:] {
		offsets, types, isRange := strings.Cut(w, "=")
		if !isRange {
			p, err := parsePartition(w)
			if err != nil {
				return nil, err
			}
			all = append(all, acknowledgements{partition: p})
			continue
		}
		if offsets != "" && unicode.IsLetter(rune(offsets[0])) {
			return nil, mistakef("%s has no option %q%s", c.name, offsets, spelling.DidYouMean(offsets, c.optionNames))
		}
		if len(all) == 0 {
			return nil, mistakef("%s: the partition comes before its offsets, like orders-0 0-4=accept", w)
		}
		a := acknowledgement{}
		if a.first, a.last, err = offsetRange(offsets); err != nil {
			return nil, err
		}
		if types != "" {
			for t := range strings.SplitSeq(types, ",") {
				n, err := acknowledgeType(t)
				if err != nil {
					return nil, err
				}
				a.types = append(a.types, n)
			}
		}
		p := &all[len(all)-1]
		p.batches = append(p.batches, a)
	}
	return all, nil
}

func acknowledgeType(s string) (int8, error) {
	if t, ok := acknowledgeTypes[s]; ok {
		return t, nil
	}
	n, err := strconv.ParseInt(s, 10, 8)
	if err != nil {
		return 0, mistakef("%q is no acknowledge type; gap, accept, release, reject, renew or a number from -128 to 127", s)
	}
	return int8(n), nil
}

// checkAcknowledgements checks the words from a place on.
func checkAcknowledgements(from int) func(*call) error {
	return func(c *call) error {
		_, err := c.acknowledgements(from)
		return err
	}
}

// leaderHint writes what an answer says of a partition's leader, "" where it says nothing of interest.
func leaderHint(code int16, leader, epoch int32) string {
	if code != errorcode.NotLeaderOrFollower && code != errorcode.FencedLeaderEpoch {
		return ""
	}
	if leader < 0 {
		return ", leader unknown"
	}
	return ", leader " + strconv.Itoa(int(leader)) + " epoch " + strconv.Itoa(int(epoch))
}

// AcknowledgeTypeName is the name of an acknowledge type, its number where it has none.
func AcknowledgeTypeName(t int8) string {
	for name, n := range acknowledgeTypes {
		if n == t {
			return name
		}
	}
	return strconv.Itoa(int(t))
}
