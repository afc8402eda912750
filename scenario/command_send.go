package scenario

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/internal/spelling"
	"kshare/protocol"
	"kshare/protocol/describe"
)

func init() {
	register(&command{
		name:  "send",
		usage: "send API VERSION [as=CLIENT] [node=N] [key=95] {JSON}",
		summary: "Sends any request: the API by key or name, its fields as JSON with kmsg's names in any case, bytes as hexadecimal text. What is not named has its default. In strings, " +
			"<topic:NAME> is a topic's id and <member:GROUP/NAME> a member's. as=GROUP/MEMBER uses the connection of a member. " +
			"key is the API key of TxnShareAcknowledge where the cluster has another than 95.",
		example: `
topic orders
send ListOffsets 1 {"replicaId": -1, "topics": [{"topic": "orders", "partitions": [{"partition": 0, "timestamp": -1}]}]}
send 79 1 {"groupId": "g", "memberId": "m", "shareSessionEpoch": 0, "topics": [{"topicId": "<topic:orders>", "partitions": [{"partition": 0}]}]}
----
orders: 1 partition
ThrottleMillis: 0
Topics: [{"Topic": "orders","Partitions": [{"Partition": 0,"ErrorCode": 0,"OldStyleOffsets": null,"Timestamp": -1,"Offset": 0,"LeaderEpoch": -1}]}]
ThrottleMillis: 0
ErrorCode: 123
ErrorMessage: null
AcquisitionLockTimeoutMillis: 0
Topics: null
NodeEndpoints: null
`,
		optionNames: []string{"as", "node", "key"},
		takesJSON:   true, least: 2, most: 2, waits: true,
		check: func(c *call) error { _, err := parseSend(c); return err },
		run: func(s *step, c *call) error {
			q, err := parseSend(c)
			if err != nil {
				return err
			}
			text := c.rest
			if text == "" {
				text = "{}"
			}
			if text, err = s.idsInto(text); err != nil {
				return err
			}
			if err := describe.Fill(q, []byte(text)); err != nil {
				return mistakeFrom(err)
			}
			s.prefixNames(reflect.ValueOf(q).Elem(), "")
			client, node, err := s.sender(c)
			if err != nil {
				return err
			}
			p, err := ask[kmsg.Response](s, client, node, q)
			if err != nil {
				return err
			}
			s.showMessage(p)
			return nil
		},
	})
	register(&command{
		name:    "send-bytes",
		usage:   "send-bytes HEX [as=CLIENT] [node=N]",
		summary: "Sends a frame as it stands, without its length, and shows the answer's bytes.",
		example: `
send-bytes 000c00000000000700037261770001670000000100016d
send-bytes 7fff
----
000000070019
connection closed
`,
		optionNames: []string{"as", "node"},
		least:       1, most: 1, waits: true,
		check: func(c *call) error { _, err := frameOf(c); return err },
		run: func(s *step, c *call) error {
			frame, err := frameOf(c)
			if err != nil {
				return err
			}
			client, node, err := s.sender(c)
			if err != nil {
				return err
			}
			l, err := s.link(client, node)
			if err != nil {
				return err
			}
			answer, err := s.await(l, l.put(frame), answerLimit)
			if err != nil {
				return err
			}
			const most = 64
			text := hex.EncodeToString(answer[:min(most, len(answer))])
			if len(answer) > most {
				text += fmt.Sprintf("...(%d bytes)", len(answer))
			}
			s.printf("%s", text)
			return nil
		},
	})
}

// apiNames are the names of all APIs.
func apiNames() (names []string) {
	for k := range int16(kmsg.MaxKey + 1) {
		if protocol.RequestForKey(k) != nil {
			names = append(names, kmsg.NameForKey(k))
		}
	}
	return append(names, protocol.TxnShareAcknowledgeName)
}

// transactionalAcksKey is the key that an option says TxnShareAcknowledge has.
func transactionalAcksKey(c *call) (int16, error) {
	key, err := c.numberOption("key", int64(protocol.TxnShareAcknowledgeKey), 0, 1<<15-1)
	return int16(key), err
}

// parseSend makes the request of a send, without fields.
func parseSend(c *call) (kmsg.Request, error) {
	if strings.EqualFold(protocol.TxnShareAcknowledgeName, c.words[0]) {
		key, err := transactionalAcksKey(c)
		if err != nil {
			return nil, err
		}
		return inVersion(c, &protocol.TxnShareAcknowledgeRequest{APIKey: key}, protocol.TxnShareAcknowledgeName)
	}
	if _, ok := c.options["key"]; ok {
		return nil, mistakef("key is that of %s alone: leave it out", protocol.TxnShareAcknowledgeName)
	}
	key := int64(-1)
	for k := range int16(kmsg.MaxKey + 1) {
		if strings.EqualFold(kmsg.NameForKey(k), c.words[0]) {
			key = int64(k)
		}
	}
	if key < 0 {
		var err error
		if key, err = number(c.words[0], 0, kmsg.MaxKey); err != nil {
			return nil, mistakef("%q is no API%s: write its name, like ShareFetch, or its key, 0 to %d", c.words[0], spelling.DidYouMean(c.words[0], apiNames()), kmsg.MaxKey)
		}
	}
	q := protocol.RequestForKey(int16(key))
	if q == nil {
		return nil, mistakef("there is no API with the key %d", key)
	}
	return inVersion(c, q, kmsg.NameForKey(int16(key)))
}

// inVersion makes a request of the API with the name one of the version that a send says, with its defaults.
func inVersion(c *call, q kmsg.Request, name string) (kmsg.Request, error) {
	v, err := number(c.words[1], 0, int64(q.MaxVersion()))
	if err != nil {
		return nil, mistakef("%s has the versions 0 to %d, not %s; send-bytes sends what it likes", name, q.MaxVersion(), c.words[1])
	}
	if f, ok := q.(interface{ Default() }); ok {
		f.Default()
	}
	q.SetVersion(int16(v))
	return q, nil
}

// frameOf are the bytes of a send-bytes.
func frameOf(c *call) ([]byte, error) {
	frame, err := hex.DecodeString(c.words[0])
	if err != nil {
		return nil, mistakef("%q is not bytes, two hexadecimal digits each", c.words[0])
	}
	return frame, nil
}

// sender is the client and node of a raw request.
func (s *step) sender(c *call) (client string, node int32, err error) {
	client = "raw"
	if as, ok := c.options["as"]; ok {
		client = as
	}
	if n, ok, err := s.nodeOption(c); ok {
		return client, n, err
	}
	return client, s.someNode(), nil
}

// idsInto puts ids in place of <topic:NAME> and <member:GROUP/NAME>.
func (s *step) idsInto(text string) (string, error) {
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '<')
		if i < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		b.WriteString(text[:i])
		text = text[i:]
		end := 1 + strings.IndexAny(text[1:], "<>") // of what is in between: another < begins anew
		if end > 0 && text[end] == '<' {
			b.WriteString(text[:end])
			text = text[end:]
			continue
		}
		kind, name, ok := strings.Cut(strings.TrimPrefix(text[:max(end, 0)], "<"), ":")
		switch {
		case ok && kind == "topic":
			id, err := s.topicID(name)
			if err != nil {
				return "", err
			}
			b.WriteString(describe.UUIDText(id))
		case ok && kind == "member":
			group, member, both := strings.Cut(name, "/")
			if !both {
				return "", mistakef("<%s:%s>: write <member:GROUP/NAME>", kind, name)
			}
			b.WriteString(s.memberID(group, member))
		default:
			if near := spelling.Slip(kind, []string{"topic", "member"}); ok && near != "" {
				return "", mistakef("<%s:%s>: did you mean <%s:%s>?", kind, name, near, name)
			}
			b.WriteByte('<')
			end = 0
		}
		text = text[end+1:]
	}
}

// memberID is the id of a member that may not have joined yet.
func (s *step) memberID(group, name string) string { return s.shareMember(group, name).id }

// nameFields are the fields of requests that hold names which the script chose.
var nameFields = map[string]bool{"GroupID": true, "GroupIDs": true, "Group": true, "Groups": true, "Topic": true, "TopicNames": true, "SubscribedTopicNames": true,
	"TransactionalID": true, "TransactionalIDs": true, "TransactionID": true, "ResourceName": true, "Name": true}

// prefixNames puts the prefix before the names in a request.
func (w *world) prefixNames(v reflect.Value, field string) {
	if w.prefix == "" {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			w.prefixNames(v.Elem(), field)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "UnknownTags" {
				w.prefixNames(v.Field(i), f.Name)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if v.Type().Elem().Kind() == reflect.Uint8 {
				return
			}
			name := field
			if field == "Topics" && v.Type().Elem().Kind() == reflect.String {
				name = "Topic"
			}
			w.prefixNames(v.Index(i), name)
		}
	case reflect.String:
		if nameFields[field] {
			v.SetString(w.wire(v.String()))
		}
	}
}

// showMessage shows an answer field by field.
func (s *step) showMessage(m any) {
	tree := describe.Message(m)
	s.nameLeaves(tree, "")
	for i, name := range tree.Names {
		s.printf("%s: %s", name, tree.Items[i])
	}
}

// clockTolerance is how far from now a number of ms may be to count as a time that the broker took from its clock.
const clockTolerance = 24 * time.Hour

// nameLeaves puts names in place of what varies from run to run.
func (s *step) nameLeaves(v *describe.Value, field string) {
	for i, item := range v.Items {
		name := field
		if i < len(v.Names) {
			name = v.Names[i]
		}
		s.nameLeaves(item, name)
	}
	switch x := v.Leaf.(type) {
	case [16]byte:
		if x != [16]byte{} {
			v.Leaf = s.names.text(describe.UUIDText(x))
		}
	case int64:
		switch {
		case field == "Port":
			v.Leaf = "<port>"
		case field == "ControllerID" && x >= 0 && len(s.nodes) > 1: // Apache Kafka names a broker by chance
			v.Leaf = "<broker>"
		case field == "ProducerID" && x >= 0:
			v.Leaf = s.producerName(x)
		case x > 1e12 && s.target.now().Sub(time.UnixMilli(x)).Abs() < clockTolerance:
			v.Leaf = "<now>"
		}
	case string:
		if field == "ClusterID" {
			v.Leaf = "<cluster-id>"
		}
	}
}
