package explore

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// maxAnswer bounds an answer that an attached explorer reads, in bytes.
const maxAnswer = 64 << 20

// Attached is the running cluster of another process, over its control interface. It implements Board.
type Attached struct {
	base  string
	write bool
	http  http.Client
}

// Attach looks at the cluster of a kshare serve by the address of its control interface, like http://127.0.0.1:8080. Without write it changes nothing there.
func Attach(ctx context.Context, address string, write bool) (*Attached, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("--attach %q is not http://host:port", clip(address))
	}
	a := &Attached{base: "http://" + u.Host + prefix, write: write}
	var state State
	if err := a.get(ctx, "sessions/"+liveID, &state); err != nil {
		return nil, fmt.Errorf("--attach %s: %w", address, err)
	}
	return a, nil
}

// get asks for something.
func (a *Attached) get(ctx context.Context, path string, answer any) error {
	return a.ask(ctx, http.MethodGet, path, nil, answer)
}

func (a *Attached) ask(ctx context.Context, method, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	w, err := a.http.Do(r)
	if err != nil {
		return err
	}
	defer w.Body.Close()
	b, err := io.ReadAll(io.LimitReader(w.Body, maxAnswer))
	if err != nil {
		return err
	}
	if w.StatusCode >= 300 {
		var p problem
		if json.Unmarshal(b, &p) == nil && p.Error != "" {
			return errors.New(p.Error)
		}
		return fmt.Errorf("%s answers %s: is that the control interface of a kshare?", r.URL.Host, w.Status)
	}
	return json.Unmarshal(b, answer)
}

// Do implements Board.
func (a *Attached) Do(ctx context.Context, command string) (Step, error) {
	return a.run(ctx, "do", map[string]any{"command": command, "write": true})
}

// ToNextTimer implements Board.
func (a *Attached) ToNextTimer(ctx context.Context, _ bool) (Step, error) {
	return a.run(ctx, "move", map[string]any{"toNextTimer": true, "write": true})
}

// ErrReadOnly is what is said to who would change a cluster that is only looked at.
var ErrReadOnly = errors.New("this only looks at the cluster: --write lets commands change it")

func (a *Attached) run(ctx context.Context, how string, body any) (Step, error) {
	if !a.write {
		return Step{}, ErrReadOnly
	}
	var r Ran
	if err := a.ask(ctx, http.MethodPost, "sessions/"+liveID+"/"+how, body, &r); err != nil {
		return Step{}, err
	}
	if len(r.Steps) != 1 {
		return Step{}, fmt.Errorf("kshare has run %d commands instead of one", len(r.Steps))
	}
	return r.Steps[0], nil
}

// View implements Board. It is empty where the cluster cannot be asked any more.
func (a *Attached) View() *View {
	var v View
	if err := a.get(context.Background(), "sessions/"+liveID+"/view", &v); err != nil {
		return &View{}
	}
	return &v
}

// Events implements Board.
func (a *Attached) Events(since uint64, limit int) ([]Event, uint64, uint64) {
	var e struct {
		Events     []Event
		Last, Lost uint64
	}
	limit = min(limit, MaxEvents)
	if err := a.get(context.Background(), fmt.Sprintf("sessions/%s/events?since=%d&limit=%d", liveID, since, limit), &e); err != nil {
		return nil, 0, 0
	}
	return e.Events, e.Last, e.Lost
}

// Event implements Board.
func (a *Attached) Event(n uint64) (Decoded, error) {
	var d struct {
		Decoded
		Fields json.RawMessage `json:"fields"`
	}
	err := a.get(context.Background(), "sessions/"+liveID+"/events/"+strconv.FormatUint(n, 10), &d)
	d.Decoded.Fields = d.Fields
	return d.Decoded, err
}

// Complete implements Board.
func (a *Attached) Complete(line string) (int, []Candidate) {
	var c struct {
		From       int
		Candidates []Candidate
	}
	if err := a.get(context.Background(), "sessions/"+liveID+"/complete?line="+url.QueryEscape(line), &c); err != nil {
		return len(line), nil
	}
	return c.From, c.Candidates
}

// Watch calls f with each update of the cluster until the context ends, which is no error.
func (a *Attached) Watch(ctx context.Context, f func(*Update) error) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+"sessions/"+liveID+"/stream", nil)
	if err != nil {
		return err
	}
	w, err := a.http.Do(r)
	if err != nil {
		return ended(ctx, err)
	}
	defer w.Body.Close()
	if w.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(w.Body, 1000)) // what can be had of it
		return fmt.Errorf("the stream of updates: %s: %s", w.Status, b)
	}
	lines := bufio.NewScanner(w.Body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var u Update
		if err := json.Unmarshal([]byte(data), &u); err != nil {
			return fmt.Errorf("the stream of updates: %w", err)
		}
		if err := f(&u); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return ended(ctx, err)
	}
	return ended(ctx, errors.New("kshare has ended"))
}

// ended is an error, nil where the context has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Words says what an update tells: requests and answers, then changes. first tells that it is the first one, which tells what was there already.
func (u *Update) Words(first bool) string {
	var b strings.Builder
	if first {
		text, err := Words(u.View, "")
		if err == nil {
			b.WriteString(text)
		}
		return b.String()
	}
	if u.Lost > 0 {
		fmt.Fprintf(&b, "%d events are left out\n", u.Lost)
	}
	for i := range u.Events {
		b.WriteString(u.Events[i].Words() + "\n")
	}
	changesWords(&b, u.Changes, 0)
	return b.String()
}
