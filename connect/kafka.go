package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// KafkaSink writes records to a topic of the same cluster or another: keys and values as strings and bytes are, anything else as JSON, with the record's headers and time.
// With exactly.once.support=required it is the same cluster.
type KafkaSink struct{}

// Properties of a KafkaSink.
const (
	kafkaTopicKey     = "kafka.topic"             // where to; without it the topic that the record is of after transformations
	kafkaBootstrapKey = "kafka.bootstrap.servers" // of another cluster
)

// deliveryTimeout is how long a record is tried to be written (delivery.timeout.ms of Kafka's producer).
const deliveryTimeout = 2 * time.Minute

// Validate tells of records that would go where they come from.
func (KafkaSink) Validate(config map[string]string) error {
	to, ok := config[kafkaTopicKey]
	switch {
	case ok && to == "":
		return wrong(kafkaTopicKey, to, "is empty")
	case len(list(config[kafkaBootstrapKey])) > 0:
		return nil
	case slices.Contains(list(config[topicsKey]), to):
		return wrong(kafkaTopicKey, to, "is one of the topics that are read")
	case !ok && config["transforms"] == "":
		return &ConfigError{kafkaTopicKey, "is missing: records would go to the topic that they come from; a transformation could give them another"}
	}
	if text, ok := config[regexKey]; ok {
		if pattern, err := fullMatch(text); err == nil && pattern.MatchString(to) {
			return wrong(kafkaTopicKey, to, "is one of the topics that "+regexKey+" matches")
		}
	}
	return nil
}

// TaskConfigs are all alike.
func (KafkaSink) TaskConfigs(config map[string]string, n int) []map[string]string {
	return alike(config, n)
}

// NewTask makes a task.
func (KafkaSink) NewTask() SinkTask { return &kafkaTask{} }

type kafkaTask struct {
	topic  string
	client *kgo.Client
}

func (t *kafkaTask) Start(ctx context.Context, task TaskContext, config map[string]string) error {
	t.topic = config[kafkaTopicKey]
	opts := slices.Clone(task.ClientOpts)
	other := list(config[kafkaBootstrapKey])
	if len(other) > 0 {
		opts = append(opts, kgo.SeedBrokers(other...))
	}
	// A put that is abandoned, or takes too long, returns: its records come again, and whether they are there already nobody can tell.
	opts = append(opts, kgo.AllowIdempotentProduceCancellation(), kgo.RecordDeliveryTimeout(deliveryTimeout))
	var err error
	if t.client, err = kgo.NewClient(append(opts, kgo.ClientID(fmt.Sprintf("connector-producer-%s-%d", task.Connector, task.Task)))...); err != nil {
		return err
	}
	if len(other) > 0 && config[exactlyOnceKey] == "required" {
		same, err := sameCluster(ctx, t.client, task.ClientOpts)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", kafkaBootstrapKey, err)
		case !same:
			return wrong(exactlyOnceKey, "required", "is for one cluster: "+kafkaBootstrapKey+" is another than "+bootstrapKey)
		}
	}
	return nil
}

// sameCluster tells whether a client's cluster is the one that opts lead to.
func sameCluster(ctx context.Context, a *kgo.Client, opts []kgo.Opt) (bool, error) {
	b, err := kgo.NewClient(opts...)
	if err != nil {
		return false, err
	}
	defer b.Close()
	var ids [2]string
	for i, client := range []*kgo.Client{a, b} {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{}
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return false, err
		}
		if resp.ClusterID == nil {
			return false, errors.New("the cluster does not tell its id")
		}
		ids[i] = *resp.ClusterID
	}
	return ids[0] == ids[1], nil
}

func (t *kafkaTask) Open([]string) error { return nil }

// Outputs are the records to write.
func (t *kafkaTask) Outputs(records []*SinkRecord) (outputs []*kgo.Record, err error) {
	for _, r := range records {
		out := &kgo.Record{Topic: t.topic, Headers: r.Headers, Timestamp: r.Timestamp}
		if t.topic == "" {
			if out.Topic = r.Topic; r.Topic == r.from.Topic {
				return nil, fmt.Errorf("%s: %s-%d offset %d would go to the topic that it comes from", kafkaTopicKey, r.Topic, r.Partition, r.Offset)
			}
		}
		if out.Key, err = bytesOfValue(r.Key); err == nil {
			out.Value, err = bytesOfValue(r.Value)
		}
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, out)
	}
	return outputs, nil
}

// Put returns when all is written, or tells what of it was not.
func (t *kafkaTask) Put(ctx context.Context, records []*SinkRecord) error {
	outputs, err := t.Outputs(records)
	if err != nil {
		return err
	}
	err = t.client.ProduceSync(ctx, outputs...).FirstErr()
	var network *net.OpError
	switch {
	case err == nil:
		return nil
	case kerr.IsRetriable(err), errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.As(err, &network):
		return Retriable(err)
	}
	return err
}

func (t *kafkaTask) Flush(context.Context) error { return nil }

func (t *kafkaTask) Stop() error {
	if t.client != nil {
		t.client.Close()
	}
	return nil
}
