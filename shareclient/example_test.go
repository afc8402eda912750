package shareclient_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/shareclient"
)

// A worker reads orders with a share group and writes an invoice for each. What it writes and that it has read take effect together.
func Example() {
	ctx := context.Background()
	cluster, seeds := start()
	defer cluster.Close()

	consumer, err := shareclient.NewConsumer(shareclient.ConsumerConfig{Group: "workers", Topics: []string{"orders"}}, seeds)
	if err != nil {
		log.Fatal(err)
	}
	producer, err := shareclient.NewProducer(ctx, shareclient.ProducerConfig{TransactionalID: "worker-1"}, seeds)
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Close()
	for done := 0; done < 3; {
		records, err := consumer.Poll(ctx)
		if err != nil {
			log.Fatal(err)
		}
		err = producer.BeginTransaction()
		for _, r := range records {
			invoice := &kgo.Record{Topic: "invoices", Value: []byte("invoice for " + string(r.Value))}
			err = errors.Join(err, producer.Produce(ctx, invoice), consumer.Acknowledge(r, shareclient.Accept))
		}
		err = errors.Join(err, producer.SendShareAcknowledgementsToTransaction(ctx, consumer.AcknowledgementsForTransaction(), consumer.GroupMetadata()))
		switch {
		case err == nil:
			err, done = producer.CommitTransaction(ctx), done+len(records)
		case !shareclient.IsFatal(err):
			err = producer.AbortTransaction(ctx) // the records come again
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := consumer.Close(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Join(committed(ctx, "invoices", 3, seeds), "\n"))
	// Output:
	// invoice for two teapots
	// invoice for a kettle
	// invoice for six cups
}

// start runs a cluster with orders that the group is to read from the first.
func start() (*kshare.Cluster, kgo.Opt) {
	cluster, err := kshare.Start(kshare.WithKIP1289(), kshare.WithTopic("orders", 1), kshare.WithTopic("invoices", 1))
	if err != nil {
		log.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	beginAtEarliest(client, "workers")
	for _, order := range []string{"two teapots", "a kettle", "six cups"} {
		if err := client.ProduceSync(context.Background(), kgo.StringRecord(order)).FirstErr(); err != nil {
			log.Fatal(err)
		}
	}
	return cluster, kgo.SeedBrokers(cluster.Addrs()...)
}

func beginAtEarliest(client *kgo.Client, group string) {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	resource.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "share.auto.offset.reset", Value: kmsg.StringPtr("earliest")}}
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	if _, err := request.RequestWith(context.Background(), client); err != nil {
		log.Fatal(err)
	}
}

// committed reads the first n records of a topic that read_committed shows.
func committed(ctx context.Context, topic string, n int, opts ...kgo.Opt) (values []string) {
	client, err := kgo.NewClient(append(opts, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for len(values) < n {
		for _, r := range client.PollFetches(ctx).Records() {
			values = append(values, string(r.Value))
		}
	}
	return values
}
