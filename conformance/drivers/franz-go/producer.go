package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transact is a transactional producer that does as it is told.
func transact(p props) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("KSJ_BOOTSTRAP"), ",")...), kgo.ClientID(p.ClientID), kgo.TransactionalID(p.TransactionID), kgo.TransactionTimeout(time.Minute),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		say(map[string]any{"ev": "error", "where": "api", "code": err.Error(), "text": err.Error(), "fatal": true})
		return
	}
	sent := 0
	for o := range operations() {
		ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
		switch o.Op {
		case "begin":
			outcome("begin", client.BeginTransaction())
		case "send":
			var results kgo.ProduceResults
			for range o.N {
				results = append(results, client.ProduceSync(ctx, &kgo.Record{Topic: o.Topic, Partition: int32(sent % 3), Value: []byte("v")})...)
				sent++
			}
			outcome("send", results.FirstErr())
		case "end":
			outcome("end", client.EndTransaction(ctx, kgo.TransactionEndTry(o.Commit)))
		case "close":
			client.Close()
			say(map[string]any{"ev": "closed"})
			os.Exit(0)
		default:
			say(map[string]any{"ev": "unsupported", "what": o.Op})
		}
		cancel()
	}
}

// outcome says what came of an operation.
func outcome(what string, err error) {
	event := map[string]any{"ev": "result", "what": what, "ok": err == nil}
	if err != nil {
		event["code"], event["text"] = code(err), err.Error()
	}
	say(event)
}
