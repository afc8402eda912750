package explore

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
)

// tourFiles are the tours: scenarios whose comments are the captions of a story. The first paragraph is
//
//	# tour: TITLE
//	# what the story is about, in any number of lines
//	# switch: NAME=VALUE
//	# beside: FILE
//
// of which the last two are there where the story shows one side of a switch of KIP-1289, and FILE the other. Each block of commands is a step, and the
// comment right before it is its caption.
//
//go:embed tours/*.txt
var tourFiles embed.FS

// Tour is a story in steps.
type Tour struct {
	Name  string `json:"name"` // of its file, without .txt
	Title string `json:"title"`
	About string `json:"about"`
	// Switch is the side of a switch that is shown, like abort.state=acquired, "" where the story is not about one.
	Switch string `json:"switch"`
	// Beside is the name of the tour that shows the other side of the switch.
	Beside string `json:"beside"`
	// Other tells that the side shown is not the default: the story is told beside that of the default.
	Other bool       `json:"other"`
	Steps []TourStep `json:"steps"`
}

// TourStep is a step of a tour.
type TourStep struct {
	Text     []string `json:"text"` // paragraphs of the caption
	Commands []string `json:"commands"`
}

const (
	tourTitle  = "tour: "
	tourSwitch = "switch: "
	tourBeside = "beside: "
	tourOther  = ".other"
)

// firstTours are the names of the tours that people see first, in this order. The others follow in the order of their names.
var firstTours = []string{
	"a-first-share-group", "a-poison-record", "dead-letters", "renew", "batch-optimised-and-record-limit", "a-leader-moves", "a-connect-sink-crashes",
	"a-transaction-commits", "a-transaction-aborts",
}

// Tours are all tours in the order in which people see them.
var Tours = sync.OnceValue(func() []Tour {
	files, err := fs.Glob(tourFiles, "tours/*.txt")
	if err != nil {
		panic(err)
	}
	var first, rest []Tour
	byName := map[string]Tour{}
	for _, file := range files {
		text, err := tourFiles.ReadFile(file)
		if err != nil {
			panic(err)
		}
		t, err := parseTour(strings.TrimSuffix(path.Base(file), ".txt"), string(text))
		if err != nil {
			panic(err) // a test reads them all
		}
		byName[t.Name] = t
	}
	for _, name := range firstTours {
		first = append(first, byName[name])
		delete(byName, name)
	}
	for _, file := range files {
		if t, ok := byName[strings.TrimSuffix(path.Base(file), ".txt")]; ok {
			rest = append(rest, t)
		}
	}
	return append(first, rest...)
})

// parseTour reads a tour.
func parseTour(name, text string) (Tour, error) {
	t := Tour{Name: name, Other: strings.HasSuffix(name, tourOther)}
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		var step TourStep
		shown := false
		for _, line := range strings.Split(paragraph, "\n") {
			switch comment, isComment := strings.CutPrefix(line, "# "); {
			case shown:
			case line == "----":
				shown = true
			case isComment:
				step.Text = append(step.Text, comment)
			default:
				step.Commands = append(step.Commands, line)
			}
		}
		if i > 0 {
			if len(step.Text) == 0 || len(step.Commands) == 0 {
				return t, fmt.Errorf("tour %s: paragraph %d has no caption or no commands", name, i+1)
			}
			t.Steps = append(t.Steps, step)
			continue
		}
		title, ok := strings.CutPrefix(step.Text[0], tourTitle)
		if !ok || len(step.Commands) > 0 {
			return t, fmt.Errorf("tour %s: it begins with no paragraph of its own whose first line is # %sTITLE", name, tourTitle)
		}
		t.Title = title
		var about []string
		for _, line := range step.Text[1:] {
			if s, ok := strings.CutPrefix(line, tourSwitch); ok {
				t.Switch = s
			} else if s, ok := strings.CutPrefix(line, tourBeside); ok {
				t.Beside = strings.TrimSuffix(s, ".txt")
			} else {
				about = append(about, line)
			}
		}
		t.About = strings.Join(about, " ")
	}
	if len(t.Steps) == 0 {
		return t, fmt.Errorf("tour %s has no steps", name)
	}
	return t, nil
}
