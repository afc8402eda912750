package kshare_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/clock"
	"kshare/fault"
	"kshare/protocol/errorcode"
)

// A real client produces to a cluster in the process and consumes from it.
func Example() {
	cluster, err := kshare.Start(kshare.WithTopic("orders", 3))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()

	client, err := kgo.NewClient(
		kgo.SeedBrokers(cluster.Addrs()...),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumerGroup("billing"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("two teapots")}).FirstErr(); err != nil {
		log.Fatal(err)
	}
	for _, r := range client.PollFetches(ctx).Records() {
		fmt.Println(string(r.Value))
	}
	// Output: two teapots
}

// Members of a share group take records one by one. What one releases is delivered again.
func Example_shareGroup() {
	cluster, err := kshare.Start(kshare.WithTopic("orders", 1))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()

	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.ConsumeTopics("orders"), kgo.ShareGroup("workers"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	beginAtEarliest(client, "workers")
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("two teapots")}).FirstErr(); err != nil {
		log.Fatal(err)
	}
	for _, answer := range []kgo.AckStatus{kgo.AckRelease, kgo.AckAccept} {
		for _, r := range client.PollFetches(ctx).Records() {
			fmt.Printf("%s, delivery %d: %s\n", r.Value, r.DeliveryCount(), answer)
			r.Ack(answer)
		}
		if err := client.FlushAcks(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// two teapots, delivery 1: release
	// two teapots, delivery 2: accept
}

// beginAtEarliest has a share group begin with the oldest record. Like any Kafka's, it would begin with what comes after its first fetch.
func beginAtEarliest(client *kgo.Client, group string) {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "share.auto.offset.reset", kmsg.StringPtr("earliest")
	resource.Configs = append(resource.Configs, config)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	if _, err := request.RequestWith(context.Background(), client); err != nil {
		log.Fatal(err)
	}
}

// What a transaction wrote is there for who reads committed records once it is committed, and never if it is aborted.
func Example_transaction() {
	cluster, err := kshare.Start(kshare.WithTopic("orders", 1))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.TransactionalID("payments"), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Close()
	ctx := context.Background()
	transact := func(value string, end kgo.TransactionEndTry) {
		if err := producer.BeginTransaction(); err != nil {
			log.Fatal(err)
		}
		if err := producer.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
			log.Fatal(err)
		}
		if err := producer.EndTransaction(ctx, end); err != nil {
			log.Fatal(err)
		}
	}
	transact("three elephants", kgo.TryAbort)
	transact("two teapots", kgo.TryCommit)

	consumer, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.ConsumeTopics("orders"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Close()
	for _, r := range consumer.PollFetches(ctx).Records() {
		fmt.Println(string(r.Value))
	}
	// Output: two teapots
}

// Without a port, tests can run side by side anywhere.
func ExampleWithInMemoryNetwork() {
	cluster, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithTopic("orders", 1))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()

	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.Dialer(cluster.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	result := client.ProduceSync(context.Background(), &kgo.Record{Topic: "orders", Value: []byte("two teapots")})
	fmt.Println(result.FirstErr(), result[0].Record.Offset)
	// Output: <nil> 0
}

// On a virtual clock the 30 s of a record's lock pass when the test says so.
func ExampleWithClock() {
	virtual := clock.NewVirtual(time.Now()) // a broker refuses records of an hour ahead of its own time
	cluster, err := kshare.Start(kshare.WithClock(virtual), kshare.WithTopic("orders", 1))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	worker := func() *kgo.Client {
		client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.ConsumeTopics("orders"), kgo.ShareGroup("workers"),
			kgo.MaxConcurrentFetches(0)) // nothing is fetched before it is polled for
		if err != nil {
			log.Fatal(err)
		}
		return client
	}
	ctx := context.Background()

	slow := worker()
	defer slow.Close()
	beginAtEarliest(slow, "workers")
	if err := slow.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("two teapots")}).FirstErr(); err != nil {
		log.Fatal(err)
	}
	slow.PollFetches(ctx) // it takes the record and does not answer

	virtual.Advance(30 * time.Second)

	other := worker()
	defer other.Close()
	for _, r := range other.PollFetches(ctx).Records() {
		fmt.Printf("%s, delivery %d\n", r.Value, r.DeliveryCount())
	}
	// Output: two teapots, delivery 2
}

// A cluster that is started on the directory of an earlier one goes on where that one stopped.
func ExampleWithDirectory() {
	dir, err := os.MkdirTemp("", "kshare")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for range 2 {
		cluster, err := kshare.Start(kshare.WithDirectory(dir), kshare.WithTopic("orders", 1))
		if err != nil {
			log.Fatal(err)
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...))
		if err != nil {
			log.Fatal(err)
		}
		result := client.ProduceSync(context.Background(), &kgo.Record{Topic: "orders", Value: []byte("a teapot")})
		fmt.Println(result.FirstErr(), result[0].Record.Offset)
		client.Close()
		if err := cluster.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// <nil> 0
	// <nil> 1
}

// The nodes of a cluster have an address each, and partitions are led across them.
func ExampleWithBrokers() {
	cluster, err := kshare.Start(kshare.WithBrokers(3), kshare.WithTopic("orders", 3))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()

	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()[0]))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	request := kmsg.NewPtrMetadataRequest()
	response, err := request.RequestWith(context.Background(), client)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range response.Topics[0].Partitions {
		fmt.Printf("partition %d is led by node %d\n", p.Partition, p.Leader)
	}
	// Output:
	// partition 0 is led by node 1
	// partition 1 is led by node 2
	// partition 2 is led by node 3
}

// Configurations have Kafka's names, and what Kafka would refuse is refused.
func ExampleWithConfig() {
	_, err := kshare.Start(kshare.WithConfig("num.partitions", "0"))
	fmt.Println(err)
	cluster, err := kshare.Start(kshare.WithConfig("num.partitions", "12"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cluster.Close())
	// Output:
	// kshare: option: Invalid value 0 for configuration num.partitions: Value must be at least 1
	// <nil>
}

// A Produce is applied and its connection closed, the outcome that a client cannot know: a right one tries again, and the record is there once.
func ExampleCluster_AddFault() {
	cluster, err := kshare.Start(kshare.WithTopic("orders", 1))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	if _, err := cluster.AddFault(kshare.Fault{API: "Produce", Topic: "orders", Times: 1, Close: true, Stage: fault.After}); err != nil {
		log.Fatal(err)
	}

	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	result := client.ProduceSync(context.Background(), &kgo.Record{Topic: "orders", Value: []byte("two teapots")})
	fmt.Println(result.FirstErr(), result[0].Record.Offset)
	for _, f := range cluster.Faults() {
		fmt.Printf("%s: %d requests, acted on %d\n", f.Rule, f.Matches, f.Acts)
	}
	// Output:
	// <nil> 0
	// api=Produce topic=orders times=1 close stage=after: 2 requests, acted on 1
}

// The request log shows what a client has sent and how it was answered.
func ExampleCluster_Requests() {
	cluster, err := kshare.Start(kshare.WithTopic("orders", 1), kshare.WithRequestLog(1000))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	if _, err := cluster.AddFault(kshare.Fault{API: "Produce", Partition: new(int32(0)), Topic: "orders", Times: 1, Error: "NOT_ENOUGH_REPLICAS"}); err != nil {
		log.Fatal(err)
	}

	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.ClientID("shop"), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(context.Background(), &kgo.Record{Topic: "orders", Value: []byte("two teapots")}).FirstErr(); err != nil {
		log.Fatal(err)
	}
	requests, err := cluster.Requests(kshare.RequestQuery{API: "Produce", ClientID: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range requests {
		answer, err := r.Answer()
		if err != nil {
			log.Fatal(err)
		}
		partition := answer.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		fmt.Println(r.API, r.Outcome, r.Faults, errorcode.Name(partition.ErrorCode))
	}
	// Output:
	// Produce answered [fault 1] NOT_ENOUGH_REPLICAS
	// Produce answered [] NONE
}
