package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/protocol/errorcode"
)

// DeleteAcls (31), v1 to v3.
//
// Behaviour:
//   - Without an authorizer: SECURITY_DISABLED for each filter.
//   - Deletes the rules that the filters pick, and names them. A rule that two filters pick is named by both.
//   - A code 0 anywhere in a filter closes the connection.

const deleteAclsKey = 31

func init() {
	handlers[deleteAclsKey] = needing(writing(locked((*Cluster).deleteACLs)), looksItself(acl.Alter, acl.Cluster, "each filter"))
}

// checkFilter is why a connection is closed that has sent a filter, nil for a good one.
func checkFilter(f *acl.Filter) error {
	if f.Type == 0 || f.Pattern == 0 || f.Operation == 0 || f.Permission == 0 {
		return errUnknownACLCode
	}
	return nil
}

func (c *Cluster) deleteACLs(r *request, q *kmsg.DeleteACLsRequest) kmsg.Response {
	p := response[*kmsg.DeleteACLsResponse](q)
	found := make([][]acl.Binding, len(q.Filters))
	for i := range q.Filters {
		a := &q.Filters[i]
		f := acl.Filter{
			Type: acl.ResourceType(a.ResourceType), Name: a.ResourceName, Pattern: acl.PatternType(a.ResourcePatternType),
			Principal: a.Principal, Host: a.Host, Operation: acl.Operation(a.Operation), Permission: acl.Permission(a.PermissionType),
		}
		if r.closing = checkFilter(&f); r.closing != nil {
			return nil
		}
		if c.authorizer != nil && r.mayOnCluster(acl.Alter) {
			found[i] = c.authorizer.Find(&f)
		}
	}
	failed := map[acl.Binding]*refusal{}
	for i := range q.Filters {
		result := kmsg.NewDeleteACLsResponseResult()
		if c.authorizer == nil {
			result.ErrorCode, result.ErrorMessage = errorcode.SecurityDisabled, kmsg.StringPtr(noAuthorizer)
		} else if !r.mayOnCluster(acl.Alter) {
			result.ErrorCode, result.ErrorMessage = errorcode.ClusterAuthorizationFailed, saysAlter
		}
		for _, b := range found[i] {
			if _, there := c.rules[b]; there {
				if err := c.removeRule(b); err != nil {
					failed[b] = c.storageRefusal(err)
				}
			}
			entry := kmsg.NewDeleteACLsResponseResultMatchingACL()
			entry.ResourceType, entry.ResourceName, entry.ResourcePatternType = kmsg.ACLResourceType(b.Type), b.Name, kmsg.ACLResourcePatternType(b.Pattern)
			entry.Principal, entry.Host, entry.Operation, entry.PermissionType = b.Principal, b.Host, kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
			if no := failed[b]; no != nil {
				entry.ErrorCode, entry.ErrorMessage = no.code, no.text()
			}
			result.MatchingACLs = append(result.MatchingACLs, entry)
		}
		p.Results = append(p.Results, result)
	}
	return p
}
