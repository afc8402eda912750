package scenario

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "acls",
		usage:   "acls",
		summary: "Shows the rules of the authorizer (DescribeAcls), in the order of their text.",
		example: `
cluster authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer super.users=User:ANONYMOUS
acl allow alice read topic *
acls
as alice
acls
----
alice: allow read topic *
alice: allow read topic *
acls: CLUSTER_AUTHORIZATION_FAILED (31): Request Request(...) needs DESCRIBE permission.
`,
		run: func(s *step, _ *call) error {
			q := kmsg.NewPtrDescribeACLsRequest()
			q.ResourceType, q.ResourcePatternType = kmsg.ACLResourceType(acl.AnyResource), kmsg.ACLResourcePatternType(acl.AnyPattern)
			q.Operation, q.PermissionType = kmsg.ACLOperation(acl.AnyOperation), kmsg.ACLPermissionType(acl.AnyPermission)
			p, err := request[*kmsg.DescribeACLsResponse](s, s.as(admin), 0, q)
			if err != nil {
				return err
			}
			if p.ErrorCode != errorcode.None {
				s.printf("acls: %s", failure(p.ErrorCode, p.ErrorMessage))
				return nil
			}
			var shown []string
			for _, r := range p.Resources {
				for _, a := range r.ACLs {
					b := acl.Binding{Type: acl.ResourceType(r.ResourceType), Name: r.ResourceName, Pattern: acl.PatternType(r.ResourcePatternType),
						Principal: a.Principal, Host: a.Host, Operation: acl.Operation(a.Operation), Permission: acl.Permission(a.PermissionType)}
					if name := s.script(b.Name); s.ruleName(acl.Binding{Type: b.Type, Name: name}) == b.Name { // else it is of another script
						b.Name = name
						shown = append(shown, showRule(b))
					}
				}
			}
			slices.Sort(shown)
			for _, line := range shown {
				s.printf("%s", line)
			}
			if len(shown) == 0 {
				s.printf("acls: none")
			}
			return nil
		},
	})
}
