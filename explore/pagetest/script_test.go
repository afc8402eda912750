package pagetest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// short is a script whose link is not worth shortening.
const short = "topic orders\nproduce orders-0 a b\n"

// A script is edited as text, runs anew, and a mistake in it is shown where it is and changes nothing.
func TestEditTheScript(t *testing.T) {
	p := newTab(t, 1440, 900)
	p.expect("400")
	p.script(short)
	p.button("Edit")
	p.until(`document.activeElement.tagName === "TEXTAREA"`)
	assert.Contains(t, js[string](p, `document.querySelector("textarea").value`), "produce orders-0 a b\n----\norders: 1 partition\norders-0: offsets 0-1")
	edit := func(text string) {
		js[any](p, `document.querySelector("textarea").value = %s`, quoted(text))
	}
	edit(short + "produc orders-0 c\n")
	p.press(kb.Enter, chromedp.ModifierCtrl)
	p.until(`!document.getElementById("notice").hidden`)
	assert.Contains(t, p.notice(), "produc")
	assert.Equal(t, "produc orders-0 c", js[string](p, `getSelection().toString() || (e => e.value.slice(e.selectionStart, e.selectionEnd))(document.querySelector("textarea"))`))
	edit("# two more\n" + short + "produce orders-0 c d\n")
	p.press(kb.Enter, chromedp.ModifierCtrl)
	p.until(`document.querySelector(".transcript").checkVisibility()`)
	assert.Empty(t, p.notice())
	assert.Equal(t, []string{"topic orders", "produce orders-0 a b", "produce orders-0 c d"}, p.commands())
	p.until(`document.querySelector(".lane .facts").textContent.includes("0–4")`)
	assert.Equal(t, "two more", js[string](p, `document.querySelector(".transcript .comment").textContent`))
	// leaving the text leaves everything
	p.button("Edit")
	p.until(`document.activeElement.tagName === "TEXTAREA"`)
	edit("topic other\n")
	p.press(kb.Escape)
	p.until(`document.querySelector(".transcript").checkVisibility()`)
	assert.Len(t, p.commands(), 3)
}

// A link holds the script: another page that opens it shows the same, from the first line to the last.
func TestLinksReplay(t *testing.T) {
	for name, text := range map[string]string{"short": short, "long": everything} {
		t.Run(name, func(t *testing.T) {
			p := newTab(t, 1440, 900)
			p.script(text)
			p.button("Copy link")
			p.until(`document.querySelector(".prompt .hint").textContent.startsWith("The link is copied")`)
			link := js[string](p, `location.href`)
			_, hash, found := strings.Cut(link, "#")
			require.True(t, found)
			if name == "long" {
				assert.True(t, strings.HasPrefix(hash, "z="), hash)
			}
			other := newTab(t, 1440, 900)
			other.open("#" + hash)
			other.until(`document.querySelector(".bench")`)
			other.calm()
			assert.Equal(t, p.commands(), other.commands())
			assert.Equal(t, p.shown(), other.shown())
			assert.Empty(t, other.notice())
			lanes := `[...document.querySelectorAll(".lane canvas")].map(e => e.getAttribute("aria-label"))`
			assert.Equal(t, js[[]string](p, `%s`, lanes), js[[]string](other, `%s`, lanes))
		})
	}
}

// A damaged link says so, and a link whose script has a mistake shows the script where it is wrong.
func TestLinksThatAreDamaged(t *testing.T) {
	p := newTab(t, 1440, 900)
	p.open("#z=AAAA")
	p.until(`!document.getElementById("notice").hidden`)
	assert.Contains(t, p.notice(), "damaged")
	p.open("#s=" + base64URL("topic orders\nnonsense\n"))
	p.expect("400")
	p.until(`!document.getElementById("notice").hidden`)
	assert.Contains(t, p.notice(), "line 2")
	assert.Equal(t, "topic orders\nnonsense\n", js[string](p, `document.querySelector("textarea").value`))
	p.open("#tour=nothing")
	p.expect("404")
	p.until(`!document.getElementById("notice").hidden`)
}

// A script that is saved as a file is what kshare run takes; opened again it is the same.
func TestFiles(t *testing.T) {
	p := newTab(t, 1440, 900)
	p.script(short)
	// what would be saved: the link's target is read instead of the file
	js[any](p, `URL.createObjectURL = b => { b.text().then(t => { window.saved = t; }); return "blob:" + location.origin + "/x"; }`)
	js[any](p, `HTMLAnchorElement.prototype.click = function () { window.savedAs = this.download; }`)
	p.openMenu(`.script details.menu > summary`)
	p.click(`details.menu[open] .list button`, "Save as a file")
	p.until(`window.saved`)
	assert.Equal(t, "scenario.txt", js[string](p, `window.savedAs`))
	saved := js[string](p, `window.saved`)
	assert.Contains(t, saved, "produce orders-0 a b\n----\norders: 1 partition\norders-0: offsets 0-1\n")
	js[any](p, `(e => { const d = new DataTransfer(); d.items.add(new File([%s], "x.txt")); e.files = d.files; e.dispatchEvent(new Event("change")); })(document.querySelector('.script input[type="file"]'))`, quoted(saved+"\nproduce orders-0 c\n"))
	p.until(`document.querySelectorAll(".transcript li[data-step]").length === 3`)
	assert.Equal(t, []string{"topic orders", "produce orders-0 a b", "produce orders-0 c"}, p.commands())
}

// What may stand in a command is offered, taken with the keyboard, and what is wrong with a command is said.
func TestTheLineForCommands(t *testing.T) {
	p := newTab(t, 1440, 900)
	p.script(short)
	p.press("c", chromedp.ModifierAlt)
	p.until(`document.activeElement.getAttribute("role") === "combobox"`)
	p.do(chromedp.KeyEvent("prod"))
	p.until(`document.querySelector("#complete:not([hidden]) li")`)
	assert.Contains(t, js[string](p, `document.querySelector("#complete li").textContent`), "produce")
	p.press(kb.Tab)
	p.until(`document.querySelector(".prompt input").value === "produce "`)
	p.until(`document.querySelector("#complete:not([hidden]) li")`)
	assert.Contains(t, js[string](p, `document.querySelector("#complete").textContent`), "orders-0")
	p.until(`document.querySelector(".prompt .hint").textContent.startsWith("produce PARTITION")`)
	p.do(chromedp.KeyEvent("orders-0 c"))
	p.press(kb.Escape)
	p.enter()
	p.until(`document.querySelectorAll(".transcript li[data-step]").length === 3`)
	assert.Equal(t, "", js[string](p, `document.querySelector(".prompt input").value`))
	p.press(kb.ArrowUp)
	assert.Equal(t, "produce orders-0 c", js[string](p, `document.querySelector(".prompt input").value`))
	p.expect("400")
	p.command("produce order-0 x")
	assert.Contains(t, p.notice(), "orders")
	assert.Equal(t, 3, p.steps())
}

// The switches of KIP-1289 are explained, and the script runs anew with what is chosen.
func TestSwitches(t *testing.T) {
	p := newTab(t, 1440, 900)
	p.script("topic orders\nproduce orders-0 a\n")
	p.openMenu(`.script details.menu > summary`)
	p.click(`details.menu[open] .list button`, "Switches of KIP-1289…")
	p.until(`document.querySelectorAll("dialog fieldset").length > 10`)
	assert.Contains(t, js[string](p, `document.querySelector("dialog").innerText`), "INVALID_PRODUCER_EPOCH")
	p.click(`dialog input[name="late.stage.fence"][value="off"]`, "")
	p.click(`dialog button.primary`, "")
	p.until(`document.querySelectorAll(".transcript li[data-step]").length === 3`)
	assert.Equal(t, "cluster kip1289=late.stage.fence:off", p.commands()[0])
	// and back to the defaults
	p.openMenu(`.script details.menu > summary`)
	p.click(`details.menu[open] .list button`, "Switches of KIP-1289…")
	p.click(`dialog input[name="late.stage.fence"][value="on"]`, "")
	p.click(`dialog button.primary`, "")
	p.until(`document.querySelector(".transcript .cmd").textContent === "cluster kip1289=on"`)
}

// A page that is loaded anew goes on where it was; a session that has ended says so.
func TestReload(t *testing.T) {
	p := newTab(t, 1440, 900)
	p.open("")
	p.button("An empty cluster")
	p.until(`document.querySelector(".bench")`)
	p.command("topic orders")
	p.command("produce orders-0 a b")
	p.do(chromedp.Reload())
	p.until(`document.querySelectorAll(".transcript li[data-step]").length === 2`)
	p.button("Undo")
	p.until(`document.querySelectorAll(".transcript li.undone").length === 1`)
	p.expect("404")
	js[any](p, `fetch("api/sessions").then(r => r.json()).then(a => Promise.all(a.sessions.map(s => fetch("api/sessions/" + s.id, {method: "DELETE"}))))`)
	p.button("Redo")
	p.until(`!document.getElementById("notice").hidden`)
	assert.Contains(t, p.notice(), "session")
}
