package realkafka

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options say how a Kafka is started.
type Options struct {
	Jars     string            // the directory of the broker's jars
	Logging  string            // the log4j2 configuration, which logs to stdout
	Config   map[string]string // broker configurations beyond those that make it nodes on loopback ports
	Features map[string]int16  // feature levels that differ from those of a plain format
}

// Node is a node of Apache Kafka. It runs unless it was stopped.
type Node struct {
	Addr    string // host:port of its listener, "" where it is a controller alone
	options Options
	role    role
	dir     string
	process *process // nil before it was started and once it was stopped
}

// role is what a node is in its cluster.
type role struct {
	id     int32
	does   string // process.roles
	quorum string // controller.quorum.voters
	listen string // listeners
	heap   string // the most memory for its objects, as -Xmx has it
}

// startTimeout is how long a node may take until it answers, on a machine that is busy with other things.
const startTimeout = 2 * time.Minute

// Start formats a log directory of its own and starts a node that is a cluster, whose id is 1. It returns once Metadata lists the node;
// an error holds the end of the node's log.
func Start(ctx context.Context, o Options) (*Node, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	controller := loopback(ports[1])
	n, err := newNode(o, loopback(ports[0]), role{id: 1, does: "broker,controller", quorum: "1@" + controller,
		listen: "PLAINTEXT://" + loopback(ports[0]) + ",CONTROLLER://" + controller, heap: "1g"})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = n.format(ctx, newClusterID())
	if err == nil {
		err = n.run()
	}
	if err == nil {
		err = n.await(ctx, listsBrokers(n.role.id))
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// newNode makes the directory of a node that is not formatted yet.
func newNode(o Options, addr string, r role) (*Node, error) {
	dir, err := os.MkdirTemp("", "realkafka-")
	if err != nil {
		return nil, err
	}
	n := &Node{Addr: addr, options: o, role: r, dir: dir}
	if err := os.WriteFile(n.config(), n.properties(), 0o644); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) config() string { return filepath.Join(n.dir, "server.properties") }

// run starts the node's process.
func (n *Node) run() (err error) {
	if n.process, err = run(java(n.options, "-Xms128m", "-Xmx"+n.role.heap, "kafka.Kafka", n.config())); err != nil {
		n.process = nil
		return fmt.Errorf("realkafka: %w", err)
	}
	return nil
}

// java runs a class of the broker. A node lives for minutes at most: the quick compiler and the plain collector cost
// least.
func java(o Options, args ...string) *exec.Cmd {
	return exec.Command("java", append([]string{
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true",
		"-Dlog4j2.configurationFile=" + o.Logging, "-cp", filepath.Join(o.Jars, "*"),
	}, args...)...)
}

func (n *Node) properties() []byte {
	all := maps.Clone(n.options.Config)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, map[string]string{
		"process.roles":                  n.role.does,
		"node.id":                        fmt.Sprint(n.role.id),
		"controller.quorum.voters":       n.role.quorum,
		"listeners":                      n.role.listen,
		"controller.listener.names":      "CONTROLLER",
		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs":                       filepath.Join(n.dir, "data"),
	})
	if n.Addr != "" {
		all["advertised.listeners"], all["inter.broker.listener.name"] = "PLAINTEXT://"+n.Addr, "PLAINTEXT"
	}
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s=%s\n", key, all[key])
	}
	return b.Bytes()
}

// format makes the node's log directory one of a cluster.
func (n *Node) format(ctx context.Context, cluster string) error {
	args := []string{"-Xmx256m", "kafka.tools.StorageTool", "format", "-t", cluster, "-c", n.config()}
	for _, name := range slices.Sorted(maps.Keys(n.options.Features)) {
		args = append(args, "--feature", fmt.Sprintf("%s=%d", name, n.options.Features[name]))
	}
	p, err := run(java(n.options, args...))
	if err != nil {
		return fmt.Errorf("realkafka: format: %w", err)
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.kill()
	}
	if p.err != nil {
		return fmt.Errorf("realkafka: format: %w\n%s", p.err, p.log())
	}
	return nil
}

// newClusterID is a random UUID in Kafka's text form, which begins with no dash lest a tool take it for a flag.
func newClusterID() string {
	var id [16]byte
	rand.Read(id[:])
	id[0] = 0
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// freePorts finds ports of the loopback interface on which nothing listens.
func freePorts(count int) ([]int, error) {
	var ports []int
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// Dial opens a connection to the node.
func (n *Node) Dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", n.Addr)
}

// Log is the end of what the node logged since it was last started.
func (n *Node) Log() string {
	if n.process == nil {
		return ""
	}
	return strings.TrimSpace(string(n.process.log()))
}

// Close kills the node and removes its data.
func (n *Node) Close() error {
	if n.process != nil {
		n.process.kill()
	}
	return os.RemoveAll(n.dir)
}
