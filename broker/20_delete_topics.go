package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/protocol/errorcode"
)

// DeleteTopics (20), v1 to v6.
//
// Behaviour (ControllerApis.deleteTopics):
//   - v6 names topics by name or by id: neither and both are INVALID_REQUEST, and so is a topic meant twice, with one entry.
//   - Unknown names, illegal ones too, are UNKNOWN_TOPIC_OR_PARTITION, unknown ids UNKNOWN_TOPIC_ID.
//   - delete.topic.enable=false: TOPIC_DELETION_DISABLED (INVALID_REQUEST below v3), without a message.
//   - TimeoutMs <= 0 deletes nothing: REQUEST_TIMED_OUT.
//   - Kafka shuffles the entries of the answer; here they stand in the order of the request, those that are refused first.

const deleteTopicsKey = 20

func init() {
	handlers[deleteTopicsKey] = needing(writing(locked((*Cluster).deleteTopics)),
		looksItself(acl.Delete, acl.Topic, "each topic, and DESCRIBE TOPIC for those that are named by id"),
	)
}

func (c *Cluster) deleteTopics(r *request, q *kmsg.DeleteTopicsRequest) kmsg.Response {
	p := response[*kmsg.DeleteTopicsResponse](q)
	asked := q.Topics
	for _, name := range q.TopicNames {
		asked = append(asked, kmsg.DeleteTopicsRequestTopic{Topic: kmsg.StringPtr(name)})
	}
	if !c.brokerBool("delete.topic.enable") {
		code := errorcode.TopicDeletionDisabled
		if q.Version < 3 {
			code = errorcode.InvalidRequest
		}
		for _, t := range asked {
			p.Topics = append(p.Topics, deletedTopic(t.Topic, t.TopicID, &refusal{code: code}))
		}
		return p
	}
	d := deletion{cluster: c, byName: map[string]int{}, byID: map[[16]byte]int{}}
	for _, t := range asked {
		d.ask(t)
	}
	for _, e := range d.entries {
		e.authorize(r)
		if q.TimeoutMillis <= 0 {
			e.no = &refusal{code: errorcode.RequestTimedOut}
		}
		if e.no == nil {
			if err := c.deleteTopic(e.topic); err != nil {
				e.no = c.storageRefusal(err)
			}
		}
		entry := deletedTopic(e.name, e.id, e.no)
		if q.Version < 5 {
			entry.ErrorMessage = nil
		}
		p.Topics = append(p.Topics, entry)
	}
	return p
}

// deletion resolves the topics that a request wants deleted.
type deletion struct {
	cluster *Cluster
	entries []*deletionEntry
	byName  map[string]int // index into entries
	byID    map[[16]byte]int
}

type deletionEntry struct {
	name  *string
	id    [16]byte
	topic *topic
	no    *refusal
	byID  bool // it was named by its id
}

func (d *deletion) ask(t kmsg.DeleteTopicsRequestTopic) {
	switch byID := t.TopicID != [16]byte{}; {
	case t.Topic == nil && !byID:
		d.add(&deletionEntry{no: refused(errorcode.InvalidRequest, "Neither topic name nor id were specified.")})
	case t.Topic != nil && byID:
		d.add(&deletionEntry{name: t.Topic, id: t.TopicID, no: refused(errorcode.InvalidRequest, "You may not specify both topic name and topic id.")})
	case byID:
		d.askID(t.TopicID)
	default:
		d.askName(*t.Topic)
	}
}

// authorize refuses an entry of a topic that the client may not delete. Of one that is named by its id and that the client may not know of, nothing is told.
func (e *deletionEntry) authorize(r *request) {
	switch {
	case e.name == nil || e.no != nil && e.topic == nil && e.no.code != errorcode.UnknownTopicOrPartition:
		return
	case r.may(acl.Delete, acl.Topic, *e.name):
		return
	}
	if e.id != [16]byte{} && e.byID && !r.may(acl.Describe, acl.Topic, *e.name) {
		e.name = nil
	}
	if !e.byID {
		e.id = [16]byte{}
	}
	e.topic, e.no = nil, refused(errorcode.TopicAuthorizationFailed, "%s", *saysTopic)
}

func (d *deletion) add(e *deletionEntry) { d.entries = append(d.entries, e) }

func (d *deletion) askID(id [16]byte) {
	if i, ok := d.byID[id]; ok {
		d.entries[i].topic, d.entries[i].name = nil, nil
		d.entries[i].no = refused(errorcode.InvalidRequest, "Duplicate topic id.")
		return
	}
	e := &deletionEntry{id: id, byID: true, topic: d.cluster.topicsByID[id]}
	if e.topic == nil {
		e.no = refused(errorcode.UnknownTopicID, "This server does not host this topic ID.")
	} else {
		e.name = &e.topic.name
		if i, ok := d.byName[e.topic.name]; ok {
			d.twice(i, e.id)
			return
		}
	}
	d.byID[id] = len(d.entries)
	d.add(e)
}

func (d *deletion) askName(name string) {
	if i, ok := d.byName[name]; ok {
		if d.entries[i].id == [16]byte{} || d.entries[i].no == nil {
			d.entries[i].topic, d.entries[i].id = nil, [16]byte{}
			d.entries[i].no = refused(errorcode.InvalidRequest, "Duplicate topic name.")
		}
		return
	}
	e := &deletionEntry{name: &name, topic: d.cluster.topics[name]}
	if e.topic == nil {
		e.no = refused(errorcode.UnknownTopicOrPartition, "This server does not host this topic-partition.")
	} else {
		e.id = e.topic.id
		if i, ok := d.byID[e.id]; ok {
			d.byName[name] = i
			d.twice(i, e.id)
			return
		}
	}
	d.byName[name] = len(d.entries)
	d.add(e)
}

// twice refuses an entry whose topic is meant by name and by id.
func (d *deletion) twice(i int, id [16]byte) {
	d.entries[i].topic, d.entries[i].id = nil, id
	d.entries[i].no = refused(errorcode.InvalidRequest, "The provided topic name maps to an ID that was already supplied.")
}

func deletedTopic(name *string, id [16]byte, no *refusal) kmsg.DeleteTopicsResponseTopic {
	entry := kmsg.NewDeleteTopicsResponseTopic()
	entry.Topic, entry.TopicID = name, id
	if no != nil {
		entry.ErrorCode, entry.ErrorMessage = no.code, no.text()
	}
	return entry
}
