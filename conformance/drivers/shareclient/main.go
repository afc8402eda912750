// Command shareclient is the judge's driver of package shareclient, which acknowledges in transactions (KIP-1289): docs/drivers.md says what it is told and what
// it says.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kshare/shareclient"
)

// patience is how long a call may take.
const patience = 40 * time.Second

type properties struct {
	ClientID      string `json:"client_id"`
	MaxRecords    int32  `json:"max_poll_records"`
	AcquireMode   string `json:"acquire_mode"`
	MaxWaitMillis int    `json:"max_wait_ms"`
	TransactionID string `json:"transactional_id"`
}

// operation is a line of the judge.
type operation struct {
	Op       string          `json:"op"`
	PollMs   int             `json:"poll_ms"`
	HoldMs   int             `json:"hold_ms"`
	N        int             `json:"n"`
	Do       string          `json:"do"`
	Selected json.RawMessage `json:"sel"`
	Topic    string          `json:"topic"`
	Commit   bool            `json:"commit"`
	Ms       int             `json:"ms"`
}

type event map[string]any

func say(e event) {
	if err := json.NewEncoder(os.Stdout).Encode(e); err != nil {
		os.Exit(1) // nobody listens any more
	}
}

// told is an event with what came of something.
func told(e event, err error) event {
	if e["ok"] = err == nil; err == nil {
		return e
	}
	var of *shareclient.Error
	if e["text"] = err.Error(); errors.As(err, &of) && of.Code != 0 {
		e["code"] = of.Code
	} else {
		e["code"] = err.Error()
	}
	return e
}

// driver is a member of a share group, and the producer that acknowledges for it.
type driver struct {
	properties
	seeds    kgo.Opt
	consumer *shareclient.Consumer
	producer *shareclient.Producer
	explicit bool
	running  bool
	polls    int
	sent     int
	given    []*shareclient.Record // by the last poll, where the application accepts what it was given with the next one
	held     []*shareclient.Record
	unsent   bool // something was said of records that the client has not sent
}

var types = map[string]shareclient.AcknowledgeType{"accept": shareclient.Accept, "release": shareclient.Release, "reject": shareclient.Reject, "renew": shareclient.Renew}

func (d *driver) poll(wait, hold time.Duration) (n int, stop bool) {
	d.settle()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	records, err := d.consumer.Poll(ctx)
	d.polls++
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		say(told(event{"ev": "error", "where": "poll"}, err))
		time.Sleep(time.Millisecond) // a poll that fails at once
	}
	if len(records) > 0 {
		d.held = nil
		say(event{"ev": "lock", "ms": d.consumer.AcquisitionLockTimeout().Milliseconds()})
	}
	for _, r := range records {
		sum := crc32.Update(crc32.Checksum(r.Key, castagnoli), castagnoli, r.Value)
		word := ""
		for _, h := range r.Headers {
			sum = crc32.Update(crc32.Update(sum, castagnoli, []byte(h.Key)), castagnoli, h.Value)
			if h.Key == "ksj" && word == "" || h.Key == "ksj2" && r.DeliveryCount > 1 {
				word = string(h.Value)
			}
		}
		say(event{"ev": "rec", "t": r.Topic, "p": r.Partition, "o": r.Offset, "dc": r.DeliveryCount, "h": fmt.Sprintf("%08x", sum), "poll": d.polls})
		if !d.explicit {
			d.given = append(d.given, r)
		} else if d.obey(r, word) {
			stop = true
		}
	}
	if len(records) > 0 {
		time.Sleep(hold)
	}
	return len(records), stop
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// settle accepts what the last poll gave, unless the application says of each record what becomes of it, and sends what was said.
func (d *driver) settle() {
	for _, r := range d.given {
		d.acknowledge(r, shareclient.Accept)
	}
	d.given = nil
	if d.unsent {
		d.commit()
	}
}

func (d *driver) acknowledge(r *shareclient.Record, t shareclient.AcknowledgeType) bool {
	err := d.consumer.Acknowledge(r, t)
	if err != nil {
		say(told(event{"ev": "error", "where": "api"}, err))
	}
	d.unsent = true
	return err == nil
}

// obey does what the header of a record says.
func (d *driver) obey(r *shareclient.Record, word string) (stop bool) {
	word, argument, _ := strings.Cut(word, ":")
	if word == "hold" && !d.running {
		d.held = append(d.held, r)
		return false
	}
	if word == "slow" {
		ms, _ := strconv.Atoi(argument)
		time.Sleep(time.Duration(ms) * time.Millisecond)
	}
	t, ok := types[word]
	if !ok {
		t = shareclient.Accept
	}
	d.acknowledge(r, t)
	if t == shareclient.Renew {
		d.held = append(d.held, r)
	}
	if word == "commit" {
		d.commit()
	}
	return word == "stop"
}

// selects tells whether the sel of an ack has a record: "all", "every:N:K" or [[topic, partition, offset], ...].
func selects(sel json.RawMessage, i int, r *shareclient.Record) bool {
	var text string
	if json.Unmarshal(sel, &text) == nil {
		var n, k int
		if got, _ := fmt.Sscanf(text, "every:%d:%d", &n, &k); got == 2 {
			return i%n == k
		}
		return text == "all"
	}
	var list [][3]any
	return json.Unmarshal(sel, &list) == nil && slices.Contains(list, [3]any{r.Topic, float64(r.Partition), float64(r.Offset)})
}

func (d *driver) commit() {
	d.unsent = false
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	say(told(event{"ev": "result", "what": "commit"}, d.consumer.Commit(ctx)))
}

// transact does a step of a transaction.
func (d *driver) transact(o *operation) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch o.Op {
	case "begin":
		if d.producer == nil {
			if d.producer, err = shareclient.NewProducer(ctx, shareclient.ProducerConfig{TransactionalID: d.TransactionID}, d.seeds, kgo.ClientID(d.ClientID)); err != nil {
				return err
			}
		}
		return d.producer.BeginTransaction()
	case "send":
		records := make([]*kgo.Record, o.N)
		for i := range records {
			records[i] = &kgo.Record{Topic: o.Topic, Value: []byte(strconv.Itoa(d.sent))}
			d.sent++
		}
		return d.producer.Produce(ctx, records...)
	case "txnack":
		d.unsent = false
		return d.producer.SendShareAcknowledgementsToTransaction(ctx, d.consumer.AcknowledgementsForTransaction(), d.consumer.GroupMetadata())
	}
	if o.Commit {
		return d.producer.CommitTransaction(ctx)
	}
	return d.producer.AbortTransaction(ctx)
}

// do does what the judge says. running is what it said before, while that goes on.
func (d *driver) do(o *operation) (running *operation) {
	done := event{"ev": "done", "op": o.Op}
	switch o.Op {
	case "run":
		return o
	case "pause":
	case "poll":
		n := 0
		d.running = false
		for range o.N {
			got, _ := d.poll(time.Second, 0)
			n += got
		}
		done = event{"ev": "polled", "n": n}
	case "ack":
		n := 0
		for i, r := range d.held {
			if selects(o.Selected, i, r) && d.acknowledge(r, types[o.Do]) {
				n++
			}
		}
		done = event{"ev": "acked", "n": n}
	case "commit":
		d.settle()
	case "begin", "send", "txnack", "end":
		if d.producer == nil && o.Op != "begin" {
			done = told(event{"ev": "result", "what": o.Op}, errors.New("there is no producer"))
		} else {
			done = told(event{"ev": "result", "what": o.Op}, d.transact(o))
		}
	case "close":
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(o.Ms)*time.Millisecond)
		defer cancel()
		if err := d.consumer.Close(ctx); err != nil {
			say(told(event{"ev": "error", "where": "api"}, err))
		}
		if d.producer != nil {
			d.producer.Close()
		}
		say(event{"ev": "closed"})
		os.Exit(0)
	default:
		done = event{"ev": "unsupported", "what": o.Op}
	}
	say(done)
	return nil
}

func main() {
	say(event{"ev": "hello", "client": "kshare-shareclient", "version": "1", "caps": []string{"exp", "rnw", "lim", "ktx"}})
	d := &driver{explicit: os.Getenv("KSJ_ACK") == "explicit", seeds: kgo.SeedBrokers(strings.Split(os.Getenv("KSJ_BOOTSTRAP"), ",")...)}
	props := json.NewDecoder(strings.NewReader(os.Getenv("KSJ_PROPS")))
	props.DisallowUnknownFields()
	if err := props.Decode(&d.properties); err != nil {
		say(event{"ev": "unsupported", "what": err.Error()})
		return
	}
	if kind := os.Getenv("KSJ_KIND"); kind != "share" {
		say(event{"ev": "unsupported", "what": "kind " + kind})
		return
	}
	var err error
	d.consumer, err = shareclient.NewConsumer(shareclient.ConsumerConfig{
		Group: os.Getenv("KSJ_GROUP"), Topics: strings.Split(os.Getenv("KSJ_TOPICS"), ","), MaxRecords: d.MaxRecords, RecordLimit: d.AcquireMode == "record_limit",
		MaxWait: time.Duration(d.MaxWaitMillis) * time.Millisecond,
	}, d.seeds, kgo.ClientID(d.ClientID))
	if err != nil {
		say(told(event{"ev": "error", "where": "api", "fatal": true}, err))
		return
	}
	ops := make(chan *operation)
	go func() {
		defer close(ops)
		for in := json.NewDecoder(os.Stdin); ; {
			o := &operation{}
			if in.Decode(o) != nil {
				return
			}
			ops <- o
		}
	}()
	var running *operation
	for {
		var o *operation
		more := true
		if running == nil {
			o, more = <-ops
		} else {
			select {
			case o, more = <-ops:
			default:
				d.running = true
				if _, stop := d.poll(time.Duration(running.PollMs)*time.Millisecond, time.Duration(running.HoldMs)*time.Millisecond); stop {
					running = nil
				}
				continue
			}
		}
		if !more {
			return
		}
		running = d.do(o)
	}
}
