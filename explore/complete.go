package explore

import (
	"slices"
	"strconv"
	"strings"

	"kshare/scenario"
)

// Candidate is what may stand in a command line.
type Candidate struct {
	Text string `json:"text"`
	Help string `json:"help"`
}

// maxCandidates bounds the answer to a question for completion.
const maxCandidates = 100

// Complete tells what may stand from a byte of a command line on, in place of what is there: command names, names that the session knows, and options.
func (s *Session) Complete(line string) (from int, candidates []Candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	c := completer{view: s.view, known: s.play.Known(), candidates: []Candidate{}}
	return c.complete(line)
}

// completer looks for candidates.
type completer struct {
	view       *View
	known      scenario.Known
	prefix     string // of the candidates
	candidates []Candidate
}

func (c *completer) add(help string, texts ...string) {
	for _, t := range texts {
		if strings.HasPrefix(t, c.prefix) && len(c.candidates) < maxCandidates && !slices.ContainsFunc(c.candidates, func(x Candidate) bool { return x.Text == t }) {
			c.candidates = append(c.candidates, Candidate{t, help})
		}
	}
}

func (c *completer) complete(line string) (int, []Candidate) {
	from := strings.LastIndexAny(line, " \t") + 1
	c.prefix = line[from:]
	before := line[:from]
	if strings.TrimSpace(before) == "" {
		for _, x := range scenario.Commands() {
			c.add(x.Summary, x.Name)
		}
		return from, c.candidates
	}
	info, place, words, ok := scenario.Place(before)
	if !ok {
		return from, c.candidates
	}
	if key, value, isOption := strings.Cut(c.prefix, "="); isOption {
		start := from + len(key) + 1 + strings.LastIndexByte(value, ',') + 1
		c.prefix = line[start:]
		c.value(info, key, words)
		if len(c.candidates) == 0 {
			return from, c.candidates
		}
		return start, c.candidates
	}
	list := strings.LastIndexByte(c.prefix, ',') + 1
	if strings.Contains(place, ",...") && list > 0 {
		from += list
		c.prefix = line[from:]
	}
	c.word(info, place, words)
	for _, o := range info.Options {
		c.add("option of "+info.Name, o+"=")
	}
	return from, c.candidates
}

// word adds what may stand in a place of a command's usage.
func (c *completer) word(info scenario.CommandInfo, place string, words []string) {
	group := ""
	if len(words) > 0 {
		group = words[0]
	}
	name, _, _ := strings.Cut(place, "=")
	switch {
	case strings.HasPrefix(name, "GROUP"):
		c.groups()
	case strings.HasPrefix(name, "MEMBER"):
		c.members(group)
	case strings.HasPrefix(name, "PARTITION"):
		c.partitions()
	case strings.HasPrefix(name, "OFFSETS"):
		c.offsets(words)
		if len(words) > 0 {
			c.partitions()
		}
	case strings.HasPrefix(name, "TOPIC"), name == "NAME" && strings.HasSuffix(info.Name, "topic"):
		c.topics()
	case strings.HasPrefix(name, "PRODUCER"):
		c.add("producer", c.known.Producers...)
	case strings.HasPrefix(name, "ID"):
		for _, t := range c.view.Transactions {
			c.add("transactional id", t.TransactionalID)
		}
	case strings.HasPrefix(name, "NODE"), strings.HasPrefix(name, "TO"):
		c.nodes()
	case name == "DURATION":
		c.durations()
	case name == "NAME" && info.Name == "wait":
		c.add("runs in the background", c.known.Background...)
	case name == "NAME":
		for _, f := range c.view.Faults {
			c.add(f.Rule, f.Name)
		}
	case name == "COMMAND" || name == "[COMMAND]":
		for _, x := range scenario.Commands() {
			c.add(x.Summary, x.Name)
		}
	case strings.Contains(name, "|"):
		c.add("", strings.Split(strings.Trim(name, "[]"), "|")...)
	}
}

// value adds what may be the value of an option.
func (c *completer) value(info scenario.CommandInfo, key string, words []string) {
	group := ""
	if len(words) > 0 {
		group = words[0]
	}
	switch key {
	case "member":
		c.members(group)
	case "producer":
		c.add("producer", c.known.Producers...)
	case "node":
		c.nodes()
	case "partition", "partitions", "owned":
		c.partitions()
	case "topics":
		c.topics()
	case "txn":
		for _, t := range c.view.Transactions {
			c.add("transactional id", t.TransactionalID)
		}
	default:
		// The usage says what the value may be: mode=batch_optimized|record_limit.
		for _, w := range strings.FieldsFunc(info.Usage, func(r rune) bool { return r == ' ' || r == '[' || r == ']' }) {
			if k, values, ok := strings.Cut(w, "="); ok && k == key && values == strings.ToLower(values) {
				c.add("", strings.Split(values, "|")...)
			}
		}
		if _, err := strconv.ParseInt(strings.SplitN(c.prefix, "-", 2)[0], 10, 64); err == nil {
			c.add("acknowledge type", "accept", "release", "reject", "renew", "gap")
		}
	}
	if first, _, _ := strings.Cut(key, "-"); info.Name == "ack" || info.Name == "txn-ack" || info.Name == "fetch" {
		if _, err := strconv.ParseInt(first, 10, 64); err == nil {
			c.add("acknowledge type", "accept", "release", "reject", "renew", "gap")
		}
	}
}

func (c *completer) groups() {
	for _, g := range c.view.Groups {
		c.add(g.Type+" group", g.ID)
	}
	for _, p := range c.view.SharePartitions {
		c.add("share group", p.Group)
	}
}

func (c *completer) members(group string) {
	for _, g := range c.view.Groups {
		if g.ID == group {
			for _, m := range g.Members {
				c.add("member of "+group, m.Name)
			}
		}
	}
	c.add("member of "+group, c.known.Members[group]...)
}

func (c *completer) partitions() {
	for _, t := range c.view.Topics {
		if t.Internal && !strings.HasPrefix(c.prefix, "__") {
			continue
		}
		for _, p := range t.Partitions {
			c.add(offsets(p.StartOffset, max(p.StartOffset, p.EndOffset-1)), partitionText(t.Name, p.Partition))
		}
	}
}

func (c *completer) topics() {
	for _, t := range c.view.Topics {
		if !t.Internal || strings.HasPrefix(c.prefix, "__") {
			c.add(plural(len(t.Partitions), "partition"), t.Name)
		}
	}
}

func (c *completer) nodes() {
	for _, n := range c.view.Nodes {
		c.add(n.Address, strconv.Itoa(int(n.ID)))
	}
}

func (c *completer) durations() {
	c.add("", "1s", "30s", "1m")
	for _, t := range c.view.Timers {
		c.add(t.Text, scenario.Duration(max(0, t.At.Sub(c.view.Time))))
	}
}

// offsets adds the records that a member holds: of the partition that was named last, or of all.
func (c *completer) offsets(words []string) {
	partition := ""
	for i, w := range words {
		if i >= 2 && !strings.Contains(w, "=") {
			partition = w
		}
	}
	for _, p := range c.view.SharePartitions {
		if len(words) < 2 || p.Group != words[0] || partition != "" && partition != partitionText(p.Topic, p.Partition) {
			continue
		}
		for _, r := range p.Runs {
			if r.Member == words[1] && r.State == "ACQUIRED" {
				for _, kind := range []string{"accept", "release", "reject"} {
					c.add(partitionText(p.Topic, p.Partition), offsets(r.First, r.Last)+"="+kind)
				}
			}
		}
	}
}
