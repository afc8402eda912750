package pagetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for what is to happen. Nothing depends on it but how long a failure takes.
const patience = 30 * time.Second

// tab is a page of the browser. At the end of its test it must have said nothing on the console, thrown nothing, refused nothing and asked nobody else for anything.
type tab struct {
	t      *testing.T
	ctx    context.Context
	server string

	mu       sync.Mutex
	trouble  []string
	expected []string // parts of what may be on the console
}

// newTab opens a tab of the given size in CSS pixels.
func newTab(t *testing.T, width, height int64) *tab {
	t.Helper()
	p := &tab{t: t, server: server}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.listen))
	p.ctx = ctx
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, height))) // the tab lives as long as the context of its first actions
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, s := range p.trouble {
			if !slices.ContainsFunc(p.expected, func(part string) bool { return strings.Contains(s, part) }) {
				t.Error(s)
			}
		}
	})
	return p
}

func (p *tab) listen(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			var parts []string
			for _, a := range e.Args {
				parts = append(parts, string(a.Value)+a.Description)
			}
			p.trouble = append(p.trouble, fmt.Sprintf("console %s: %s", e.Type, strings.Join(parts, " ")))
		}
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
		p.trouble = append(p.trouble, "exception: "+text)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.trouble = append(p.trouble, fmt.Sprintf("log: %s %s", e.Entry.Text, e.Entry.URL))
		}
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, p.server+"/") && !strings.HasPrefix(u, "blob:"+p.server) && !strings.HasPrefix(u, "about:") {
			p.trouble = append(p.trouble, "the page asked for "+u)
		}
	}
}

// expect says what may be on the console: a part of it.
func (p *tab) expect(part string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, part)
}

// do runs actions, within patience.
func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p.t, chromedp.Do(ctx, actions...))
}

// js evaluates an expression.
func js[T any](p *tab, format string, args ...any) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	expression := fmt.Sprintf(format, args...)
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression)
	return v
}

// until waits until an expression is true. It asks by itself, since the page's policy forbids what would ask from inside.
func (p *tab) until(format string, args ...any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	expression := fmt.Sprintf(format, args...)
	for {
		met, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if met && err == nil {
			return
		}
		select {
		case <-ctx.Done():
			notice, _ := chromedp.Run(p.ctx, chromedp.Evaluate[any](`document.getElementById("notice").textContent`))
			text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[any](`document.getElementById("main").innerText.slice(0, 600)`))
			require.FailNow(p.t, "this does not become true", "%s\nlast: %v\nnotice: %v\npage: %v", expression, err, notice, text)
		case <-time.After(15 * time.Millisecond):
		}
	}
}

// quoted is a text as JavaScript writes it.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// find is an expression for the visible element with a selector and, unless it is "", exactly this text.
func find(selector, text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%s)].find(e => e.checkVisibility() && (%s === "" || e.textContent.trim() === %s))`, quoted(selector), quoted(text), quoted(text))
}

// click clicks where the mouse would: in the middle of the visible element with this selector and text, once it is there and enabled.
func (p *tab) click(selector, text string) {
	p.t.Helper()
	e := find(selector, text)
	p.until(`(e => e && !e.disabled)(%s)`, e)
	at := js[[]float64](p, `(e => { e.scrollIntoView({block: "nearest"}); const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })(%s)`, e)
	p.do(chromedp.MouseClickXY(at[0], at[1]))
}

// button clicks a button or the head of a menu.
func (p *tab) button(text string) {
	p.t.Helper()
	p.click(`button, details.menu > summary`, text)
}

// press sends keys, like "Enter".
func (p *tab) press(keys string, modifiers ...chromedp.Modifier) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys, chromedp.KeyModifiers(modifiers...)))
}

// enter presses Enter as a keyboard does: what a page prevents as the key goes down does not come as a character either.
func (p *tab) enter() {
	p.t.Helper()
	for _, e := range []input.DispatchKeyEventParams{{Type: input.DispatchKeyEventTypeKeyDown, Text: "\r"}, {Type: input.DispatchKeyEventTypeKeyUp}} {
		e.Key, e.Code, e.WindowsVirtualKeyCode = "Enter", "Enter", 13
		_, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, e)
		require.NoError(p.t, err)
	}
}

// open goes to an address of the page: what stands behind #.
func (p *tab) open(hash string) {
	p.t.Helper()
	u := p.server + "/explore/"
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(u+hash))
	p.until(`document.querySelector("main").children.length > 0`)
}

// script goes to a session that has run this script, by its link.
func (p *tab) script(text string) {
	p.t.Helper()
	p.open("#s=" + url.PathEscape(base64URL(text)))
	p.until(`document.querySelector(".bench")`)
	p.calm()
}

// calm waits until the page has nothing under way.
func (p *tab) calm() {
	p.t.Helper()
	p.until(`!document.querySelector('[aria-busy="true"]')`)
	p.frame() // the transcript is painted with the next frame
}

// type_ types a command and waits until it has run, or was refused.
func (p *tab) command(line string) {
	p.t.Helper()
	before := p.steps()
	p.click(`.prompt input`, "")
	js[any](p, `(e => { e.value = %s; e.form.requestSubmit(); })(document.querySelector(".prompt input"))`, quoted(line))
	p.until(`document.querySelectorAll(".transcript li[data-step]:not(.undone)").length > %d || !document.getElementById("notice").hidden`, before)
	p.calm()
}

// steps is how many commands the transcript has that are not undone.
func (p *tab) steps() int {
	p.t.Helper()
	return js[int](p, `document.querySelectorAll(".transcript li[data-step]:not(.undone)").length`)
}

// commands are those of the transcript that are not undone.
func (p *tab) commands() []string {
	p.t.Helper()
	return js[[]string](p, `[...document.querySelectorAll(".transcript li[data-step]:not(.undone) .cmd")].map(e => e.textContent)`)
}

// shown is what the transcript's commands showed, all lines.
func (p *tab) shown() []string {
	p.t.Helper()
	return js[[]string](p, `[...document.querySelectorAll(".transcript li[data-step]:not(.undone) pre")].flatMap(e => e.textContent.split("\n"))`)
}

// notice is what the page says went wrong, "" for nothing.
func (p *tab) notice() string {
	p.t.Helper()
	return js[string](p, `(e => e.hidden ? "" : e.querySelector("p").textContent)(document.getElementById("notice"))`)
}

// media makes the tab believe in a media feature.
func (p *tab) media(name, value string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: name, Value: value}}})
	require.NoError(p.t, err)
}
