// Package acl decides what a client may do: access-control lists as Kafka's StandardAuthorizer reads them. It holds no lock, clock or socket.
package acl

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ResourceType is what a rule is about (org.apache.kafka.common.resource.ResourceType).
type ResourceType int8

// The types of resources. AnyResource is of filters alone.
const (
	UnknownResource ResourceType = 0
	AnyResource     ResourceType = 1
	Topic           ResourceType = 2
	Group           ResourceType = 3
	Cluster         ResourceType = 4
	TransactionalID ResourceType = 5
	DelegationToken ResourceType = 6
	User            ResourceType = 7
)

// PatternType is how a rule's name is compared with that of a resource (PatternType).
type PatternType int8

// The types of patterns. AnyPattern and Match are of filters alone: Match finds every rule that concerns a resource.
const (
	UnknownPattern PatternType = 0
	AnyPattern     PatternType = 1
	Match          PatternType = 2
	Literal        PatternType = 3
	Prefixed       PatternType = 4
)

// Operation is what is done to a resource (org.apache.kafka.common.acl.AclOperation).
type Operation int8

// The operations. AnyOperation is of filters alone, All of rules.
const (
	UnknownOperation Operation = 0
	AnyOperation     Operation = 1
	All              Operation = 2
	Read             Operation = 3
	Write            Operation = 4
	Create           Operation = 5
	Delete           Operation = 6
	Alter            Operation = 7
	Describe         Operation = 8
	ClusterAction    Operation = 9
	DescribeConfigs  Operation = 10
	AlterConfigs     Operation = 11
	IdempotentWrite  Operation = 12
	CreateTokens     Operation = 13
	DescribeTokens   Operation = 14
	TwoPhaseCommit   Operation = 15
)

// Permission tells whether a rule allows or denies (AclPermissionType).
type Permission int8

// The permissions. AnyPermission is of filters alone.
const (
	UnknownPermission Permission = 0
	AnyPermission     Permission = 1
	Deny              Permission = 2
	Allow             Permission = 3
)

// ClusterName is the name of the one resource of type Cluster.
const ClusterName = "kafka-cluster"

// Wildcard stands for every name of a literal pattern, and for every host.
const Wildcard = "*"

// everybody is the principal of rules for all principals.
const everybody = "User:*"

// Anonymous is the principal of a client that has not said who it is.
const Anonymous = "User:ANONYMOUS"

// Names as Kafka's tools print them, by code. An index beyond is unknown.
var (
	resourceTypes = []string{"UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"}
	patternTypes  = []string{"UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED"}
	operations    = []string{
		"UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS",
		"IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
	}
	permissions = []string{"UNKNOWN", "ANY", "DENY", "ALLOW"}
)

func nameOf(names []string, code int8) string {
	if code < 0 || int(code) >= len(names) {
		return names[0]
	}
	return names[code]
}

func (t ResourceType) String() string { return nameOf(resourceTypes, int8(t)) }
func (t PatternType) String() string  { return nameOf(patternTypes, int8(t)) }
func (o Operation) String() string    { return nameOf(operations, int8(o)) }
func (p Permission) String() string   { return nameOf(permissions, int8(p)) }

// Known tells whether Kafka knows the code; 0 is none that it knows.
func (t ResourceType) Known() bool { return t > 0 && int(t) < len(resourceTypes) }

// Known tells whether Kafka knows the code; 0 is none that it knows.
func (t PatternType) Known() bool { return t > 0 && int(t) < len(patternTypes) }

// Known tells whether Kafka knows the code; 0 is none that it knows.
func (o Operation) Known() bool { return o > 0 && int(o) < len(operations) }

// Known tells whether Kafka knows the code; 0 is none that it knows.
func (p Permission) Known() bool { return p > 0 && int(p) < len(permissions) }

// named finds the code of a name that people write: in any case, with dashes for underscores.
func named(names []string, what, name string) (int8, error) {
	at := slices.Index(names, strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	if at < 2 { // neither UNKNOWN nor ANY is of a rule
		return 0, fmt.Errorf("%q is no %s: one of %s", name, what, strings.ToLower(strings.Join(names[2:], ", ")))
	}
	return int8(at), nil
}

// ResourceTypeNamed is the type with a name that people write.
func ResourceTypeNamed(name string) (ResourceType, error) {
	n, err := named(resourceTypes, "type of a resource", name)
	return ResourceType(n), err
}

// OperationNamed is the operation with a name that people write.
func OperationNamed(name string) (Operation, error) {
	n, err := named(operations, "operation", name)
	return Operation(n), err
}

// Supported are the operations that there are on a type of resource (AclEntry.supportedOperations), in the order of their codes.
func (t ResourceType) Supported() []Operation {
	switch t {
	case Topic:
		return []Operation{Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs}
	case Group:
		return []Operation{Read, Delete, Describe, DescribeConfigs, AlterConfigs}
	case Cluster:
		return []Operation{Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite}
	case TransactionalID:
		return []Operation{Write, Describe, TwoPhaseCommit}
	case DelegationToken:
		return []Operation{Describe}
	case User:
		return []Operation{CreateTokens, DescribeTokens}
	}
	return nil
}

// Binding is one rule. Two that are equal are one.
type Binding struct {
	Type       ResourceType
	Name       string
	Pattern    PatternType
	Principal  string // type:name, as in User:alice
	Host       string // an address, a range like 10.0.0.0/8, or Wildcard
	Operation  Operation
	Permission Permission
}

func (b Binding) String() string {
	return fmt.Sprintf("%s %s %s %s of %s %s from %s", b.Principal, strings.ToLower(b.Permission.String()), strings.ToLower(b.Operation.String()), b.Type, b.Pattern, b.Name, b.Host)
}

// Check says what is wrong with a rule that is to be made, in Kafka's words (AclControlManager.validateNewAcl); "" for nothing. unexpected tells that
// Kafka fails otherwise: a code that is of filters alone.
func (b *Binding) Check() (problem string, unexpected bool) {
	switch {
	case b.Type == AnyResource || b.Pattern == AnyPattern || b.Pattern == Match || b.Operation == AnyOperation || b.Permission == AnyPermission:
		return "", true
	case !b.Type.Known():
		return "Invalid resourceType UNKNOWN", false
	case !b.Pattern.Known():
		return "Invalid patternType UNKNOWN", false
	case !b.Operation.Known():
		return "Invalid operation UNKNOWN", false
	case !b.Permission.Known():
		return "Invalid permissionType UNKNOWN", false
	case b.Name == "":
		return "Invalid empty resource name", false
	case b.Type == Cluster && b.Name != ClusterName:
		return "The only valid name for the CLUSTER resource is " + ClusterName, false
	case !strings.Contains(b.Principal, ":"):
		return fmt.Sprintf("Could not parse principal from `%s` (no colon is present separating the principal type from the principal name)", b.Principal), false
	case b.Host == "":
		return "Host pattern cannot be null or empty", false
	}
	return "", false
}

// Filter picks rules. A nil string and the Any codes pick all.
type Filter struct {
	Type       ResourceType
	Name       *string
	Pattern    PatternType
	Principal  *string
	Host       *string
	Operation  Operation
	Permission Permission
}

// Matches tells whether the filter picks a rule (AclBindingFilter.matches).
func (f *Filter) Matches(b *Binding) bool {
	switch {
	case f.Type != AnyResource && f.Type != b.Type,
		f.Pattern != AnyPattern && f.Pattern != Match && f.Pattern != b.Pattern,
		f.Principal != nil && *f.Principal != b.Principal,
		f.Host != nil && *f.Host != b.Host,
		f.Operation != AnyOperation && f.Operation != b.Operation,
		f.Permission != AnyPermission && f.Permission != b.Permission:
		return false
	case f.Name == nil:
		return true
	case f.Pattern == Match && b.Pattern == Prefixed:
		return strings.HasPrefix(*f.Name, b.Name)
	case f.Pattern == Match && b.Name == Wildcard:
		return true
	}
	return *f.Name == b.Name
}

// covers tells whether the rule is about a host.
func (b *Binding) covers(host string) bool {
	if b.Host == Wildcard || b.Host == host {
		return true
	}
	if !strings.Contains(b.Host, "/") {
		return false
	}
	within, err := netip.ParsePrefix(b.Host)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && within.Contains(addr.Unmap())
}

// gives tells whether the rule is about an operation: what allows to change a resource allows to describe it too, while what denies it does not deny that.
func (b *Binding) gives(op Operation) bool {
	if b.Operation == All || b.Operation == op {
		return true
	}
	if b.Permission != Allow {
		return false
	}
	switch op {
	case Describe:
		return b.Operation == Read || b.Operation == Write || b.Operation == Delete || b.Operation == Alter
	case DescribeConfigs:
		return b.Operation == AlterConfigs
	}
	return false
}
