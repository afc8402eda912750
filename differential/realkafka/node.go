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

// Options say how a node is started.
type Options struct {
	Jars     string            // the directory of the broker's jars
	Logging  string            // the log4j2 configuration, which logs to stdout
	Config   map[string]string // broker configurations beyond those that make it one node on a loopback port
	Features map[string]int16  // feature levels that differ from those of a plain format
}

// Node is a running Apache Kafka.
type Node struct {
	Addr    string // host:port of its listener
	dir     string
	process *process
}

// startTimeout is how long a node may take until it answers, on a machine that is busy with other things.
const startTimeout = 2 * time.Minute

// Start formats a log directory of its own and starts a node, whose id is 1. It returns once Metadata lists the node;
// an error holds the end of the node's log.
func Start(ctx context.Context, o Options) (*Node, error) {
	dir, err := os.MkdirTemp("", "realkafka-")
	if err != nil {
		return nil, err
	}
	n := &Node{dir: dir}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := n.start(ctx, o); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) start(ctx context.Context, o Options) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	n.Addr = fmt.Sprintf("127.0.0.1:%d", ports[0])
	properties := filepath.Join(n.dir, "server.properties")
	if err := os.WriteFile(properties, n.properties(o.Config, ports[1]), 0o644); err != nil {
		return err
	}
	if err := n.format(ctx, o, properties); err != nil {
		return err
	}
	if n.process, err = run(java(o, "-Xms256m", "-Xmx1g", "kafka.Kafka", properties)); err != nil {
		return fmt.Errorf("realkafka: %w", err)
	}
	return n.awaitMetadata(ctx)
}

// java runs a class of the broker. A node lives for minutes at most: the quick compiler and the plain collector cost
// least.
func java(o Options, args ...string) *exec.Cmd {
	return exec.Command("java", append([]string{
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true",
		"-Dlog4j2.configurationFile=" + o.Logging, "-cp", filepath.Join(o.Jars, "*"),
	}, args...)...)
}

func (n *Node) properties(config map[string]string, controllerPort int) []byte {
	controller := fmt.Sprintf("127.0.0.1:%d", controllerPort)
	all := maps.Clone(config)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        "1",
		"controller.quorum.voters":       "1@" + controller,
		"listeners":                      "PLAINTEXT://" + n.Addr + ",CONTROLLER://" + controller,
		"advertised.listeners":           "PLAINTEXT://" + n.Addr,
		"inter.broker.listener.name":     "PLAINTEXT",
		"controller.listener.names":      "CONTROLLER",
		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs":                       filepath.Join(n.dir, "data"),
	})
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s=%s\n", key, all[key])
	}
	return b.Bytes()
}

func (n *Node) format(ctx context.Context, o Options, properties string) error {
	args := []string{"-Xmx256m", "kafka.tools.StorageTool", "format", "-t", newClusterID(), "-c", properties}
	for _, name := range slices.Sorted(maps.Keys(o.Features)) {
		args = append(args, "--feature", fmt.Sprintf("%s=%d", name, o.Features[name]))
	}
	p, err := run(java(o, args...))
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

// Log is the end of what the node logged.
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
