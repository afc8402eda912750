package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/protocol/errorcode"
)

// CreateAcls (30), v1 to v3.
//
// Behaviour (AclControlManager, AclApis):
//   - Without an authorizer: SECURITY_DISABLED for each rule.
//   - Each rule stands by itself: INVALID_REQUEST with a reason, UNKNOWN_SERVER_ERROR for a code that is of filters alone. One that is there is no error.
//   - Which operations there are on a type of resource is not looked at.
//   - A resource or pattern type 0 closes the connection.

const createAclsKey = 30

func init() {
	handlers[createAclsKey] = needing(writing(locked((*Cluster).createACLs)), looksItself(acl.Alter, acl.Cluster, "each rule"))
}

// errUnknownACLCode is why a connection is closed whose request has a code that means nothing.
var errUnknownACLCode = errors.New("a resource type, pattern type, operation or permission of an ACL is 0")

func (c *Cluster) createACLs(r *request, q *kmsg.CreateACLsRequest) kmsg.Response {
	p := response[*kmsg.CreateACLsResponse](q)
	for i := range q.Creations {
		a := &q.Creations[i]
		b := acl.Binding{
			Type: acl.ResourceType(a.ResourceType), Name: a.ResourceName, Pattern: acl.PatternType(a.ResourcePatternType),
			Principal: a.Principal, Host: a.Host, Operation: acl.Operation(a.Operation), Permission: acl.Permission(a.PermissionType),
		}
		if b.Type == 0 || b.Pattern == 0 || b.Operation == 0 || b.Permission == 0 {
			r.closing = errUnknownACLCode
			return nil
		}
		entry := kmsg.NewCreateACLsResponseResult()
		entry.ErrorMessage = kmsg.StringPtr("")
		switch problem, unexpected := b.Check(); {
		case c.authorizer == nil:
			entry.ErrorCode, entry.ErrorMessage = errorcode.SecurityDisabled, kmsg.StringPtr(noAuthorizer)
		case !r.mayOnCluster(acl.Alter):
			entry.ErrorCode, entry.ErrorMessage = errorcode.ClusterAuthorizationFailed, saysAlter
		case unexpected:
			entry.ErrorCode, entry.ErrorMessage = errorcode.UnknownServerError, nil
		case problem != "":
			entry.ErrorCode, entry.ErrorMessage = errorcode.InvalidRequest, &problem
		default:
			if err := c.addRule(b); err != nil {
				no := c.storageRefusal(err)
				entry.ErrorCode, entry.ErrorMessage = no.code, no.text()
			}
		}
		p.Results = append(p.Results, entry)
	}
	return p
}
