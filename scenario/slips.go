package scenario

import (
	"fmt"
	"slices"
	"strings"

	"kshare/config"
	"kshare/internal/spelling"
)

// A broker refuses names that it does not know, and that is for a scenario to show. A name that is all but the same as one that is known is a slip of the
// fingers instead, unless it is in quotes: then it is meant as it stands.

// takenAsItStands is what an error of a slip ends with.
const takenAsItStands = " In quotes it is taken as it stands"

// slipOfConfig tells that a configuration of the call's words is all but one that a scope has, or all but an option of the command.
func (c *call) slipOfConfig(scope config.Scope, keys ...string) error {
	known := slices.Clone(c.optionNames)
	for _, k := range config.Keys(scope) {
		known = append(known, k.Name)
	}
	for _, key := range keys {
		if slices.Contains(known, key) || c.inQuotes(key) {
			continue
		}
		near := spelling.Slip(key, known)
		if i := slices.IndexFunc(known, func(k string) bool { return strings.HasPrefix(k, key+".") }); near == "" && i >= 0 {
			near = known[i]
		}
		if near != "" {
			return mistakef("%s has no option and Kafka no configuration %q: did you mean %s?%s", c.name, key, near, takenAsItStands)
		}
	}
	return nil
}

// inQuotes tells whether a word that begins with a text was in quotes.
func (c *call) inQuotes(text string) bool {
	for w := range c.verbatim {
		if strings.HasPrefix(strings.TrimPrefix(w, "-"), text) {
			return true
		}
	}
	return false
}

// slipOfOption tells that a text in the list of an option is all but a known one.
func (c *call) slipOfOption(option string, known ...string) error {
	list := c.options[option]
	if c.verbatim[list] {
		return nil
	}
	for _, text := range nonEmpty(list) {
		if slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, text) }) {
			continue
		}
		if near := spelling.Slip(text, known); near != "" {
			return mistakef("%s=%s: did you mean %s?%s", option, text, near, takenAsItStands)
		}
	}
	return nil
}

// naming is a name that a script gives to something or knows it by, and where.
type naming struct {
	kind, name string // of a member the name is group/member
	makes      bool   // the command may make it
	line       int
	verbatim   bool
}

// maxComparisons bounds the names that are held against each other. In a script of more slips are not looked for.
const maxComparisons = 1_000_000

// makers are the commands that may make what they name.
var makers = map[string]bool{
	"topic": true, "join": true, "heartbeat": true, "consumer-join": true, "consumer-heartbeat": true, "classic-join": true, "config": true, "commit": true,
	"alter-share-offsets": true, "txn-add-offsets": true, "txn-commit-offsets": true,
}

// slipOfName finds the first topic, group or member that the script does not make and that is all but one which it makes.
func slipOfName(calls []*call, lines []int) *Mistake {
	var all []naming
	made := map[string]map[string]bool{"topic": {}, "group": {}, "member": {}}
	order := map[string][]string{}
	for i, c := range calls {
		for _, n := range c.namings() {
			n.line = lines[i]
			all = append(all, n)
			if n.makes && !made[n.kind][n.name] {
				made[n.kind][n.name] = true
				order[n.kind] = append(order[n.kind], n.name)
			}
		}
	}
	all = slices.DeleteFunc(all, func(n naming) bool { return made[n.kind][n.name] || n.verbatim })
	if len(all)*(len(order["topic"])+len(order["group"])+len(order["member"])) > maxComparisons {
		return nil
	}
	for _, n := range all {
		if near := nearName(n, order[n.kind]); near != "" && !namedInJSON(calls, n.name) {
			_, name, of := strings.Cut(n.name, "/")
			if !of {
				name = n.name
			}
			return &Mistake{Line: n.line, Reason: fmt.Sprintf("the script makes no %s %q: did you mean %s?%s", n.kind, name, near, takenAsItStands)}
		}
	}
	return nil
}

// slipWatch looks for slips of names as the commands of a script come one by one.
type slipWatch struct {
	made   map[string]map[string]bool // by kind
	order  map[string][]string
	unmade []naming // that are not in quotes
	json   []*call  // with JSON
}

func newSlipWatch() *slipWatch {
	return &slipWatch{made: map[string]map[string]bool{"topic": {}, "group": {}, "member": {}}, order: map[string][]string{}}
}

// check finds a slip that the script would have with one more command. Where there is none, noted takes the command in.
func (w *slipWatch) check(c *call, line int) (noted func(), slip error) {
	all := c.namings()
	made := map[string][]string{}
	for _, n := range all {
		if n.makes && !w.made[n.kind][n.name] && !slices.Contains(made[n.kind], n.name) {
			made[n.kind] = append(made[n.kind], n.name)
		}
	}
	exists := func(n naming) bool { return w.made[n.kind][n.name] || slices.Contains(made[n.kind], n.name) }
	var unmade []naming
	for _, n := range w.unmade {
		if !exists(n) {
			unmade = append(unmade, n)
		}
	}
	old := len(unmade)
	for _, n := range all {
		if n.line = line; !exists(n) && !n.verbatim {
			unmade = append(unmade, n)
		}
	}
	calls := w.json
	if c.rest != "" {
		calls = append(slices.Clone(calls), c)
	}
	if len(unmade)*(len(w.order["topic"])+len(w.order["group"])+len(w.order["member"])+len(all)) <= maxComparisons {
		for i, n := range unmade {
			among := made[n.kind]
			if i >= old {
				among = slices.Concat(w.order[n.kind], among)
			}
			near := nearName(n, among)
			if near == "" || namedInJSON(calls, n.name) {
				continue
			}
			name := n.name[strings.IndexByte(n.name, '/')+1:]
			if i < old {
				return nil, mistakef("line %d of the script names the %s %q: did you mean that?%s there", n.line, n.kind, name, takenAsItStands)
			}
			return nil, mistakef("the script makes no %s %q: did you mean %s?%s", n.kind, name, near, takenAsItStands)
		}
	}
	return func() {
		for kind, names := range made {
			for _, name := range names {
				w.made[kind][name] = true
			}
			w.order[kind] = append(w.order[kind], names...)
		}
		w.unmade, w.json = unmade, calls
	}, nil
}

// nearName is the name from which one slip leads to a naming's; of members the group is the same.
func nearName(n naming, made []string) string {
	if n.kind != "member" {
		return spelling.Slip(n.name, made)
	}
	group, name, _ := strings.Cut(n.name, "/")
	var members []string
	for _, m := range made {
		if g, member, _ := strings.Cut(m, "/"); g == group {
			members = append(members, member)
		}
	}
	return spelling.Slip(name, members)
}

// namedInJSON tells whether a send names something, which may make it.
func namedInJSON(calls []*call, name string) bool {
	return slices.ContainsFunc(calls, func(c *call) bool { return strings.Contains(c.rest, `"`+name+`"`) })
}

// namings are the topics, groups and members that a command names, as its usage says where.
func (c *call) namings() (all []naming) {
	add := func(kind, name, as string) {
		if name != "" {
			all = append(all, naming{kind: kind, name: name, makes: makers[c.name] && (kind != "topic" || c.name == "topic"), verbatim: c.verbatim[as]})
		}
	}
	partition := func(text, as string) {
		if p, err := parsePartition(text); err == nil {
			add("topic", p.topic, as)
		}
	}
	of := c.usagePlaces()
	group := ""
	for i, w := range c.words {
		switch place := of(i); {
		case place == "GROUP" && (c.name != "move-coordinator" || c.words[0] == "group"):
			group = w
			add("group", w, w)
		case place == "MEMBER":
			if group != "" {
				add("member", group+"/"+w, w)
			}
		case place == "NAME" && strings.HasSuffix(c.name, "topic"):
			add("topic", w, w)
		case place == "NAME" && strings.HasSuffix(c.name, "config") && (c.words[0] == "group" || c.words[0] == "topic"):
			add(c.words[0], w, w)
		case strings.HasPrefix(place, "TOPIC"):
			for _, topic := range nonEmpty(w) {
				if p, err := parsePartition(topic); err == nil && strings.Contains(place, "PARTITION") {
					topic = p.topic
				}
				add("topic", topic, w)
			}
		case strings.HasPrefix(place, "PARTITION"):
			text, _, _ := strings.Cut(w, "=")
			partition(text, w)
		}
	}
	for _, key := range []string{"partitions", "partition", "owned"} {
		for _, text := range nonEmpty(c.options[key]) {
			partition(text, c.options[key])
		}
	}
	for _, topic := range nonEmpty(c.options["topics"]) {
		add("topic", topic, c.options["topics"])
	}
	if as := c.options["as"]; strings.Contains(as, "/") {
		group, _, _ := strings.Cut(as, "/")
		add("group", group, as)
		add("member", as, as)
	}
	if c.name == "fault" {
		for _, w := range c.words {
			for _, kind := range []string{"topic", "group"} {
				if name, ok := strings.CutPrefix(w, kind+"="); ok {
					add(kind, name, w)
				}
			}
		}
	}
	return all
}

// usagePlaces tells what the usage of the command calls its words by their places. The last place that may be repeated stands for all behind it.
func (c *call) usagePlaces() func(int) string {
	usage, _, _ := strings.Cut(c.usage, " | ")
	var places []string
	repeats := 0
	for _, p := range strings.Fields(usage)[1:] {
		p = strings.TrimPrefix(p, "[")
		if p == "..." || p == "...]" {
			repeats = len(places)
			break
		}
		if c.takesOption(p) {
			break
		}
		places = append(places, strings.TrimSuffix(p, "]"))
	}
	group := 1 // how many places are repeated
	if strings.Contains(usage, "PARTITION OFFSETS=TYPE,... ...") {
		group = 2
	}
	return func(i int) string {
		switch {
		case i < len(places):
			return places[i]
		case repeats == 0:
			return ""
		}
		return places[len(places)-group+(i-len(places))%group]
	}
}

// takesOption tells whether a word of the usage is an option.
func (c *call) takesOption(word string) bool {
	key, _, ok := strings.Cut(word, "=")
	return ok && slices.Contains(c.optionNames, key)
}
