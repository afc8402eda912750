package broker

import (
	"cmp"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/internal/javamap"
	"kshare/protocol/errorcode"
	"kshare/sasl"
)

// DescribeUserScramCredentials (50), v0.
//
// Behaviour (ScramImage.describe):
//   - No users: all that have credentials. Which mechanisms a user has and with how many iterations, nothing of the credentials.
//   - A user without any is RESOURCE_NOT_FOUND, one that is named twice DUPLICATE_RESOURCE, once.
//   - Without the right to describe the cluster and without users Apache Kafka does not answer at all; here the connection is closed.

const describeUserScramCredentialsKey = 50

func init() {
	handlers[describeUserScramCredentialsKey] = needing(locked((*Cluster).describeUserScramCredentials), looksItself(acl.Describe, acl.Cluster, ""))
}

func (c *Cluster) describeUserScramCredentials(r *request, q *kmsg.DescribeUserSCRAMCredentialsRequest) kmsg.Response {
	p := response[*kmsg.DescribeUserSCRAMCredentialsResponse](q)
	if !r.mayOnCluster(acl.Describe) {
		if q.Users == nil {
			r.closing = errUnanswerable
			return nil
		}
		p.ErrorCode = errorcode.ClusterAuthorizationFailed
		for range q.Users {
			entry := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
			entry.ErrorCode = errorcode.ClusterAuthorizationFailed
			p.Results = append(p.Results, entry)
		}
		return p
	}
	p.ErrorMessage = kmsg.StringPtr("")
	iterations := map[string]map[sasl.SCRAMMechanism]int32{}
	for k, credential := range c.credentials {
		if iterations[k.user] == nil {
			iterations[k.user] = map[sasl.SCRAMMechanism]int32{}
		}
		iterations[k.user][k.mechanism] = credential.Iterations
	}
	count := map[string]int{}
	var asked, missing []string
	if len(q.Users) == 0 {
		asked = slices.Sorted(maps.Keys(iterations))
	}
	for _, u := range q.Users {
		if count[u.Name]++; count[u.Name] == 1 {
			asked = append(asked, u.Name)
		}
	}
	for _, user := range javamap.OrderOfPut(asked, javamap.String) {
		entry := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		entry.User, entry.ErrorMessage = user, kmsg.StringPtr("")
		switch has := iterations[user]; {
		case count[user] > 1:
			entry.ErrorCode = errorcode.DuplicateResource
			entry.ErrorMessage = kmsg.StringPtr("Cannot describe SCRAM credentials for the same user twice in a single request: " + user)
		case has == nil:
			missing = append(missing, user)
			continue
		default:
			for _, m := range slices.SortedFunc(maps.Keys(has), func(a, b sasl.SCRAMMechanism) int { return cmp.Compare(b, a) }) {
				info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
				info.Mechanism, info.Iterations = int8(m), has[m]
				entry.CredentialInfos = append(entry.CredentialInfos, info)
			}
		}
		p.Results = append(p.Results, entry)
	}
	for _, user := range missing {
		entry := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		entry.User, entry.ErrorCode = user, errorcode.ResourceNotFound
		entry.ErrorMessage = kmsg.StringPtr("Attempt to describe a user credential that does not exist: " + user)
		p.Results = append(p.Results, entry)
	}
	return p
}
