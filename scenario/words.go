package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"kshare/internal/spelling"
	"kshare/protocol/errorcode"
)

// call is a command line taken apart.
type call struct {
	*command
	text       string            // as it was written
	words      []string          // positional, without options
	verbatim   map[string]bool   // those words and values of options, as they are, of which some was in quotes: they are meant as they stand
	options    map[string]string // key=value
	background string            // the name behind &, "" for none
	rest       string            // the JSON at the end of a send
}

// parseCommand takes a line apart and finds the command. An error says what is wrong with the line.
func parseCommand(text string) (*call, error) {
	words, rest, err := split(text)
	if err != nil {
		return nil, err
	}
	c := &call{text: strings.TrimSpace(text), options: map[string]string{}, rest: rest, verbatim: map[string]bool{}}
	name := words[0].text
	if c.command = commands[name]; c.command == nil {
		if strings.Trim(name, "-=") == "" {
			return nil, fmt.Errorf("there is no command %q: the line between commands and what they show is ----", name)
		}
		return nil, fmt.Errorf("there is no command %q%s; help lists them", name, spelling.DidYouMean(name, slices.Sorted(maps.Keys(commands))))
	}
	for i, w := range words[1:] {
		key, value, isOption := strings.Cut(w.text, "=")
		if w.someQuoted {
			c.verbatim[w.text], c.verbatim[value] = true, true
		}
		switch {
		case !w.quoted && strings.HasPrefix(w.text, "&"):
			if i != len(words)-2 || len(w.text) == 1 {
				return nil, errors.New("&name stands at the end of a command and names what runs in the background")
			}
			if !c.mayRunBehind() {
				return nil, fmt.Errorf("%s cannot run in the background", name)
			}
			c.background = w.text[1:]
		case !w.quoted && isOption && slices.Contains(c.optionNames, key):
			if _, twice := c.options[key]; twice {
				return nil, fmt.Errorf("the option %s is given twice", key)
			}
			c.options[key] = value
		case !w.quoted && isOption && !c.freeWords:
			return nil, fmt.Errorf("%s has no option %q%s; usage: %s", name, key, spelling.DidYouMean(key, c.optionNames), c.usage)
		default:
			c.words = append(c.words, w.text)
		}
	}
	if n := len(c.words); n < c.least || c.most >= 0 && n > c.most {
		return nil, fmt.Errorf("usage: %s", c.usage)
	}
	if rest != "" && !c.takesJSON {
		return nil, fmt.Errorf("%s takes no JSON; usage: %s", name, c.usage)
	}
	if c.check != nil {
		if err := c.check(c); err != nil {
			return nil, fmt.Errorf("%w; usage: %s", err, c.usage)
		}
	}
	return c, nil
}

// word is a word of a line; a quoted one is never an option.
type word struct {
	text       string
	quoted     bool
	someQuoted bool
}

// split cuts a line into words. A word that begins with a brace begins JSON, which goes to the end of the line.
func split(text string) (words []word, rest string, err error) {
	s := strings.TrimSpace(text)
	for s != "" {
		if s[0] == '{' {
			if len(words) == 0 {
				return nil, "", errors.New("a command begins with its name")
			}
			return words, s, nil
		}
		w := word{}
		var text strings.Builder
		for s != "" && s[0] != ' ' && s[0] != '\t' {
			if s[0] != '"' {
				end := strings.IndexAny(s, " \t\"")
				if end < 0 {
					end = len(s)
				}
				text.WriteString(s[:end])
				s = s[end:]
				continue
			}
			quoted, err := strconv.QuotedPrefix(s)
			if err != nil {
				return nil, "", fmt.Errorf("a quote without its end, or an unknown escape, in %s", s)
			}
			plain, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, "", fmt.Errorf("%s: %w", quoted, err)
			}
			if text.Len() == 0 {
				w.quoted = true
			}
			w.someQuoted = true
			text.WriteString(plain)
			s = s[len(quoted):]
		}
		w.text = text.String()
		words = append(words, w)
		s = strings.TrimLeft(s, " \t")
	}
	return words, "", nil
}

// mistake is a mistake of the script that shows when its command runs.
type mistake struct{ reason string }

func (m mistake) Error() string { return m.reason }

func mistakef(format string, args ...any) error { return mistake{fmt.Sprintf(format, args...)} }

// mistakeFrom makes a mistake of an error, without the name of the package that the cluster's begin with.
func mistakeFrom(err error) error { return mistake{strings.TrimPrefix(err.Error(), "kshare: ")} }

// duration reads a duration of a script: 500ms, 2s, 1m30s.
func duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maxDuration {
		return 0, mistakef("%q is no duration from 0s to %s, like 500ms or 31s", s, show(maxDuration))
	}
	return d, nil
}

const maxDuration = 1000 * 24 * time.Hour

// show writes a duration without what Go adds: 1m30s, 2h, 500ms.
func show(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// durationOption is the value of an option, or what it is without it.
func (c *call) durationOption(key string, without time.Duration) (time.Duration, error) {
	s, ok := c.options[key]
	if !ok {
		return without, nil
	}
	return duration(s)
}

// number reads a whole number of a script within bounds, both inclusive.
func number(s string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < least || n > most {
		return 0, mistakef("%q is no whole number%s", s, bounds(least, most))
	}
	return n, nil
}

// bounds says what a whole number is to be like.
func bounds(least, most int64) string {
	for _, bits := range []int{16, 32, 64} {
		end := int64(1)<<(bits-1) - 1
		switch {
		case most == end && least == -end-1 && bits == 64:
			return ""
		case most == end && least == -end-1:
			return fmt.Sprintf(" of %d bits", bits)
		case most == end && bits > 16 && (least == 0 || least == 1):
			return fmt.Sprintf(", %d or more", least)
		}
	}
	return fmt.Sprintf(" from %d to %d", least, most)
}

// numberOption is the value of an option, or what it is without it.
func (c *call) numberOption(key string, without, least, most int64) (int64, error) {
	s, ok := c.options[key]
	if !ok {
		return without, nil
	}
	n, err := number(s, least, most)
	if err != nil {
		return 0, mistakef("%s=%s: %v", key, s, err)
	}
	return n, nil
}

// flag tells whether a yes-or-no option is on.
func (c *call) flag(key string) (bool, error) {
	switch s, ok := c.options[key]; {
	case !ok || s == "no":
		return false, nil
	case s == "yes":
		return true, nil
	default:
		return false, mistakef("%s=%s: yes or no", key, s)
	}
}

// isolation is the isolation level of a request that reads, by the option of that name.
func (c *call) isolation() (int8, error) {
	switch s, ok := c.options["isolation"]; {
	case !ok || s == "read_uncommitted":
		return 0, nil
	case s == "read_committed":
		return 1, nil
	default:
		return 0, mistakef("isolation=%s: read_committed or read_uncommitted", s)
	}
}

// topicPartition is a partition as scripts write it: orders-0.
type topicPartition struct {
	topic     string
	partition int32
}

func (p topicPartition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.partition) }

func comparePartitions(a, b topicPartition) int {
	if c := strings.Compare(a.topic, b.topic); c != 0 {
		return c
	}
	return int(a.partition) - int(b.partition)
}

// sorted sorts partitions in place and returns them.
func sorted(all []topicPartition) []topicPartition {
	slices.SortFunc(all, comparePartitions)
	return all
}

func parsePartition(s string) (topicPartition, error) {
	i := strings.LastIndexByte(s, '-')
	if i > 0 {
		if n, err := strconv.ParseInt(s[i+1:], 10, 32); err == nil && n >= 0 {
			return topicPartition{s[:i], int32(n)}, nil
		}
	}
	return topicPartition{}, mistakef("%q is no partition; write TOPIC-NUMBER, like orders-0", s)
}

// partitionList reads partitions separated by commas.
func partitionList(s string) (all []topicPartition, err error) {
	for one := range strings.SplitSeq(s, ",") {
		p, err := parsePartition(one)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// offsets writes a range of offsets, both inclusive.
func offsets(first, last int64) string {
	if first == last {
		return strconv.FormatInt(first, 10)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// offsetRange reads a range of offsets, 5 or 0-9, both inclusive. Either may be negative, like -1-4, and the last may be below the first.
func offsetRange(s string) (first, last int64, err error) {
	sign, unsigned := "", s
	if strings.HasPrefix(s, "-") {
		sign, unsigned = "-", s[1:]
	}
	a, b, two := strings.Cut(unsigned, "-")
	a = sign + a
	if first, err = strconv.ParseInt(a, 10, 64); err != nil {
		return 0, 0, mistakef("%q is no offset or range of offsets, like 5 or 0-9", s)
	}
	if !two {
		return first, first, nil
	}
	if last, err = strconv.ParseInt(b, 10, 64); err != nil {
		return 0, 0, mistakef("%q is no offset or range of offsets, like 5 or 0-9", s)
	}
	return first, last, nil
}

// failure writes an error code of an answer, and the message that came with it.
func failure(code int16, message *string) string {
	s := fmt.Sprintf("%s (%d)", errorcode.Name(code), code)
	if message != nil && *message != "" {
		s += ": " + *message
	}
	return s
}

// plural writes a count of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func number32(n int32) string { return strconv.Itoa(int(n)) }

// numbers writes node ids with spaces between them, in their order.
func numbers(all []int32) string {
	if len(all) == 0 {
		return "none"
	}
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = number32(n)
	}
	return strings.Join(texts, " ")
}
