package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// RequestForKey makes an empty request of an API, nil where none has the key. It is kmsg's, but where Kafka has a version that kmsg lacks.
func RequestForKey(key int16) kmsg.Request {
	if key == initProducerIDKey {
		return &InitProducerIDRequest{}
	}
	return kmsg.RequestForKey(key)
}

// ResponseForKey is RequestForKey for answers.
func ResponseForKey(key int16) kmsg.Response {
	if key == initProducerIDKey {
		return &InitProducerIDResponse{}
	}
	return kmsg.ResponseForKey(key)
}
