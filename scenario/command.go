package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kshare/internal/spelling"
)

// command is a word of the language.
type command struct {
	name        string
	usage       string
	summary     string   // a sentence for help
	example     string   // a whole scenario that shows it
	optionNames []string // key=value words that it takes
	least, most int      // how many positional words; most -1: any number
	freeWords   bool     // other words with = are positional
	takesJSON   bool     // the line may end in {...}
	waits       bool     // it may take its time, which is shown
	ahead       bool     // it never runs in the background
	looks       bool     // of those inside: it changes nothing, so that others can go on without it
	reach       reach
	check       func(*call) error // what can be said of the words without running them, nil: nothing
	run         func(*step, *call) error
}

// reach is where a command has something to show.
type reach int

const (
	anywhere reach = iota
	// operated commands do something to nodes or move what they lead: a Kafka is asked whose nodes the scenario may do that to.
	operated
	// inside commands look into the broker or change it by other means than requests: a real Kafka is not asked.
	inside
)

// possible tells whether the command can be run against a target.
func (c *command) possible(t Target) bool {
	_, remote := t.(*Remote)
	switch {
	case !remote || c.reach == anywhere:
		return true
	case c.reach == operated:
		return t.nodes() != nil
	}
	return t.cluster() != nil
}

// mayRunBehind tells whether the command can run in the background: those that only ask brokers can.
func (c *command) mayRunBehind() bool { return c.reach == anywhere && !c.ahead }

// commands is all commands by name.
var commands = map[string]*command{}

func register(c *command) {
	if commands[c.name] != nil {
		panic("scenario: two commands " + c.name)
	}
	commands[c.name] = c
}

// Help lists the commands, or describes the named one.
func Help(name string) (string, error) {
	var b strings.Builder
	if name != "" {
		c := commands[name]
		if c == nil {
			return "", fmt.Errorf("there is no command %q%s", name, spelling.DidYouMean(name, slices.Sorted(maps.Keys(commands))))
		}
		fmt.Fprintf(&b, "%s\n\n%s\n", c.usage, c.summary)
		switch c.reach {
		case inside:
			b.WriteString("Not over the wire: a real Kafka has no such thing.\n")
		case operated:
			b.WriteString("Not over the wire, unless to a Kafka that the scenario's runner has started.\n")
		}
		fmt.Fprintf(&b, "\nExample:\n\n%s", indent(strings.TrimPrefix(c.example, "\n")))
		return b.String(), nil
	}
	for _, n := range slices.Sorted(maps.Keys(commands)) {
		fmt.Fprintf(&b, "%-22s %s\n", n, commands[n].summary)
	}
	return b.String(), nil
}

func indent(s string) string {
	var b strings.Builder
	for l := range strings.Lines(s) {
		b.WriteString("  " + l)
	}
	return b.String()
}
