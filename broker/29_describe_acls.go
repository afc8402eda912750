package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/protocol/errorcode"
)

// DescribeAcls (29), v1 to v3.
//
// Behaviour:
//   - Without an authorizer: SECURITY_DISABLED.
//   - The rules that the filter picks, by resources. Pattern type ANY picks by any name or the one given, MATCH those that concern a resource of that name.
//   - A code 0 anywhere in the filter closes the connection. Kafka's order is that of a hash map; here it is that in which rules were made.

const describeAclsKey = 29

func init() {
	handlers[describeAclsKey] = needing(locked((*Cluster).describeACLs), onCluster(acl.Describe, saysDescribe))
}

// noAuthorizer is what answers say where there is no authorizer.
const noAuthorizer = "No Authorizer is configured."

func (c *Cluster) describeACLs(r *request, q *kmsg.DescribeACLsRequest) kmsg.Response {
	p := response[*kmsg.DescribeACLsResponse](q)
	if c.authorizer == nil {
		p.ErrorCode, p.ErrorMessage = errorcode.SecurityDisabled, kmsg.StringPtr(noAuthorizer)
		return p
	}
	f := acl.Filter{
		Type: acl.ResourceType(q.ResourceType), Name: q.ResourceName, Pattern: acl.PatternType(q.ResourcePatternType),
		Principal: q.Principal, Host: q.Host, Operation: acl.Operation(q.Operation), Permission: acl.Permission(q.PermissionType),
	}
	if r.closing = checkFilter(&f); r.closing != nil {
		return nil
	}
	p.ErrorMessage = kmsg.StringPtr("")
	places := map[acl.Binding]int{} // by resource
	for _, b := range c.authorizer.Find(&f) {
		of := acl.Binding{Type: b.Type, Name: b.Name, Pattern: b.Pattern}
		at, known := places[of]
		if !known {
			at = len(p.Resources)
			places[of] = at
			resource := kmsg.NewDescribeACLsResponseResource()
			resource.ResourceType, resource.ResourceName, resource.ResourcePatternType = kmsg.ACLResourceType(b.Type), b.Name, kmsg.ACLResourcePatternType(b.Pattern)
			p.Resources = append(p.Resources, resource)
		}
		entry := kmsg.NewDescribeACLsResponseResourceACL()
		entry.Principal, entry.Host, entry.Operation, entry.PermissionType = b.Principal, b.Host, kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
		p.Resources[at].ACLs = append(p.Resources[at].ACLs, entry)
	}
	return p
}
