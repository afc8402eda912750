package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Document describes all commands, as Markdown.
func Document() string {
	var b strings.Builder
	b.WriteString("## Commands\n\n`kshare commands` lists them, `kshare commands NAME` describes one. This part is generated from the language itself by `go test ./scenario -update`; every example is a test.\n")
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		c := commands[name]
		fmt.Fprintf(&b, "\n### %s\n\n`%s`\n\n%s", name, c.usage, strings.NewReplacer("<", `\<`, "*", `\*`).Replace(c.summary))
		switch c.reach {
		case inside:
			b.WriteString(" Not over the wire.")
		case operated:
			b.WriteString(" Not over the wire, unless to a Kafka that the scenario's runner has started.")
		}
		fmt.Fprintf(&b, "\n\n```\n%s```\n", strings.TrimPrefix(c.example, "\n"))
	}
	return b.String()
}
