package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"kshare/internal/jsonhttp"
	"kshare/scenario"
)

// Bounds of a scenario, so that a hostile one ends. The body of the request bounds its text.
const (
	scenarioLimit    = 2 * time.Minute
	scenarioCommands = 10_000
	scenarioShows    = 16 << 20 // bytes
)

type runScenario struct {
	Text string `json:"text" doc:"commands; lines of ---- and what they are to show may follow them"`
	Name string `json:"name,omitempty" doc:"what the scenario is called in errors"`
}

// ScenarioReport is what the commands of a scenario have shown.
type ScenarioReport struct {
	Blocks    []Block  `json:"blocks"`
	Differing int      `json:"differing" doc:"how many blocks show something else than they are to"`
	Stopped   *Stopped `json:"stopped" doc:"why the scenario ended early, null where it ran to its end"`
}

// Block is commands and what they are to show together.
type Block struct {
	Commands []Command `json:"commands"`
	Expected []string  `json:"expected" doc:"lines that the commands are to show"`
	Compared bool      `json:"compared" doc:"the text said what they are to show, and all were run"`
	Differs  bool      `json:"differs" doc:"they show something else"`
}

// Command is a command of a scenario.
type Command struct {
	Line    int      `json:"line" doc:"of the text, from 1 on"`
	Command string   `json:"command"`
	Shown   []string `json:"shown" doc:"lines"`
	Omitted string   `json:"omitted" doc:"why it was not run, empty where it was"`
}

// Stopped is why a scenario ended early.
type Stopped struct {
	Line   int    `json:"line" doc:"of the text, from 1 on"`
	Reason string `json:"reason"`
}

func (s *server) runScenario(ctx context.Context, q *runScenario) (*ScenarioReport, error) {
	name := q.Name
	if name == "" {
		name = "scenario"
	}
	f, err := scenario.Parse(name, []byte(q.Text))
	if err != nil {
		return nil, jsonhttp.Refuse(http.StatusBadRequest, "%v", err)
	}
	if n := f.Commands(); n > scenarioCommands {
		return nil, jsonhttp.Refuse(http.StatusBadRequest, "%s: %d commands, there may be %d", jsonhttp.Clip(name), n, scenarioCommands)
	}
	select {
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, scenarioLimit, fmt.Errorf("it took %s, which is all that a scenario may", scenarioLimit))
	defer cancel()
	r, err := scenario.RunContext(ctx, f, scenario.NewLive(s.cluster), scenario.Options{MaxShown: scenarioShows})
	return reportOf(r, err), nil
}

func reportOf(r *scenario.Report, err error) *ScenarioReport {
	x := &ScenarioReport{Blocks: []Block{}}
	last := 0
	for i := range r.Blocks {
		b := &r.Blocks[i]
		block := Block{Commands: []Command{}, Expected: append([]string{}, b.Expected...), Compared: b.Stated && b.Compared}
		block.Differs = block.Compared && b.Fails()
		for _, c := range b.Commands {
			block.Commands = append(block.Commands, Command{c.Line, c.Command, append([]string{}, c.Shown...), c.Omitted})
			last = c.Line
		}
		if block.Differs {
			x.Differing++
		}
		x.Blocks = append(x.Blocks, block)
	}
	if err != nil {
		x.Stopped = &Stopped{last, err.Error()}
		var m *scenario.Mistake
		if errors.As(err, &m) {
			x.Stopped = &Stopped{m.Line, m.Reason}
		}
	}
	return x
}
