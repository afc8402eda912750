package broker

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

var update = flag.Bool("update", false, "write docs/apis.md")

// apiTable is docs/apis.md: every API of a 4.4 broker and what kshare makes of it.
func apiTable() string {
	var b strings.Builder
	b.WriteString(`# APIs

Every API that an Apache Kafka 4.4 broker offers on a client listener, and what kshare makes of it. ApiVersions names exactly the
offered ones, in the versions given. This page is generated: ` + "`go test ./broker -run TestAPITable -update`" + `.

An API that is not offered is answered with UNSUPPORTED_VERSION and its name in words where the answer has room for them; else the
connection is closed and the log names the API.

| key | API | versions | offered | a request gets |
|---|---|---|---|---|
`)
	for i := range protocol.APIs {
		a := &protocol.APIs[i]
		offered, gets := "yes", "its answer"
		if handlers[a.Key] == nil {
			offered, gets = "no", missingAnswer(a)
		}
		unstable := ""
		if a.Unstable != 0 {
			unstable = fmt.Sprintf(", and %d with `unstable.api.versions.enable`", a.Unstable)
		}
		fmt.Fprintf(&b, "| %d | %s | %d–%d%s | %s | %s |\n", a.Key, a.Name, a.MinVersion, a.MaxVersion, unstable, offered, gets)
	}
	return b.String()
}

// missingAnswer says what a request of an API gets that is not offered.
func missingAnswer(a *protocol.API) string {
	q := protocol.RequestForKey(a.Key)
	q.SetVersion(a.MaxVersion)
	p := q.ResponseKind()
	if a.NeedsPlugin || !refuse(p, errorcode.UnsupportedVersion, "x") {
		return "a closed connection"
	}
	if strings.Contains(string(p.AppendTo(nil)), "x") {
		return "UNSUPPORTED_VERSION with the API's name"
	}
	return "UNSUPPORTED_VERSION"
}

func TestAPITable(t *testing.T) {
	const path = "../docs/apis.md"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(apiTable()), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, apiTable(), string(have), "run go test ./broker -run TestAPITable -update")
}

// AddPartitionsToTxn has a code for the whole answer from version 4 on. Before, an answer that lists nothing would pass for success.
func TestRefusalIsInTheAnswersVersion(t *testing.T) {
	for v := int16(0); v <= 5; v++ {
		q := kmsg.NewPtrAddPartitionsToTxnRequest()
		q.SetVersion(v)
		assert.Equal(t, v >= 4, refuse(q.ResponseKind(), errorcode.UnsupportedVersion, "x"), "version %d", v)
	}
}

// An answer whose writes are lost names no partitions where it has a code of its own for all of them.
func TestUnstoredAcknowledgements(t *testing.T) {
	p := &protocol.TxnShareAcknowledgeResponse{APIKey: 93, Topics: []protocol.TxnShareAcknowledgeTopicResponse{{Partitions: []protocol.TxnShareAcknowledgePartitionResponse{{Partition: 1}}}}}
	require.True(t, unstored(p, errorcode.None))
	assert.Equal(t, &protocol.TxnShareAcknowledgeResponse{APIKey: 93, ErrorCode: errorcode.KafkaStorageError}, p)
}

// Every handler belongs to an API, and every API's file can decode each version that it offers.
func TestHandlersBelongToAPIs(t *testing.T) {
	for key := range handlers {
		a := protocol.APIByKey(key)
		require.NotNil(t, a, "key %d", key)
		q := protocol.RequestForKey(key)
		require.NotNil(t, q, "key %d", key)
		assert.GreaterOrEqual(t, q.MaxVersion(), a.Highest(), a.Name)
		for v := a.MinVersion; v <= a.Highest(); v++ {
			q.SetVersion(v)
			assert.Equal(t, a.IsFlexible(v), q.IsFlexible(), "%s v%d", a.Name, v)
		}
	}
}
