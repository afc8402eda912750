package pagetest

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func base64URL(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// everything is a script after which there is something of every kind to act on.
const everything = `cluster brokers=3 kip1289=on
topic orders assignment=1:2:3
topic invoices
config group workers share.auto.offset.reset=earliest
produce orders-0 a b c d e f
join workers m1 orders
join workers m2 orders
consumer-join readers r1 orders
classic-join elders c1 orders
fetch workers m1 records=3 mode=record_limit
fetch workers m2 records=2 mode=record_limit
init-producer p1 txn=payments
produce invoices-0 A producer=p1 txn=yes
fault slow api=Produce topic=nothing hold
`

// menuOf gives the entries of the menu with this data-key, enabled ones alone, by opening and closing it.
func (p *tab) menuOf(opener string) []string {
	p.t.Helper()
	p.openMenu(opener)
	items := js[[]string](p, `[...document.querySelectorAll("details.menu[open] .list button:not(:disabled)")].map(b => b.textContent)`)
	p.press(kb.Escape)
	p.until(`!document.querySelector("details.menu[open]")`)
	return items
}

func (p *tab) openMenu(opener string) {
	p.t.Helper()
	p.click(opener, "")
	p.until(`document.querySelector("details.menu[open] .list button")`)
	// the keyboard goes on in the menu
	p.press(kb.ArrowDown)
	p.until(`document.querySelector("details.menu[open] .list").contains(document.activeElement)`)
	p.frame() // it has its place
}

// Every entry of every menu, and every button of a member, a producer, a node and a fault, types commands that are taken, and Undo takes them back.
func TestEveryAction(t *testing.T) {
	p := newTab(t, 1440, 1000)
	p.script(everything)
	p.expect("/records?") // the values of records, while the disk cannot be read
	require.Empty(t, p.notice())
	base := p.steps()
	require.Equal(t, 14, base)
	// back goes back to where the script ended, and looks that nothing went wrong.
	back := func(t *testing.T, what string) {
		p.calm()
		p.until(`document.querySelectorAll(".transcript li[data-step]:not(.undone)").length > %d || !document.getElementById("notice").hidden`, base)
		p.calm()
		p.frame()
		assert.Empty(t, p.notice(), what)
		t.Log(what, p.commands()[base:])
		p.click(`.transcript li[data-step="`+fmt.Sprint(base)+`"] .cmd`, "")
		p.until(`document.querySelectorAll(".transcript li[data-step]:not(.undone)").length === %d`, base)
		p.calm()
	}
	menus := map[string]string{
		"Add": `[data-key="add"]`, "Break": `[data-key="break"]`,
		"share member": `[data-key="workers/m1/more"]`, "consumer": `[data-key="readers/r1/more"]`, "classic member": `[data-key="elders/c1/more"]`,
		"transaction": `[data-key="txn/payments/more"]`, "share partition": `.lane [aria-label="What can be done with workers/orders-0"]`, "partition": `.lane [aria-label="What can be done with invoices-0"]`,
	}
	for name, opener := range menus {
		t.Run(name, func(t *testing.T) {
			p.t = t
			items := p.menuOf(opener)
			require.NotEmpty(t, items)
			for _, item := range items {
				p.openMenu(opener)
				p.click(`details.menu[open] .list button`, item)
				if js[bool](p, `!!document.querySelector("dialog")`) {
					line := js[string](p, `document.querySelector("dialog .preview").textContent`)
					assert.NotEmpty(t, line)
					p.click(`dialog button.primary`, "")
					p.until(`!document.querySelector("dialog")`)
				}
				back(t, item)
			}
		})
	}
	t.Run("buttons", func(t *testing.T) {
		p.t = t
		keys := js[[]string](p, `[...document.querySelectorAll(".actors .acts button, .txns .acts button")].map(b => b.dataset.key)`)
		assert.Greater(t, len(keys), 12)
		for _, key := range keys {
			p.click(`[data-key=`+quoted(key)+`]`, "")
			back(t, key)
		}
	})
	t.Run("chosen offsets", func(t *testing.T) {
		p.t = t
		choose := func() {
			p.do(chromedp.Focus(chromedp.CSS(`.lane canvas`)))
			p.press(kb.Home)
			p.press(kb.ArrowRight, chromedp.ModifierShift)
			p.until(`document.querySelector(".lane .chosen:not([hidden]) .what").textContent.startsWith("0")`)
		}
		choose()
		items := js[[]string](p, `[...document.querySelectorAll(".lane .chosen button")].map(b => b.textContent)`)
		assert.Equal(t, []string{"Accept", "Release", "Reject", "Renew", "Accept with p1", "Close"}, items)
		for _, item := range items[:len(items)-1] {
			choose()
			p.click(`.lane .chosen button`, item)
			back(t, item)
		}
	})
	t.Run("time", func(t *testing.T) {
		p.t = t
		for _, text := range []string{"+1s", "+10s", "Next timer"} {
			p.button(text)
			back(t, text)
		}
		// time that goes on by itself is one command that grows
		p.button("Run")
		p.until(`document.querySelector(".transcript li.here .cmd").textContent.startsWith("advance")`)
		first := js[string](p, `document.querySelector(".clock").textContent`)
		p.until(`document.querySelector(".clock").textContent > %s`, quoted(first))
		p.button("Pause")
		p.calm()
		p.until(`document.querySelectorAll(".transcript li[data-step]:not(.undone)").length === %d`, base+1)
		back(t, "Run")
	})
}

// What the page is clicked for is what the script says, and the lanes show it.
func TestClicksTypeTheScript(t *testing.T) {
	p := newTab(t, 1440, 900)
	p.open("")
	p.button("An empty cluster")
	p.until(`document.querySelector(".bench")`)
	form := func(item string) {
		p.openMenu(`[data-key="add"]`)
		p.click(`details.menu[open] .list button`, item)
		p.click(`dialog button.primary`, "")
		p.until(`!document.querySelector("dialog")`)
		p.calm()
	}
	form("Topic…")
	p.until(`document.querySelector(".lane")`)
	form("Member of a share group…")
	p.until(`document.querySelector('[data-key="workers/m1/Fetch"]')`)
	p.openMenu(`.lane [aria-label="What can be done with workers/orders-0"]`)
	p.click(`details.menu[open] .list button`, "Produce…")
	p.click(`dialog button.primary`, "")
	p.until(`!document.querySelector("dialog")`)
	p.calm()
	p.click(`[data-key="workers/m1/Fetch"]`, "")
	p.until(`%s`, find("button", "Accept"))
	p.click(`[data-key="workers/m1/Accept"]`, "")
	p.until(`document.querySelector(".lane .facts").textContent.includes("start 3")`)
	p.frame()
	assert.Equal(t, []string{"topic orders", "config group workers share.auto.offset.reset=earliest", "join workers m1 orders", "produce orders-0 a b c", "fetch workers m1", "ack workers m1 orders-0 0-2=accept"}, p.commands())
	// the keyboard takes it back and does it again
	js[any](p, `document.activeElement.blur()`)
	p.press("z", chromedp.ModifierCtrl)
	p.until(`document.querySelector(".lane .facts").textContent.includes("start 0")`)
	p.until(`document.querySelectorAll(".transcript li[data-step]:not(.undone)").length === 5`)
	p.press("Z", chromedp.ModifierCtrl, chromedp.ModifierShift)
	p.until(`document.querySelector(".lane .facts").textContent.includes("start 3")`)
	p.button("Undo")
	p.until(`document.querySelector(".lane .facts").textContent.includes("start 0")`)
	p.button("Redo")
	p.until(`document.querySelector(".lane .facts").textContent.includes("start 3")`)
}
