package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// names gives ids that vary from run to run names that do not.
type names struct {
	prefix  string
	known   map[string]string
	order   []string // the known ids, longest first; nil after a change
	topics  map[string]int
	members map[memberKey]int
	unnamed int

	producers map[int64]string // names by id
	made      map[string]int   // how many ids producers of a name have had
}

func newNames(prefix string) *names {
	return &names{prefix: prefix, known: map[string]string{}, topics: map[string]int{}, members: map[memberKey]int{},
		producers: map[int64]string{}, made: map[string]int{}}
}

// add names an id.
func (n *names) add(id, name string) {
	if id == "" || n.known[id] != "" {
		return
	}
	n.known[id] = name
	n.order = nil
}

// addTopic names the id of a topic; a later one of the same name has a number.
func (n *names) addTopic(topic, id string) {
	n.add(id, "<topic:"+numbered(n.topics, topic, topic)+">")
}

// addMember names the id of a member; a later one of the same member has a number.
func (n *names) addMember(m memberKey, id string) {
	if id == "" || n.known[id] != "" {
		return
	}
	n.add(id, numbered(n.members, m, m.name))
}

// addProducer names a producer id; a later one of the same name has a number. Unlike other ids these are numbers, which are not looked for in what is shown.
func (n *names) addProducer(id int64, name string) {
	if n.producers[id] != "" {
		return
	}
	n.producers[id] = "<" + numbered(n.made, name, name) + ">"
}

// numbered counts one more of what key stands for and returns its name, from the second one on with a number.
func numbered[K comparable](counts map[K]int, key K, name string) string {
	counts[key]++
	if k := counts[key]; k > 1 {
		return fmt.Sprintf("%s#%d", name, k)
	}
	return name
}

var longID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// present puts names in place of ids.
func (n *names) present(text string) string {
	if n.order == nil {
		for id := range n.known {
			n.order = append(n.order, id)
		}
		slices.SortFunc(n.order, func(a, b string) int {
			if len(a) != len(b) {
				return len(b) - len(a)
			}
			return strings.Compare(a, b)
		})
	}
	for _, id := range n.order {
		text = strings.ReplaceAll(text, id, n.known[id])
	}
	if n.prefix != "" {
		text = strings.ReplaceAll(text, n.prefix, "")
	}
	return longID.ReplaceAllStringFunc(text, n.unknown)
}

// unknown names an id that nothing is known of.
func (n *names) unknown(id string) string {
	n.unnamed++
	name := fmt.Sprintf("<uuid-%d>", n.unnamed)
	n.add(id, name)
	return name
}

// text names an id whatever it looks like.
func (n *names) text(id string) string {
	if name, ok := n.known[id]; ok {
		return name
	}
	return n.unknown(id)
}
