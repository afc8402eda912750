package pagetest

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lowContrast lists texts whose contrast with what is behind them is below 4.5, as WCAG 2 counts it, 3 for large ones. Disabled controls are exempt.
const lowContrast = `(() => {
  const c = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = s => { c.clearRect(0, 0, 1, 1); c.fillStyle = s; c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data]; };
  const over = (a, b) => { const k = a[3] / 255; return [0, 1, 2].map(i => a[i] * k + b[i] * (1 - k)).concat(255); };
  const lum = v => { const f = v.slice(0, 3).map(x => { x /= 255; return x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; }); return .2126 * f[0] + .7152 * f[1] + .0722 * f[2]; };
  const behind = e => { const all = []; for (; e; e = e.parentElement) all.push(rgba(getComputedStyle(e).backgroundColor)); return all.reverse().reduce((b, a) => over(a, b), [255, 255, 255, 255]); };
  const low = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !e.checkVisibility() || e.closest(":disabled, .hidden-text, option, script, noscript")) continue;
    const style = getComputedStyle(e), back = behind(e);
    let opacity = 1;
    for (let x = e; x; x = x.parentElement) opacity *= Number(getComputedStyle(x).opacity);
    const ink = rgba(style.color);
    ink[3] *= opacity;
    const a = lum(over(ink, back)), b = lum(back), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const large = parseFloat(style.fontSize) >= 24 || parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) low.push(walk.currentNode.textContent.trim().slice(0, 40) + " in " + e.tagName + "." + e.className + ": " + ratio.toFixed(2));
  }
  return [...new Set(low)];
})()`

// nameless lists what can be operated and has no name.
const nameless = `[...document.querySelectorAll("button, summary, input, select, textarea, canvas, [role=tab], [role=listbox], [tabindex='0']")].filter(e => e.checkVisibility()).filter(e =>
  !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.textContent.trim() || e.labels && e.labels.length)).map(e => e.outerHTML.slice(0, 120))`

// Text can be read in both themes, and everything that can be operated has a name.
func TestContrastAndNames(t *testing.T) {
	for _, theme := range []string{"light", "dark"} {
		t.Run(theme, func(t *testing.T) {
			p := newTab(t, 1440, 900)
			p.media("prefers-color-scheme", theme)
			look := func(what string) {
				p.t.Helper()
				assert.Equal(t, theme, js[string](p, `document.documentElement.dataset.theme`))
				assert.Empty(t, js[[]string](p, `%s`, lowContrast), what)
				assert.Empty(t, js[[]string](p, `%s`, nameless), what)
				assert.Empty(t, js[[]string](p, `[...document.querySelectorAll("[id]")].map(e => e.id).filter((id, i, all) => all.indexOf(id) !== i)`), "ids that are there twice: %s", what)
			}
			p.open("")
			look("the first page")
			p.script(everything + "ack workers m1 orders-0 1=accept\ntxn-ack workers m2 p1 orders-0 3=accept\nproduce orders-9 a\n")
			p.row(`.row.request`)
			p.until(`document.querySelector(".decoded .tree")`)
			p.do(chromedp.Focus(chromedp.CSS(`.lane canvas`)))
			p.press(kb.Home)
			p.click(".lane button", "Table")
			look("a session")
			p.button("Undo")
			p.button("Undo")
			p.calm()
			look("after an undo")
			p.openMenu(`[data-key="break"]`)
			look("a menu")
			p.click(`details.menu[open] .list button`, "Delay…")
			look("a form")
			p.press(kb.Escape)
			p.openMenu(`.script details.menu > summary`)
			p.click(`details.menu[open] .list button`, "Switches of KIP-1289…")
			p.until(`document.querySelector("dialog fieldset")`)
			look("the switches")
			p.press(kb.Escape)
			p.button("Edit")
			p.until(`document.querySelector("textarea").checkVisibility()`)
			look("the script as text")
			p.open("#tour=kip1289-leader-refresh")
			p.button("Begin")
			p.until(`document.querySelector(".story h2").textContent.includes("1 of")`)
			look("beside each other")
		})
	}
}

// The letters on the lanes can be read on their colours, in both themes.
func TestContrastOfStates(t *testing.T) {
	p := newTab(t, 1440, 900)
	p.open("")
	for _, theme := range []string{"light", "dark"} {
		js[any](p, `document.documentElement.dataset.theme = %s`, quoted(theme))
		low := js[[]string](p, `(() => {
			const c = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
			const lum = s => { c.fillStyle = s; c.fillRect(0, 0, 1, 1); const f = [...c.getImageData(0, 0, 1, 1).data].slice(0, 3).map(x => { x /= 255; return x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; }); return .2126 * f[0] + .7152 * f[1] + .0722 * f[2]; };
			const css = getComputedStyle(document.documentElement), of = n => lum(css.getPropertyValue("--" + n).trim());
			const ratio = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
			const pairs = [["text", "available"], ["ink", "acquired"], ["ink", "acknowledged"], ["ink", "archived"], ["ink", "archiving"], ["ink", "pending"], ["muted", "done"]];
			return pairs.map(([a, b]) => [a + " on " + b, ratio(of(a), of(b))]).filter(x => x[1] < 4.5).map(x => x[0] + ": " + x[1].toFixed(2));
		})()`)
		assert.Empty(t, low, theme)
	}
}

// The theme follows the system until it is chosen, and is remembered.
func TestTheme(t *testing.T) {
	p := newTab(t, 1440, 900)
	p.media("prefers-color-scheme", "dark")
	p.open("")
	theme := func() string { return js[string](p, `document.documentElement.dataset.theme`) }
	assert.Equal(t, "dark", theme())
	p.media("prefers-color-scheme", "light")
	p.until(`document.documentElement.dataset.theme === "light"`)
	p.button("Dark")
	assert.Equal(t, "dark", theme())
	p.do(chromedp.Reload())
	p.until(`document.querySelector(".welcome")`)
	assert.Equal(t, "dark", theme())
	p.button("Light")
	assert.Equal(t, "light", theme())
}

// A tour can be followed, a record acknowledged and a step undone with the keyboard alone; what has changed is said.
func TestKeyboard(t *testing.T) {
	p := newTab(t, 1440, 900)
	p.open("")
	focused := func() string { return js[string](p, `document.activeElement.textContent.trim()`) }
	// from the beginning of the page to the first tour
	p.press(kb.Tab)
	assert.Equal(t, "Skip to the lanes", focused())
	for i := 0; focused() != "Begin with the first tour"; i++ {
		require.Less(t, i, 10, "the first tour is not among the first stops")
		p.press(kb.Tab)
	}
	p.enter()
	p.until(`document.activeElement.dataset.key === "next"`)
	p.enter()
	p.until(`document.querySelector(".caption .step").textContent.includes("1 of")`)
	p.until(`document.getElementById("live").textContent.includes("three partitions")`)
	for i := 2; i <= 8; i++ {
		p.until(`document.activeElement.dataset.key === "next" && !document.activeElement.disabled`)
		if i%2 == 0 {
			p.press("n", chromedp.ModifierAlt)
		} else {
			p.enter()
		}
		p.until(`document.querySelector(".caption .step").textContent.includes("%d of")`, i)
	}
	p.calm()
	// to the first lane, through its offsets, to what can be done
	for i := 0; js[string](p, `document.activeElement.tagName`) != "CANVAS"; i++ {
		require.Less(t, i, 12, "no lane within twelve stops of the caption")
		p.press(kb.Tab)
	}
	p.press(kb.ArrowRight)
	p.until(`document.getElementById("live").textContent.startsWith("0: acquired by w1")`)
	p.press(kb.ArrowRight, chromedp.ModifierShift)
	p.until(`document.querySelector(".chosen .what").textContent.startsWith("0–1: 2 acquired by w1")`)
	p.press(kb.ArrowDown)
	p.until(`document.getElementById("live").textContent.startsWith("2: acquired by w2")`)
	p.press(kb.ArrowUp)
	p.press(kb.Home)
	p.enter()
	assert.Equal(t, "Accept", focused())
	before := p.steps()
	p.enter()
	p.until(`document.querySelectorAll(".transcript li[data-step]:not(.undone)").length === %d`, before+1)
	p.until(`document.getElementById("live").textContent.includes("ack workers w1 orders-0 0=accept: orders-0: ok")`)
	p.until(`document.querySelector(".caption .text").textContent.includes("left the path")`)
	p.press("z", chromedp.ModifierCtrl)
	p.until(`document.querySelectorAll(".transcript li[data-step]:not(.undone)").length === %d`, before)
	// a menu
	p.do(chromedp.Focus(chromedp.CSS(`[data-key="workers/w1/more"]`)))
	p.until(`document.activeElement.dataset.key === "workers/w1/more"`)
	p.enter()
	p.until(`document.querySelector("details.menu[open] .list button")`)
	p.press(kb.ArrowDown)
	p.until(`document.activeElement.textContent === "Fetch…"`)
	p.enter()
	p.until(`document.querySelector("dialog") && document.querySelector("dialog").contains(document.activeElement)`)
	p.press(kb.Escape)
	p.until(`!document.querySelector("dialog") && document.activeElement.dataset.key === "workers/w1/more"`)
	// to the next timer
	p.press("t", chromedp.ModifierAlt)
	p.until(`document.querySelectorAll(".transcript li[data-step]:not(.undone)").length === %d`, before+1)
}

// Who wants less motion gets none: rings stand where they are to stand at once.
func TestReducedMotion(t *testing.T) {
	p := newTab(t, 1440, 900)
	p.media("prefers-reduced-motion", "reduce")
	p.script(everything)
	js[any](p, `window.frames_ = 0; (f => { window.requestAnimationFrame = g => { window.frames_++; return f.call(window, g); }; })(window.requestAnimationFrame)`)
	p.button("+10s")
	p.until(`document.querySelector(".clock").textContent === "0:00:10.000"`)
	p.calm()
	js[any](p, `new Promise(r => setTimeout(() => r(0), 0))`)
	assert.LessOrEqual(t, js[int](p, `window.frames_`), 3+4*js[int](p, `document.querySelectorAll("canvas").length`), "frames for one step")
}

// On a small screen everything is there, and nothing has to be scrolled sideways.
func TestSmallScreen(t *testing.T) {
	for _, width := range []int64{1024, 1180, 1440, 1920} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			p := newTab(t, width, 720)
			p.script(everything)
			assert.LessOrEqual(t, js[int](p, `document.documentElement.scrollWidth`), int(width))
			for _, part := range []string{"#bar", ".bench", ".actors", ".stage", ".dock > header", ".script > header", ".prompt"} {
				assert.Empty(t, js[[]string](p, `(box => [...document.querySelectorAll(%s + " button, " + %s + " summary, " + %s + " select, " + %s + " input")].filter(e => e.checkVisibility()).filter(e => { const r = e.getBoundingClientRect(); return r.left < box.left - 1 || r.right > box.right + 1; }).map(e => e.textContent || e.ariaLabel))(document.querySelector(%s).getBoundingClientRect())`,
					quoted(part), quoted(part), quoted(part), quoted(part), quoted(part)), part)
			}
			p.open("#tour=kip1289-abort-state")
			p.until(`document.querySelectorAll(".pane").length === 2`)
			assert.LessOrEqual(t, js[int](p, `document.documentElement.scrollWidth`), int(width))
		})
	}
}
