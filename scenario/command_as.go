package scenario

import "strings"

func init() {
	register(&command{
		name:    "as",
		usage:   "as [USER]",
		summary: "Says who sends the requests of the commands that follow: the principal User:USER, without a word ANONYMOUS again. Each has connections of its own.",
		example: `
cluster authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer super.users=User:ANONYMOUS
topic orders
as alice
produce orders-0 a
as
acl allow alice write topic orders
as alice
produce orders-0 a
----
orders: 1 partition
orders-0: TOPIC_AUTHORIZATION_FAILED (29)
alice: allow write topic orders
orders-0: offset 0
`,
		most: 1, reach: inside, ahead: true,
		run: func(s *step, c *call) error {
			s.user = strings.Join(c.words, "")
			return nil
		},
	})
}
