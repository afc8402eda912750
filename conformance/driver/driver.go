// Package driver runs the program around a client that obeys the judge: a process that is told what to do by lines on its standard input, and says what its
// client did by lines on its standard output. docs/drivers.md describes both to those who write one.
package driver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// What a driver can do, as its first line says.
const (
	Explicit     = "exp"  // it acknowledges explicitly
	Renew        = "rnw"  // it renews locks
	RecordLimit  = "lim"  // its acquire mode can be set to record_limit
	Consumer     = "cg"   // it is a member of consumer groups too
	Transactions = "txn"  // it is a transactional producer too
	Atomic       = "ktx"  // it acknowledges in transactions (KIP-1289)
	SASL         = "sasl" // it logs in
	TLS          = "tls"
)

// Capabilities are all of them.
var Capabilities = []string{Explicit, Renew, RecordLimit, Consumer, Transactions, Atomic, SASL, TLS}

// Bounds on what a driver may say: what goes beyond is dropped, and told.
const (
	maxLine    = 1 << 20
	maxEvents  = 1 << 20
	maxGarbage = 100
	maxStderr  = 64 << 10
)

// Event is a line of a driver.
type Event struct {
	Ev string    `json:"ev"`
	At time.Time `json:"-"`

	Client  string   `json:"client,omitempty"` // of hello
	Version string   `json:"version,omitempty"`
	Caps    []string `json:"caps,omitempty"`

	Topic     string          `json:"t,omitempty"` // of rec and result
	Partition int32           `json:"p,omitempty"`
	Offset    int64           `json:"o,omitempty"`
	Count     int             `json:"dc,omitempty"` // the delivery count
	Hash      string          `json:"h,omitempty"`
	Poll      int             `json:"poll,omitempty"`
	Consumer  int             `json:"consumer,omitempty"` // 1 for the one of op second
	Offsets   []int64         `json:"offs,omitempty"`
	OK        bool            `json:"ok,omitempty"`
	What      string          `json:"what,omitempty"` // of result and unsupported
	Code      json.RawMessage `json:"code,omitempty"` // a number of Kafka's, or text
	Text      string          `json:"text,omitempty"`
	Where     string          `json:"where,omitempty"` // of error
	Fatal     bool            `json:"fatal,omitempty"`
	N         int             `json:"n,omitempty"` // of polled
	Millis    int64           `json:"ms,omitempty"`
	Op        string          `json:"op,omitempty"` // of done: what is done
}

// Op is what a driver is to do.
type Op map[string]any

// Driver is a driver that runs.
type Driver struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser

	mu      sync.Mutex
	events  []Event
	garbage []string
	stderr  tailBuffer
	changed chan struct{} // closed and replaced with each event
	ended   bool
	err     error
	done    chan struct{} // closed once the process has ended and its output is read
}

// Start starts a driver with its environment beside that of this process. It is to be stopped.
func Start(argv []string, env map[string]string) (*Driver, error) {
	if len(argv) == 0 {
		return nil, errors.New("a driver is a command, and none was given")
	}
	d := &Driver{cmd: exec.Command(argv[0], argv[1:]...), changed: make(chan struct{}), done: make(chan struct{})}
	d.cmd.Env = os.Environ()
	for k, v := range env {
		d.cmd.Env = append(d.cmd.Env, k+"="+v)
	}
	ownGroup(d.cmd)
	d.cmd.Stderr = &d.stderr
	d.cmd.WaitDelay = 2 * time.Second // children of the driver may hold its output
	var err error
	if d.stdin, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	d.cmd.Stdout = in
	if err := d.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("the driver cannot be started: %w", err), out.Close(), in.Close())
	}
	in.Close()
	go d.read(out)
	return d, nil
}

// read takes the lines of the process in, until it has ended.
func (d *Driver) read(out *os.File) {
	lines := make(chan struct{})
	go func() {
		defer close(lines)
		r := bufio.NewReaderSize(out, 64<<10)
		for {
			line, err := readLine(r)
			if len(line) > 0 {
				d.line(line)
			}
			if err != nil {
				return
			}
		}
	}()
	err := d.cmd.Wait()
	endGroup(d.cmd)
	select {
	case <-lines:
	case <-time.After(d.cmd.WaitDelay): // somebody else has its output open
	}
	out.Close()
	<-lines
	d.mu.Lock()
	d.ended, d.err = true, err
	d.tell()
	d.mu.Unlock()
	close(d.done)
}

// readLine reads a line, of which it keeps maxLine bytes.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, more, err := r.ReadLine()
		if room := maxLine - len(line); room > 0 {
			line = append(line, part[:min(len(part), room)]...)
		}
		if err != nil || !more {
			return line, err
		}
	}
}

func (d *Driver) line(line []byte) {
	e := Event{}
	err := json.Unmarshal(line, &e)
	e.At = time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil || e.Ev == "":
		if len(d.garbage) < maxGarbage {
			d.garbage = append(d.garbage, string(line[:min(len(line), 500)]))
		}
	case len(d.events) < maxEvents:
		d.events = append(d.events, e)
	}
	d.tell()
}

func (d *Driver) tell() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Send tells the driver what to do. It fails where the driver has ended or does not read.
func (d *Driver) Send(op Op) error {
	b, err := json.Marshal(op)
	if err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := d.stdin.Write(append(b, '\n'))
		sent <- err
	}()
	select {
	case err := <-sent:
		return err
	case <-time.After(5 * time.Second):
		return errors.New("the driver does not read what it is to do")
	}
}

// Events are the events from number from on.
func (d *Driver) Events(from int) []Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.events[min(from, len(d.events)):])
}

// Changed is closed with the next event, or the end of the process.
func (d *Driver) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// Ended tells whether the process has ended, and how.
func (d *Driver) Ended() (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended, d.err
}

// Garbage are the first lines that were no events.
func (d *Driver) Garbage() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.garbage)
}

// Stderr is the end of what the driver has written to its standard error.
func (d *Driver) Stderr() string { return d.stderr.String() }

// Await waits for an event from number from on, at most until the context ends or the process does.
func (d *Driver) Await(ctx context.Context, from int, match func(Event) bool) (Event, error) {
	for {
		changed := d.Changed()
		ended, err := d.Ended() // asked first: once it has, there are no more events than are there now
		events := d.Events(from)
		from += len(events)
		if i := slices.IndexFunc(events, match); i >= 0 {
			return events[i], nil
		}
		if ended {
			return Event{}, fmt.Errorf("the driver has ended: %v", err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// Stop kills the driver and its process group where it has not ended by itself within grace, and returns once it is gone.
func (d *Driver) Stop(grace time.Duration) {
	d.stdin.Close()
	select {
	case <-d.done:
		return
	case <-time.After(grace):
	}
	endGroup(d.cmd)
	<-d.done
}

// tailBuffer keeps the end of what is written to it.
type tailBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - maxStderr; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(t.b, []byte("?")))
}

// Pid is the id of the driver's process.
func (d *Driver) Pid() int { return d.cmd.Process.Pid }
