package broker

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/internal/javamap"
	"kshare/protocol/errorcode"
	"kshare/sasl"
)

// AlterUserScramCredentials (51), v0.
//
// Behaviour (ScramControlManager):
//   - Each user stands by itself and is answered once: UNACCEPTABLE_CREDENTIAL for an empty name or iterations out of bounds, UNSUPPORTED_SASL_MECHANISM,
//     RESOURCE_NOT_FOUND for a deletion of nothing, DUPLICATE_RESOURCE for a user that is there twice, also with two mechanisms.
//   - An empty salt is taken, an empty password is UNKNOWN_SERVER_ERROR.
//   - The password comes salted; what is kept cannot be used to log in (package sasl).

const alterUserScramCredentialsKey = 51

func init() {
	handlers[alterUserScramCredentialsKey] = needing(writing(locked((*Cluster).alterUserScramCredentials)), looksItself(acl.Alter, acl.Cluster, ""))
}

// errUnanswerable is why a connection is closed to which Apache Kafka says nothing more.
var errUnanswerable = errors.New("the client has no right to it, and Apache Kafka finds no answer that says so")

// scramAlteration is what is to become of a user's credential.
type scramAlteration struct {
	key    credentialKey
	delete bool
	upsert *kmsg.AlterUserSCRAMCredentialsRequestUpsertion
}

func (c *Cluster) alterUserScramCredentials(r *request, q *kmsg.AlterUserSCRAMCredentialsRequest) kmsg.Response {
	p := response[*kmsg.AlterUserSCRAMCredentialsResponse](q)
	var asked []scramAlteration
	for _, d := range q.Deletions {
		asked = append(asked, scramAlteration{key: credentialKey{sasl.SCRAMMechanism(d.Mechanism), d.Name}, delete: true})
	}
	for i := range q.Upsertions {
		u := &q.Upsertions[i]
		asked = append(asked, scramAlteration{key: credentialKey{sasl.SCRAMMechanism(u.Mechanism), u.Name}, upsert: u})
	}
	refusals := map[string]*refusal{}
	count := map[string]int{}
	var users []string
	for i := range asked {
		a := &asked[i]
		user := a.key.user
		if count[user]++; count[user] == 1 {
			users = append(users, user)
		}
		if no := c.checkScramAlteration(a); no != nil && refusals[user] == nil {
			refusals[user] = no
		}
		if count[user] == 2 && refusals[user] == nil {
			refusals[user] = refused(errorcode.DuplicateResource, "A user credential cannot be altered twice in the same request")
		}
	}
	for _, user := range javamap.OrderOfPut(users, javamap.String) {
		entry := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		entry.User = user
		no := refusals[user]
		if !r.mayOnCluster(acl.Alter) {
			no = refused(errorcode.ClusterAuthorizationFailed, "%s", *saysAlter)
		}
		if no == nil {
			no = c.alterScramCredential(&asked[slices.IndexFunc(asked, func(a scramAlteration) bool { return a.key.user == user })])
		}
		if no != nil {
			entry.ErrorCode, entry.ErrorMessage = no.code, no.text()
		}
		p.Results = append(p.Results, entry)
	}
	return p
}

// checkScramAlteration is why an alteration is refused.
func (c *Cluster) checkScramAlteration(a *scramAlteration) *refusal {
	_, there := c.credentials[a.key]
	switch {
	case a.key.user == "":
		return refused(errorcode.UnacceptableCredential, "Username must not be empty")
	case !slices.Contains(sasl.SCRAMMechanisms, a.key.mechanism):
		return refused(errorcode.UnsupportedSASLMechanism, "Unknown SCRAM mechanism")
	case a.delete && !there:
		return refused(errorcode.ResourceNotFound, "Attempt to delete a user credential that does not exist")
	case a.delete:
		return nil
	case a.upsert.Iterations < sasl.MinIterations:
		return refused(errorcode.UnacceptableCredential, "Too few iterations")
	case a.upsert.Iterations > sasl.MaxIterations:
		return refused(errorcode.UnacceptableCredential, "Too many iterations")
	}
	return nil
}

// alterScramCredential makes an alteration that was checked.
func (c *Cluster) alterScramCredential(a *scramAlteration) *refusal {
	if a.delete {
		if err := c.removeCredential(a.key); err != nil {
			return c.storageRefusal(err)
		}
		return nil
	}
	if len(a.upsert.SaltedPassword) == 0 {
		return &refusal{code: errorcode.UnknownServerError}
	}
	made := a.key.mechanism.FromSalted(slices.Clone(a.upsert.Salt), a.upsert.SaltedPassword, a.upsert.Iterations)
	if err := c.storeCredential(a.key, made); err != nil {
		return c.storageRefusal(err)
	}
	return nil
}
