package scenario

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "delete-acl",
		usage:   "delete-acl allow|deny USER OPERATION TYPE NAME [prefix=yes] [host=ADDRESS]",
		summary: "Deletes a rule of the authorizer (DeleteAcls), in the words that acl has made it with.",
		example: `
cluster authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer super.users=User:ANONYMOUS
acl allow alice read topic orders
delete-acl allow alice read topic orders
delete-acl allow alice read topic orders
acls
----
alice: allow read topic orders
alice: no longer allow read topic orders
alice: there is no such rule
acls: none
`,
		optionNames: []string{prefixOption, hostOption}, least: 5, most: 5,
		check: func(c *call) error { _, err := ruleOf(c); return err },
		run: func(s *step, c *call) error {
			b, err := ruleOf(c)
			if err != nil {
				return err
			}
			name := s.ruleName(b)
			f := kmsg.NewDeleteACLsRequestFilter()
			f.ResourceType, f.ResourceName, f.ResourcePatternType = kmsg.ACLResourceType(b.Type), &name, kmsg.ACLResourcePatternType(b.Pattern)
			f.Principal, f.Host, f.Operation, f.PermissionType = &b.Principal, &b.Host, kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
			q := kmsg.NewPtrDeleteACLsRequest()
			q.Filters = append(q.Filters, f)
			p, err := request[*kmsg.DeleteACLsResponse](s, s.as(admin), 0, q)
			if err != nil {
				return err
			}
			for _, r := range p.Results {
				switch {
				case r.ErrorCode != errorcode.None:
					s.printf("%s: %s", c.words[1], failure(r.ErrorCode, r.ErrorMessage))
				case len(r.MatchingACLs) == 0:
					s.printf("%s: there is no such rule", c.words[1])
				default:
					s.printf("%s", showDeleted(b))
				}
			}
			return nil
		},
	})
}

// showDeleted is a rule as it is shown that is no more.
func showDeleted(b acl.Binding) string {
	user := b.Principal[len("User:"):]
	return user + ": no longer" + showRule(b)[len(user)+1:]
}
