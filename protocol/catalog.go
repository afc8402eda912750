package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/internal/spelling"
)

// Catalog is the APIs that a cluster knows. The zero value has those of a 4.4 broker, APIs.
type Catalog struct {
	txnShareAcknowledge *API // nil where the cluster does not have it
}

// WithTxnShareAcknowledge is the catalog of a cluster that has TxnShareAcknowledge under a key, in place of the API that has the key in Kafka.
func WithTxnShareAcknowledge(key int16) Catalog { return Catalog{TxnShareAcknowledgeAPI(key)} }

// TxnShareAcknowledge is the API of that name, nil where the catalog lacks it.
func (c Catalog) TxnShareAcknowledge() *API { return c.txnShareAcknowledge }

// ByKey returns the API with the key, nil where there is none.
func (c Catalog) ByKey(key int16) *API {
	if a := c.txnShareAcknowledge; a != nil && a.Key == key {
		return a
	}
	return apisByKey[key]
}

// Find returns the API with a name, in any case, or a key written out. An error says what was perhaps meant.
func (c Catalog) Find(nameOrKey string) (*API, error) {
	if key, err := strconv.ParseInt(nameOrKey, 10, 16); err == nil {
		if a := c.ByKey(int16(key)); a != nil {
			return a, nil
		}
		return nil, fmt.Errorf("no API of Kafka 4.4 has the key %d", key)
	}
	names := APINames()
	i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, nameOrKey) })
	switch a := c.txnShareAcknowledge; {
	case i >= 0 && a != nil && a.Key == APIs[i].Key:
		return nil, fmt.Errorf("there is no %s here: %s has its key, %d", APIs[i].Name, a.Name, a.Key)
	case i >= 0:
		return &APIs[i], nil
	case strings.EqualFold(nameOrKey, TxnShareAcknowledgeName) && a != nil:
		return a, nil
	case strings.EqualFold(nameOrKey, TxnShareAcknowledgeName):
		return nil, fmt.Errorf("%s is of KIP-1289, which is not on: start the cluster with it", TxnShareAcknowledgeName)
	case a != nil:
		names = append(names, a.Name)
	}
	return nil, fmt.Errorf("no API of Kafka 4.4 is called %q%s", nameOrKey, spelling.DidYouMean(nameOrKey, names))
}

// NewRequest makes an empty request of the API in a version, nil for an API whose messages are not known.
func (a *API) NewRequest(version int16) kmsg.Request {
	if a.Name == TxnShareAcknowledgeName {
		return &TxnShareAcknowledgeRequest{APIKey: a.Key}
	}
	q := RequestForKey(a.Key)
	if q != nil {
		q.SetVersion(version)
	}
	return q
}

// NewResponse makes an empty answer of the API to a request of a version, nil for an API whose messages are not known.
func (a *API) NewResponse(version int16) kmsg.Response {
	q := a.NewRequest(version)
	if q == nil {
		return nil
	}
	return q.ResponseKind()
}
