package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"kshare/acl"
	"kshare/sasl"
)

// standardAuthorizer is the one authorizer that there is, in place of Apache Kafka's class of that name.
const standardAuthorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

// secure sets up listeners and the authorizer.
func (c *Cluster) secure(o *Options) error {
	c.listeners = newListeners(o.Listeners)
	c.failureDelay = o.Config.Values().Duration("connection.failed.authentication.delay.ms")
	c.maxToken = int(o.Config.Values().Int("sasl.server.max.receive.size"))
	class := o.Config.Values().String("authorizer.class.name")
	if class == "" {
		return nil
	}
	if class != standardAuthorizer {
		return fmt.Errorf("authorizer.class.name=%s: there is one authorizer, %s", class, standardAuthorizer)
	}
	var superUsers []string
	text, _ := o.Config.Get("super.users")
	for user := range strings.SplitSeq(text, ";") {
		user = strings.TrimSpace(user)
		if user == "" {
			continue
		}
		if !strings.Contains(user, ":") {
			return fmt.Errorf("super.users: %q is not type:name, as in User:alice; several are separated by semicolons", user)
		}
		superUsers = append(superUsers, user)
	}
	permissive, _ := o.Config.Get("allow.everyone.if.no.acl.found")
	c.authorizer = acl.New(superUsers, strings.EqualFold(permissive, "true"))
	return nil
}

// loadSecurity brings back the rules and credentials that the store holds, and makes those that users are started with.
func (c *Cluster) loadSecurity(o *Options) error {
	c.credentials = map[credentialKey]sasl.Credential{}
	err := eachStored(c, credentialPrefix, func(s storedCredential) error {
		c.credentials[credentialKey{s.Mechanism, s.User}] = s.Credential
		return nil
	})
	if err != nil {
		return err
	}
	for user, given := range o.Credentials {
		for m, credential := range given {
			if _, known := c.credentials[credentialKey{m, user}]; known {
				continue
			}
			if err := c.storeCredential(credentialKey{m, user}, credential); err != nil {
				return fmt.Errorf("the credential of user %s: %w", user, err)
			}
		}
	}
	c.rules = map[acl.Binding]uint64{}
	return eachStored(c, rulePrefix, func(s storedRule) error {
		c.rules[s.Rule], c.lastRule = s.Number, max(c.lastRule, s.Number)
		if c.authorizer != nil {
			c.authorizer.Add(s.Rule)
		}
		return nil
	})
}

// credentialKey is whose credential of which mechanism.
type credentialKey struct {
	mechanism sasl.SCRAMMechanism
	user      string
}

// storedCredential is a credential as it is stored.
type storedCredential struct {
	User       string
	Mechanism  sasl.SCRAMMechanism
	Credential sasl.Credential
}

const credentialPrefix = "scram/"

func (k credentialKey) stored() string {
	return fmt.Sprintf("%s%d/%s", credentialPrefix, k.mechanism, k.user)
}

// storeCredential stores a credential.
func (c *Cluster) storeCredential(k credentialKey, made sasl.Credential) error {
	if err := c.storeJSON(k.stored(), storedCredential{k.user, k.mechanism, made}); err != nil {
		return err
	}
	c.credentials[k] = made
	return nil
}

// removeCredential removes a credential.
func (c *Cluster) removeCredential(k credentialKey) error {
	if err := c.store.PutMetadata(k.stored(), nil); err != nil {
		return err
	}
	delete(c.credentials, k)
	return nil
}

// storedRule is a rule as it is stored. Numbers rise in the order in which rules were made.
type storedRule struct {
	Number uint64
	Rule   acl.Binding
}

const rulePrefix = "acl/"

func ruleKey(number uint64) string { return fmt.Sprintf("%s%020d", rulePrefix, number) }

// addRule makes a rule, if it is not there.
func (c *Cluster) addRule(b acl.Binding) error {
	if _, known := c.rules[b]; known {
		return nil
	}
	if err := c.storeJSON(ruleKey(c.lastRule+1), storedRule{c.lastRule + 1, b}); err != nil {
		return err
	}
	c.lastRule++
	c.rules[b] = c.lastRule
	c.authorizer.Add(b)
	return nil
}

// removeRule removes a rule.
func (c *Cluster) removeRule(b acl.Binding) error {
	if err := c.store.PutMetadata(ruleKey(c.rules[b]), nil); err != nil {
		return err
	}
	delete(c.rules, b)
	c.authorizer.Remove(b)
	return nil
}

// ErrNoAuthorizer is the error of what needs an authorizer where there is none.
var ErrNoAuthorizer = errors.New("there is no authorizer: set authorizer.class.name=" + standardAuthorizer)

// AddRules makes rules of the authorizer.
func (c *Cluster) AddRules(rules ...acl.Binding) error {
	return c.change(func() error {
		if c.authorizer == nil {
			return ErrNoAuthorizer
		}
		for _, b := range rules {
			if problem, unexpected := b.Check(); problem != "" || unexpected {
				return fmt.Errorf("the rule %s: %s", b, problem)
			}
			if err := c.addRule(b); err != nil {
				return err
			}
		}
		return nil
	})
}

// RemoveRules removes rules of the authorizer; those that are not there are none of its business.
func (c *Cluster) RemoveRules(rules ...acl.Binding) error {
	return c.change(func() error {
		if c.authorizer == nil {
			return ErrNoAuthorizer
		}
		for _, b := range rules {
			if _, known := c.rules[b]; known {
				if err := c.removeRule(b); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// InspectRules returns the rules of the authorizer in the order in which they were made.
func (c *Cluster) InspectRules() []acl.Binding {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.authorizer == nil {
		return nil
	}
	return slices.Clone(c.authorizer.Find(&acl.Filter{Type: acl.AnyResource, Pattern: acl.AnyPattern, Operation: acl.AnyOperation, Permission: acl.AnyPermission}))
}

// listenerUsers are the users that a listener knows. The cluster's lock is held.
type listenerUsers struct {
	cluster  *Cluster
	listener *listener
}

func (u listenerUsers) Password(user string) (string, bool) {
	p, ok := u.listener.Passwords[user]
	return p, ok
}

func (u listenerUsers) SCRAM(m sasl.SCRAMMechanism, user string) (sasl.Credential, bool) {
	k, ok := u.cluster.credentials[credentialKey{m, user}]
	return k, ok
}
