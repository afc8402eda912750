package histories

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kshare/broker"
	"kshare/clock"
	"kshare/config"
	"kshare/coordinator"
	"kshare/internal/memorynet"
	"kshare/protocol"
	"kshare/storage"
	"kshare/storage/directory"
)

const (
	nodes      = 3
	topicName  = "orders"
	partitions = 3
	// internalPartitions is how many partitions the internal topics have.
	internalPartitions = 3
)

// machine is a cluster that can be killed. Its store is a directory on a file system in memory.
type machine struct {
	*broker.Cluster
	clock   *clock.Virtual
	timing  broker.Timing
	level   int16 // transaction.version
	network memorynet.Network
	fs      *vfs.MemFS
	// left is how many batches are appended before the machine is killed, behind the last of them; negative for no kill.
	left int
	// killed is what the operating system has of a machine that was killed. Nothing that it does afterwards is seen by anybody.
	killed *vfs.MemFS
}

var began = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

func boot(timing broker.Timing, level int16) (*machine, error) {
	m := &machine{clock: clock.NewVirtual(began), timing: timing, level: level, fs: vfs.NewCrashableMem()}
	return m, m.start()
}

func (m *machine) start() error {
	m.left, m.killed = -1, nil
	static, err := config.Parse([]config.Property{
		{Key: "transaction.abort.timed.out.transaction.cleanup.interval.ms", Value: "500"},
		{Key: "transaction.state.log.num.partitions", Value: strconv.Itoa(internalPartitions)},
		{Key: "offsets.topic.num.partitions", Value: strconv.Itoa(internalPartitions)},
		{Key: "default.replication.factor", Value: "3"},
	})
	if err != nil {
		return err
	}
	store, err := directory.OpenFS(m.fs, "store", directory.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	m.Cluster, err = broker.New(broker.Options{
		Nodes: nodes, FirstNodeID: 1, ClusterID: "histories", Clock: m.clock, Timing: m.timing,
		Features: map[string]int16{"transaction.version": m.level},
		Listen: func(node int32, _ string) (net.Listener, error) {
			return m.network.Listen(fmt.Sprintf("127.0.0.1:%d", 9091+node))
		},
		Advertise: func(node int32, _ string, _ net.Addr) (string, int32, error) { return "127.0.0.1", 9091 + node, nil },
		Store:     &killable{store, m}, Config: static, Log: slog.New(slog.DiscardHandler),
		Topics: []broker.TopicSpec{{Name: topicName, Partitions: partitions, ID: [16]byte{1}}},
	})
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	return nil
}

// kill takes what the operating system has, unless that was taken.
func (m *machine) kill() {
	if m.killed == nil {
		m.killed = m.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 0))})
	}
}

// restart starts the machine that was killed again.
func (m *machine) restart() error {
	if err := m.Close(); err != nil {
		return fmt.Errorf("closing: %w", err)
	}
	m.fs = m.killed
	return m.start()
}

// killable counts what is appended.
type killable struct {
	storage.Store
	machine *machine
}

func (k *killable) OpenLog(id storage.PartitionID, internal bool) (storage.Log, error) {
	l, err := k.Store.OpenLog(id, internal)
	return &killableLog{l, k.machine}, err
}

type killableLog struct {
	storage.Log
	machine *machine
}

func (l *killableLog) Append(header *protocol.BatchHeader, batch []byte) error {
	err := l.Log.Append(header, batch)
	if l.machine.left--; l.machine.left == 0 {
		l.machine.kill()
	}
	return err
}

// leader is the node that leads a partition, 0 for none.
func (m *machine) leader(topic string, partition int32) int32 {
	for _, t := range m.InspectTopics() {
		if t.Name == topic && int(partition) < len(t.Partitions) {
			return max(0, t.Partitions[partition].Leader)
		}
	}
	return 0
}

// groupCoordinator is the node that coordinates a group, 0 for none.
func (m *machine) groupCoordinator(group string) int32 {
	return m.leader("__consumer_offsets", coordinator.PartitionFor(group, internalPartitions))
}

// transactionCoordinator is the node that coordinates a transactional id, 0 for none.
func (m *machine) transactionCoordinator(id string) int32 {
	return m.leader("__transaction_state", coordinator.PartitionFor(id, internalPartitions))
}
