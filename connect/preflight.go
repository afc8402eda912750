package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// preflight finds what brokers have against a share group, and configures it. What passes is retriable; what does not names the property.
func (s *settings) preflight(ctx context.Context, client *kgo.Client) error {
	if s.protocol != shareProtocol {
		return nil
	}
	if err := s.features(ctx, client); err != nil {
		return err
	}
	if err := s.noOtherGroup(ctx, client); err != nil {
		return err
	}
	return s.configureGroup(ctx, client)
}

// features looks for what the cluster has to have.
func (s *settings) features(ctx context.Context, client *kgo.Client) error {
	resp, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, client)
	if err != nil {
		return Retriable(fmt.Errorf("%s: %w", bootstrapKey, err))
	}
	level := map[string]int16{}
	for _, f := range resp.FinalizedFeatures {
		level[f.Name] = f.MaxVersionLevel
	}
	switch {
	case level["share.version"] < 1:
		return wrong(s.protocolFrom, shareProtocol, "needs share groups, which the brokers do not have: share.version is 0")
	case s.deadLetters != "" && level["share.version"] < 2:
		return wrong(deadKey, s.deadLetters, "needs brokers that write dead letters of share groups (KIP-1191): share.version is below 2")
	case s.exactlyOnce && level["transaction.version"] < 2:
		return wrong(exactlyOnceKey, "required", "needs transaction.version 2")
	case s.exactlyOnce && !slices.ContainsFunc(resp.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == protocol.TxnShareAcknowledgeKey }):
		return wrong(exactlyOnceKey, "required", "needs brokers that take acknowledgements of share groups in transactions (KIP-1289)")
	}
	return nil
}

// noOtherGroup tells of a group with the id that is no share group: an id has one type.
func (s *settings) noOtherGroup(ctx context.Context, client *kgo.Client) error {
	for _, shard := range client.RequestSharded(ctx, kmsg.NewPtrListGroupsRequest()) {
		resp, ok := shard.Resp.(*kmsg.ListGroupsResponse)
		if shard.Err != nil || !ok {
			return Retriable(fmt.Errorf("groups are not known: %w", shard.Err))
		}
		if resp.ErrorCode != errorcode.None {
			return Retriable(fmt.Errorf("groups are not known: %s", errorcode.Name(resp.ErrorCode)))
		}
		for _, g := range resp.Groups {
			if g.Group == s.group && g.GroupType != "" && g.GroupType != shareProtocol {
				property := s.groupBy
				if property == nameKey {
					property = groupIDKey // which would say otherwise
				}
				return wrong(property, s.group, fmt.Sprintf("is the id of a %s group, which cannot be a share group too: name another", g.GroupType))
			}
		}
	}
	return nil
}

// configureGroup gives the group the configurations that the connector's properties are about: they are brokers' with a share group. Where a group begins to read and what it
// sees is left to who has configured it already.
func (s *settings) configureGroup(ctx context.Context, client *kgo.Client) error {
	set, err := groupConfigs(ctx, client, s.group)
	if err != nil {
		return err
	}
	type change struct{ key, value, property string }
	var changes []change
	for _, c := range []change{
		{"share.auto.offset.reset", s.offsetReset, "consumer.override.auto.offset.reset"},
		{"share.isolation.level", s.isolation, "consumer.override.isolation.level"},
	} {
		if !set[c.key] {
			changes = append(changes, c)
		}
	}
	if s.lock > 0 {
		changes = append(changes, change{"share.record.lock.duration.ms", strconv.FormatInt(s.lock.Milliseconds(), 10), lockKey})
	}
	if s.deadLetters != "" {
		changes = append(changes, change{deadKey, s.deadLetters, deadKey})
	}
	for _, c := range changes {
		resource := kmsg.NewIncrementalAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, s.group
		resource.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: c.key, Value: &c.value}}
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{resource}
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return Retriable(fmt.Errorf("group %s is not configured: %w", s.group, err))
		}
		if err := answered(resp.Resources[0].ErrorCode, resp.Resources[0].ErrorMessage); err != nil {
			if isRetriable(err) {
				return err
			}
			return wrong(c.property, c.value, fmt.Sprintf("was refused as %s of group %s: %v", c.key, s.group, err))
		}
	}
	return nil
}

// groupConfigs are the keys that somebody has configured a group with.
func groupConfigs(ctx context.Context, client *kgo.Client, group string) (map[string]bool, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	req.Resources = []kmsg.DescribeConfigsRequestResource{resource}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, Retriable(fmt.Errorf("the configuration of group %s is not known: %w", group, err))
	}
	set := map[string]bool{}
	for _, r := range resp.Resources {
		if err := answered(r.ErrorCode, r.ErrorMessage); err != nil {
			return nil, fmt.Errorf("the configuration of group %s is not known: %w", group, err)
		}
		for _, c := range r.Configs {
			set[c.Name] = c.Source == kmsg.ConfigSourceGroupConfig
		}
	}
	return set, nil
}

// answered is the error of an answer, which may pass.
func answered(code int16, message *string) error {
	if code == errorcode.None {
		return nil
	}
	text := errorcode.Name(code)
	if message != nil && *message != "" {
		text += ": " + *message
	}
	err := errors.New(text)
	if kerr.IsRetriable(kerr.ErrorForCode(code)) {
		return Retriable(err)
	}
	return err
}

// matching are the topics to read: those that are named, or those that there are now of topics.regex, which share groups cannot be told.
func (s *settings) matching(ctx context.Context, client *kgo.Client) ([]string, error) {
	if s.regex == nil {
		return s.topics, nil
	}
	req := kmsg.NewPtrMetadataRequest() // of all topics
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, Retriable(fmt.Errorf("%s: %w", regexKey, err))
	}
	var topics []string
	for _, t := range resp.Topics {
		if t.Topic != nil && !t.IsInternal && t.ErrorCode == errorcode.None && s.regex.MatchString(*t.Topic) {
			topics = append(topics, *t.Topic)
		}
	}
	slices.Sort(topics)
	return topics, nil
}
