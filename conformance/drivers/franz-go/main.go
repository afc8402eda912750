// Command franz-go is the judge's driver of franz-go: docs/drivers.md says what it is told and what it says.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type props struct {
	ClientID       string `json:"client_id"`
	Rack           string `json:"rack"`
	MaxPollRecords int32  `json:"max_poll_records"`
	AcquireMode    string `json:"acquire_mode"`
	MaxWaitMillis  int    `json:"max_wait_ms"`
	MinBytes       int32  `json:"min_bytes"`
	MaxBytes       int32  `json:"max_bytes"`
	Protocol       string `json:"protocol"`
	InstanceID     string `json:"instance_id"`
	TransactionID  string `json:"transactional_id"`
	Isolation      string `json:"isolation"`
	Regex          bool   `json:"regex"`
	Assignor       string `json:"assignor"`
	Login
}

// known are the settings that props has; others are not supported.
var known = []string{"client_id", "rack", "max_poll_records", "acquire_mode", "max_wait_ms", "min_bytes", "max_bytes", "close_timeout_ms", "protocol", "instance_id", "isolation", "transactional_id", "regex", "assignor", "sasl_mechanism", "sasl_username", "sasl_password", "sasl_token_s", "tls_ca"}

type op struct {
	Op       string          `json:"op"`
	PollMs   int             `json:"poll_ms"`
	HoldMs   int             `json:"hold_ms"`
	N        int             `json:"n"`
	Do       string          `json:"do"`
	Selected json.RawMessage `json:"sel"`
	How      string          `json:"how"`
	Topics   []string        `json:"topics"`
	Topic    string          `json:"topic"`
	Commit   bool            `json:"commit"`
	Ms       int             `json:"ms"`
	Times    int             `json:"times"`
}

var out sync.Mutex

func say(event map[string]any) {
	b, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	out.Lock()
	defer out.Unlock()
	os.Stdout.Write(append(b, '\n'))
}

func code(err error) any {
	var e *kerr.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return err.Error()
}

// consumer is a member of the group.
type consumer struct {
	client   *kgo.Client
	number   int
	explicit bool
	polls    int
	group    bool          // a consumer group, not a share group
	limit    int           // of records of a poll of a consumer group, 0 for none
	held     []*kgo.Record // what may still be acknowledged
	running  bool          // by op run: nothing is kept then
}

func (c *consumer) poll(ctx context.Context, o op) (n int, stopped bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.PollMs)*time.Millisecond)
	defer cancel()
	fetches := c.client.PollRecords(ctx, c.limit)
	c.polls++
	fetches.EachError(func(topic string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			say(map[string]any{"ev": "error", "where": "poll", "code": code(err), "text": err.Error(), "t": topic, "p": partition})
		}
	})
	records := fetches.Records()
	if len(records) > 0 && !c.group {
		c.held = nil
		say(map[string]any{"ev": "lock", "ms": time.Until(records[0].AcquisitionDeadline()).Milliseconds()})
	}
	for _, r := range records {
		h := crc32.Update(crc32.Checksum(r.Key, castagnoli), castagnoli, r.Value)
		word := ""
		for _, header := range r.Headers {
			h = crc32.Update(crc32.Update(h, castagnoli, []byte(header.Key)), castagnoli, header.Value)
			if header.Key == "ksj" && word == "" || header.Key == "ksj2" && r.DeliveryCount() > 1 {
				word = string(header.Value)
			}
		}
		say(map[string]any{
			"ev": "rec", "t": r.Topic, "p": r.Partition, "o": r.Offset, "dc": r.DeliveryCount(), "h": fmt.Sprintf("%08x", h), "poll": c.polls, "consumer": c.number,
		})
		if c.explicit && c.obey(r, word) {
			stopped = true
		}
	}
	if c.group && len(records) > 0 {
		c.commit("sync")
	}
	if o.HoldMs > 0 && len(records) > 0 {
		time.Sleep(time.Duration(o.HoldMs) * time.Millisecond)
	}
	return len(records), stopped
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// obey does what the header of a record says.
func (c *consumer) obey(r *kgo.Record, word string) (stop bool) {
	word, argument, _ := strings.Cut(word, ":")
	switch word {
	case "hold":
		if !c.running {
			c.held = append(c.held, r)
			return false
		}
	case "slow":
		ms, _ := strconv.Atoi(argument)
		time.Sleep(time.Duration(ms) * time.Millisecond)
	case "stop":
		stop = true
	}
	status, ok := statuses[word]
	if !ok {
		status = kgo.AckAccept
	}
	r.Ack(status)
	if status == kgo.AckRenew {
		c.held = append(c.held, r)
	}
	if word == "commit" {
		c.commit("sync")
	}
	return stop
}

var statuses = map[string]kgo.AckStatus{"accept": kgo.AckAccept, "release": kgo.AckRelease, "reject": kgo.AckReject, "renew": kgo.AckRenew}

func (c *consumer) ack(o op) {
	status, ok := statuses[o.Do]
	if !ok {
		say(map[string]any{"ev": "unsupported", "what": "ack " + o.Do})
		return
	}
	n := 0
	for i, r := range c.held {
		if selects(o.Selected, i, r) {
			r.Ack(status)
			n++
		}
	}
	say(map[string]any{"ev": "acked", "n": n})
}

// selects tells whether the sel of an ack has a record: "all", "every:N:K" or [[topic, partition, offset], ...].
func selects(sel json.RawMessage, i int, r *kgo.Record) bool {
	var text string
	if json.Unmarshal(sel, &text) == nil {
		var n, k int
		if got, _ := fmt.Sscanf(text, "every:%d:%d", &n, &k); got == 2 {
			return i%n == k
		}
		return text == "all"
	}
	var list [][3]any
	if json.Unmarshal(sel, &list) != nil {
		return false
	}
	for _, x := range list {
		if x[0] == r.Topic && x[1] == float64(r.Partition) && x[2] == float64(r.Offset) {
			return true
		}
	}
	return false
}

func (c *consumer) commit(how string) {
	if c.group {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		event := map[string]any{"ev": "result", "what": "commit", "ok": true}
		if err := c.client.CommitUncommittedOffsets(ctx); err != nil {
			event["ok"], event["code"], event["text"] = false, code(err), err.Error()
		}
		say(event)
		return
	}
	if !c.explicit && how != "none" {
		c.client.MarkAcks(kgo.AckAccept) // what was polled last: FlushAcks alone leaves it to the next poll
	}
	flush := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		event := map[string]any{"ev": "result", "what": "commit", "ok": true}
		if err := c.client.FlushAcks(ctx); err != nil {
			event["ok"], event["code"] = false, code(err)
		}
		say(event)
	}
	switch how {
	case "async":
		go flush()
	case "sync":
		flush()
	}
}

func (c *consumer) close(ms int) {
	if ms > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(ms)*time.Millisecond)
		defer cancel()
		if err := c.client.LeaveGroupContext(ctx); err != nil {
			say(map[string]any{"ev": "error", "where": "api", "code": code(err), "text": err.Error()})
		}
	}
	c.client.Close()
}

func main() {
	hello := map[string]any{"ev": "hello", "client": "franz-go", "version": version(), "caps": []string{"exp", "rnw", "lim", "cg", "txn", "sasl", "tls"}}
	var p props
	var settings map[string]any
	text := []byte(os.Getenv("KSJ_PROPS"))
	if err := errors.Join(json.Unmarshal(text, &p), json.Unmarshal(text, &settings)); err != nil {
		fmt.Fprintln(os.Stderr, "KSJ_PROPS:", err)
		os.Exit(2)
	}
	say(hello)
	for name := range settings {
		if !contains(known, name) {
			say(map[string]any{"ev": "unsupported", "what": name})
			return
		}
	}
	if os.Getenv("KSJ_KIND") == "producer" {
		transact(p)
		return
	}
	if kind := os.Getenv("KSJ_KIND"); kind != "share" && kind != "consumer" {
		say(map[string]any{"ev": "unsupported", "what": "kind " + kind})
		return
	}
	first := open(p, 0)
	if first == nil {
		return
	}
	obey(p, first)
}

func contains(list []string, x string) bool {
	for _, y := range list {
		if x == y {
			return true
		}
	}
	return false
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/twmb/franz-go" {
				return strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	return "unknown"
}

func open(p props, number int) *consumer {
	group := os.Getenv("KSJ_KIND") == "consumer"
	opts := append(p.options(), kgo.SeedBrokers(strings.Split(os.Getenv("KSJ_BOOTSTRAP"), ",")...), kgo.ConsumeTopics(strings.Split(os.Getenv("KSJ_TOPICS"), ",")...))
	if group {
		opts = append(opts, ofGroup(p)...)
	} else {
		opts = append(opts, kgo.ShareGroup(os.Getenv("KSJ_GROUP")), kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			for _, r := range results {
				event := map[string]any{"ev": "result", "what": "ack", "t": r.Topic, "p": r.Partition, "ok": r.Err == nil, "consumer": number}
				if r.Err != nil {
					event["code"] = code(r.Err)
				}
				say(event)
			}
		}))
	}
	if p.ClientID != "" {
		opts = append(opts, kgo.ClientID(p.ClientID))
	}
	if p.Rack != "" {
		opts = append(opts, kgo.Rack(p.Rack))
	}
	limit := 0
	if group {
		limit = int(p.MaxPollRecords)
	} else if p.MaxPollRecords > 0 {
		opts = append(opts, kgo.ShareMaxRecords(p.MaxPollRecords))
	}
	if p.AcquireMode == "record_limit" {
		opts = append(opts, kgo.ShareMaxRecordsStrict())
	}
	if p.MaxWaitMillis > 0 {
		opts = append(opts, kgo.FetchMaxWait(time.Duration(p.MaxWaitMillis)*time.Millisecond))
	}
	if p.MinBytes > 0 {
		opts = append(opts, kgo.FetchMinBytes(p.MinBytes))
	}
	if p.MaxBytes > 0 {
		opts = append(opts, kgo.FetchMaxBytes(p.MaxBytes))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		say(map[string]any{"ev": "error", "where": "api", "code": err.Error(), "text": err.Error(), "fatal": true})
		return nil
	}
	return &consumer{client: client, number: number, explicit: os.Getenv("KSJ_ACK") == "explicit" && !group, group: group, limit: limit}
}

// ofGroup are the options of a member of a consumer group.
func ofGroup(p props) []kgo.Opt {
	opts := []kgo.Opt{kgo.ConsumerGroup(os.Getenv("KSJ_GROUP")), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	if p.Protocol == "consumer" {
		opts = append(opts, nextGeneration()...)
	}
	if p.Assignor == "cooperative-sticky" {
		opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	if p.Regex {
		opts = append(opts, kgo.ConsumeRegex())
	}
	if p.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(p.InstanceID))
	}
	if p.Isolation == "read_committed" {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	return opts
}

// operations are what the judge says, as it comes.
func operations() <-chan op {
	ops := make(chan op)
	go func() {
		defer close(ops)
		in := bufio.NewScanner(os.Stdin)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			var o op
			if err := json.Unmarshal(in.Bytes(), &o); err != nil {
				fmt.Fprintln(os.Stderr, "an operation:", err)
				continue
			}
			ops <- o
		}
	}()
	return ops
}

// obey reads what is to be done. While it polls, an operation ends the poll under way.
func obey(p props, c *consumer) {
	all := []*consumer{c}
	ops := operations()
	running := op{}
	for {
		var o op
		var more bool
		if running.Op != "" {
			select {
			case o, more = <-ops:
			default:
				for _, c := range all {
					c.running = true
					if _, stop := c.poll(context.Background(), running); stop {
						running = op{}
					}
				}
				continue
			}
		} else {
			o, more = <-ops
		}
		if !more {
			return
		}
		switch o.Op {
		case "run":
			running = o
		case "pause":
			running = op{}
			say(map[string]any{"ev": "done", "op": o.Op})
		case "poll":
			running = op{}
			n := 0
			c.running = false
			for range o.N {
				o.PollMs = max(o.PollMs, 1000)
				got, _ := c.poll(context.Background(), o)
				n += got
			}
			say(map[string]any{"ev": "polled", "n": n})
		case "ack":
			c.ack(o)
		case "commit":
			c.commit(o.How)
			say(map[string]any{"ev": "done", "op": o.Op})
		case "subscribe":
			subscribe(c.client, o.Topics)
			say(map[string]any{"ev": "done", "op": o.Op})
		case "second":
			second := open(p, len(all))
			all = append(all, second)
			say(map[string]any{"ev": "done", "op": o.Op})
		case "close":
			for range max(1, o.Times) {
				for _, c := range all {
					c.close(o.Ms)
				}
			}
			say(map[string]any{"ev": "closed", "n": o.Times})
			return
		default:
			say(map[string]any{"ev": "unsupported", "what": o.Op})
		}
	}
}

// subscribe makes the topics the ones that are consumed.
func subscribe(client *kgo.Client, topics []string) {
	client.AddConsumeTopics(topics...)
	for _, t := range client.GetConsumeTopics() {
		if !contains(topics, t) {
			client.PurgeTopicsFromConsuming(t)
		}
	}
}
