package scenario

import "strings"

func init() {
	register(&command{
		name:    "help",
		usage:   "help [COMMAND]",
		summary: "Lists the commands, or describes one.",
		example: `
help leave
----
leave GROUP MEMBER
.
Leaves a share group (ShareGroupHeartbeat with epoch -1). The share sessions stay as they are.
.
Example:
.
  topic orders
  join workers m1 orders
  leave workers m1
  ----
  orders: 1 partition
  m1: epoch 3, assigned orders-0
  m1: left
`,
		most: 1, ahead: true,
		run: func(s *step, c *call) error {
			text, err := Help(strings.Join(c.words, " "))
			if err != nil {
				return mistakeFrom(err)
			}
			s.out.WriteString(text)
			return nil
		},
	})
}
