//go:build unix

package interop

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// programLimit bounds one program; the slowest takes about 80 s against Apache Kafka itself.
const programLimit = 3 * time.Minute

// TestInterop runs every client as a subtest. Programs that a broker keeps waiting run beside each other.
func TestInterop(t *testing.T) {
	if os.Getenv("KSHARE_INTEROP") == "" {
		t.Skip("runs with KSHARE_INTEROP=1: it needs JDK 17, Maven, Python, Node and Rust")
	}
	require.NoError(t, os.MkdirAll(cache, 0o755))
	binary := buildKshare(t)
	bootstrap, guarded := startBroker(t, binary), startSecured(t, binary)
	t.Run("clients", func(t *testing.T) {
		t.Run("franz-go", func(t *testing.T) {
			t.Parallel()
			env := []string{"KSHARE_BOOTSTRAP=" + bootstrap, "KSHARE_SECURED=" + strings.Join(guarded.arguments(), " ")}
			run(t, programLimit, ".", env, "go", "test", "-count=1", "-v", "./franz")
		})
		t.Run("kgo tests", func(t *testing.T) {
			t.Parallel()
			kgoTests(t, bootstrap)
		})
		t.Run("shareclient", func(t *testing.T) {
			t.Parallel()
			out := run(t, programLimit, "..", nil, "go", "test", "-count=1", "-v", "-run", "^Example", "./shareclient")
			assert.Contains(t, out, "--- PASS: Example ")
		})
		suites := []struct {
			name     string
			dir      string
			command  func(*testing.T) []string
			programs [][]string // arguments; BOOTSTRAP stands for the address, SECURED for what a secured broker is known by, KSHARE for the binary of programs that start their own
		}{
			{"java", "java", javaCommand, [][]string{
				{"kshare.interop.ProducerProgram", "BOOTSTRAP"},
				{"kshare.interop.ConsumerProgram", "BOOTSTRAP", "classic"},
				{"kshare.interop.ConsumerProgram", "BOOTSTRAP", "consumer"},
				{"kshare.interop.ShareProgram", "BOOTSTRAP"},
				{"kshare.interop.ShareGroupProgram", "BOOTSTRAP"},
				{"kshare.interop.AdminProgram", "BOOTSTRAP"},
				{"kshare.interop.AdminGroupsProgram", "BOOTSTRAP"},
				{"kshare.interop.ShareStateProgram", "BOOTSTRAP"},
				{"kshare.interop.TransactionProgram", "BOOTSTRAP"},
				{"kshare.interop.TransactionToolProgram", "BOOTSTRAP"},
				{"kshare.interop.TransactionStateProgram", "BOOTSTRAP"},
				{"kshare.interop.ToolsProgram", "BOOTSTRAP"},
				{"kshare.interop.ControlProgram", "KSHARE"},
				{"kshare.interop.ShareTransactionProgram", "KSHARE"},
				{"kshare.interop.SecurityProgram", "SECURED"},
			}},
			{"python", "python", pythonCommand, [][]string{
				{"producer.py", "BOOTSTRAP"},
				{"consumer.py", "BOOTSTRAP"},
				{"admin.py", "BOOTSTRAP"},
				{"share.py", "BOOTSTRAP"},
				{"control.py", "KSHARE"},
				{"security.py", "SECURED"},
			}},
			{"node", "node", nodeCommand, [][]string{{"main.js", "BOOTSTRAP"}}},
			{"rust", "rust", rustCommand, [][]string{{"BOOTSTRAP"}}},
		}
		for _, s := range suites {
			t.Run(s.name, func(t *testing.T) {
				command := s.command(t)
				for _, program := range s.programs {
					t.Run(programName(program), func(t *testing.T) {
						t.Parallel()
						args := command[:len(command):len(command)]
						for _, a := range program {
							switch a {
							case "BOOTSTRAP":
								args = append(args, bootstrap)
							case "KSHARE":
								args = append(args, binary)
							case "SECURED":
								args = append(args, guarded.arguments()...)
							default:
								args = append(args, a)
							}
						}
						out := run(t, programLimit, s.dir, nil, args...)
						assert.Regexp(t, `(?m)^PASS `, out)
					})
				}
			})
		}
	})
	t.Run("TxnShareAcknowledge", func(t *testing.T) { compareTxnShareAcknowledge(t, javaCommand(t)) })
	t.Run("dump of share state", func(t *testing.T) { dumpShareState(t, bootstrap, javaCommand(t)) })
	t.Run("dump of transactions", func(t *testing.T) { dumpTransactionState(t, bootstrap, javaCommand(t)) })
}

// programName is what tells a program from the others of its suite.
func programName(args []string) string {
	name := strings.NewReplacer("BOOTSTRAP", "", "KSHARE", "", "SECURED", "").Replace(strings.Join(args, " "))
	name = strings.TrimSpace(strings.TrimPrefix(name, "kshare.interop."))
	if name == "" {
		return "program"
	}
	return strings.Join(strings.Fields(name), " ")
}

// kgoTests runs the tests of franz-go's own kgo package that speak to a broker: all that open a client on KGO_SEEDS. Not
// among them are the SCRAM and OAUTHBEARER tests, which have seeds of their own, TestIssueProduceBrokerTooOldFailsRecords,
// which skips itself on a broker of today, and the unit tests.
//
// The package is tested at the version that go.mod names. KGO_TEST_RECORDS is the number of records that each ETL test
// moves through its chain of groups (500000 if unset), KGO_TEST_RF the replication factor of its topics.
func kgoTests(t *testing.T, bootstrap string) {
	t.Helper()
	groups := []string{
		"TestGroupETL", "TestGroupSimple", "TestUnknownGroupOffsetFetchPinned", "Test848RegexBrokerResolves",
		"TestIssue434", "TestIssue337", "TestIssue865", "TestAddRemovePartitions", "TestPauseIssue489",
		"TestPauseIssueOct2023", "TestHookPollStart",
	}
	transactions := []string{"TestTxnEtl"}
	shares := []string{
		"TestShareGroup", "TestShareGroupETL", "TestShareGroupAckOnClose", "TestShareGroupOffsetsAdmin",
		"TestConsumeRegexShareSkipsInternal",
	}
	others := []string{
		"TestPing", "TestIssue1034", "TestIssue325", "TestConsumeTopicRetrieval", "TestConsumeTopicRetrieval_Many",
		"TestConsumeRegex", "TestDirectPartitionPurge", "TestIssue523", "TestIssue648", "TestIssue810", "TestPooling",
		"TestIssueFetchLargerThanBrokerMaxReadBytes", "TestConsumeMaxDecompressBatchBytes", "TestClient_Produce",
		"TestIssue769", "TestIssue831", "TestIssueProduceSyncManualPartitionNegativeDoesNotPanic",
		"TestClient_ProduceLargeMessages",
	}
	records, limit := "100000", 10*time.Minute
	if testing.Short() {
		records, limit = "5000", 5*time.Minute
	}
	tests := slices.Concat(groups, transactions, shares, others)
	env := []string{
		"KGO_SEEDS=" + bootstrap, "KGO_LOG_LEVEL=none", "KGO_TEST_RF=1", "KGO_TEST_RECORDS=" + records,
		"KGO_TEST_MAX_TOPIC_PARTS=8",
	}
	out := run(t, limit, ".", env, "go", "test", "-count=1", "-v", "-timeout", limit.String(),
		"-run", "^("+strings.Join(tests, "|")+")$", "github.com/twmb/franz-go/pkg/kgo")
	// kgo skips what the broker does not offer; here everything must be offered.
	assert.NotContains(t, out, "--- SKIP")
	passed := regexp.MustCompile(`(?m)^--- PASS: (\S+)`).FindAllStringSubmatch(out, -1)
	assert.Len(t, passed, len(tests), "tests that passed")
}
