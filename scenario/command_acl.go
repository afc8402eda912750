package scenario

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/protocol/errorcode"
)

// Options of commands about rules.
const (
	prefixOption = "prefix"
	hostOption   = "host"
)

func init() {
	register(&command{
		name:    "acl",
		usage:   "acl allow|deny USER OPERATION TYPE NAME [prefix=yes] [host=ADDRESS]",
		summary: "Makes a rule of the authorizer (CreateAcls): a user, * for everybody, may or may not do something to a topic, group, cluster or transactional-id. NAME is *, a name or, with prefix=yes, how names begin.",
		example: `
cluster authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer super.users=User:ANONYMOUS
acl allow alice read group work prefix=yes
acl deny * write topic orders host=10.0.0.0/8
acls
----
alice: allow read group work...
*: deny write topic orders from 10.0.0.0/8
*: deny write topic orders from 10.0.0.0/8
alice: allow read group work...
`,
		optionNames: []string{prefixOption, hostOption}, least: 5, most: 5,
		check: func(c *call) error { _, err := ruleOf(c); return err },
		run: func(s *step, c *call) error {
			b, err := ruleOf(c)
			if err != nil {
				return err
			}
			a := kmsg.NewCreateACLsRequestCreation()
			a.ResourceType, a.ResourceName, a.ResourcePatternType = kmsg.ACLResourceType(b.Type), s.ruleName(b), kmsg.ACLResourcePatternType(b.Pattern)
			a.Principal, a.Host, a.Operation, a.PermissionType = b.Principal, b.Host, kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
			q := kmsg.NewPtrCreateACLsRequest()
			q.Creations = append(q.Creations, a)
			p, err := request[*kmsg.CreateACLsResponse](s, s.as(admin), 0, q)
			if err != nil {
				return err
			}
			for _, r := range p.Results {
				if r.ErrorCode != errorcode.None {
					s.printf("%s: %s", c.words[1], failure(r.ErrorCode, r.ErrorMessage))
					continue
				}
				s.printf("%s", showRule(b))
			}
			return nil
		},
	})
}

// ruleName is the name of a rule's resource as brokers know it.
func (s *step) ruleName(b acl.Binding) string {
	if b.Type == acl.Cluster || b.Name == acl.Wildcard {
		return b.Name
	}
	return s.wire(b.Name)
}

// ruleOf is the rule that the words of a command mean, with the script's own names.
func ruleOf(c *call) (b acl.Binding, err error) {
	b.Principal, b.Host, b.Name, b.Pattern = "User:"+c.words[1], acl.Wildcard, c.words[4], acl.Literal
	switch c.words[0] {
	case "allow":
		b.Permission = acl.Allow
	case "deny":
		b.Permission = acl.Deny
	default:
		return b, fmt.Errorf("%q is neither allow nor deny", c.words[0])
	}
	if b.Operation, err = acl.OperationNamed(c.words[2]); err != nil {
		return b, err
	}
	if b.Type, err = acl.ResourceTypeNamed(c.words[3]); err != nil {
		return b, err
	}
	if host, ok := c.options[hostOption]; ok {
		b.Host = host
	}
	switch prefix := c.options[prefixOption]; prefix {
	case "", "no":
	case "yes":
		b.Pattern = acl.Prefixed
	default:
		return b, fmt.Errorf("%s=%s is neither yes nor no", prefixOption, prefix)
	}
	return b, nil
}

// showRule is a rule as it is shown.
func showRule(b acl.Binding) string {
	words := func(s fmt.Stringer) string { return strings.ToLower(strings.ReplaceAll(s.String(), "_", "-")) }
	text := fmt.Sprintf("%s: %s %s %s %s", strings.TrimPrefix(b.Principal, "User:"), words(b.Permission), words(b.Operation), words(b.Type), b.Name)
	if b.Pattern == acl.Prefixed {
		text += "..."
	}
	if b.Host != acl.Wildcard {
		text += " from " + b.Host
	}
	return text
}
