package pagetest

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rows are the texts of the time line's lines that are in view, of one kind or all.
func (p *tab) rows(kind string) []string {
	p.t.Helper()
	return js[[]string](p, `[...document.querySelectorAll(".row%s")].map(e => e.innerText.replaceAll("\n", " "))`, kind)
}

// row clicks the first line of the time line with a selector.
func (p *tab) row(selector string) {
	p.t.Helper()
	js[any](p, `document.querySelector(".rows").scrollTop = 0`)
	p.frame()
	p.click(selector, "")
}

// filter sets one of the filters of the time line.
func (p *tab) filter(name, value string) {
	p.t.Helper()
	js[any](p, `(e => { e.value = %s; e.dispatchEvent(new Event("change")); })(document.querySelector('[data-filter="%s"]'))`, quoted(value), name)
	p.until(`document.querySelector('[data-filter="%s"]').value === %s`, name, quoted(value))
	p.frame()
}

// frame waits until the page has painted.
func (p *tab) frame() {
	p.t.Helper()
	js[any](p, `new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(0))))`)
}

// The time line has both directions of what was sent, decodes what is clicked, and shows what is asked for alone.
func TestTimeLine(t *testing.T) {
	p := newTab(t, 1440, 900)
	p.script(everything)
	p.until(`document.querySelector(".row.request")`)
	p.until(`document.querySelector(".row.answer")`)

	p.filter("api", "ShareFetch")
	requests := p.rows(".request")
	require.Len(t, requests, 2)
	assert.Regexp(t, `→ ShareFetch v2 m1 node 1 orders-0`, requests[0])
	assert.Regexp(t, `→ ShareFetch v2 m2 node 1 orders-0`, requests[1])
	assert.Len(t, p.rows(".answer"), 2)

	p.filter("member", "m2")
	assert.Len(t, p.rows(".request"), 1)
	p.filter("api", "")
	for _, row := range p.rows(".request") {
		assert.Contains(t, row, "m2")
	}
	p.filter("member", "")
	p.filter("partition", "invoices-0")
	produced := p.rows(".request")
	require.NotEmpty(t, produced)
	for _, row := range produced {
		assert.Contains(t, row, "invoices")
	}
	p.filter("partition", "")
	p.filter("api", "ShareFetch")

	// decoded by a click, and its answer from there
	p.row(`.row.request`)
	p.until(`document.querySelector(".decoded h3")?.textContent === "ShareFetch request"`)
	assert.Contains(t, js[string](p, `document.querySelector(".decoded .tree").innerText`), "workers")
	p.click(`.decoded button`, "Its answer")
	p.until(`document.querySelector(".decoded h3").textContent === "ShareFetch answer"`)
	assert.Contains(t, js[string](p, `document.querySelector(".decoded .tree").textContent`), "AcquiredRecords")
	p.click(`.decoded button`, "Close")
	p.until(`!document.querySelector(".decoded").checkVisibility()`)

	// and by the keyboard
	p.do(chromedp.Focus(chromedp.CSS(`.rows`)))
	p.press(kb.Home)
	p.press(kb.ArrowDown)
	p.until(`document.querySelector('.row[aria-selected="true"].request')`)
	p.enter()
	p.until(`document.querySelector(".decoded h3")?.textContent === "ShareFetch request"`)
	p.do(chromedp.Focus(chromedp.CSS(`.rows`)))
	p.press(kb.Escape)
	p.until(`!document.querySelector(".decoded").checkVisibility()`)

	// words find lines
	p.filter("api", "")
	js[any](p, `(e => { e.value = "acquired by m2"; e.dispatchEvent(new Event("input")); })(document.querySelector('.filters input[type="search"]'))`)
	p.frame()
	assert.Empty(t, p.rows(".request"))
	require.NotEmpty(t, p.rows(".change"))
}

// The logs grow with what the brokers write.
func TestLogs(t *testing.T) {
	p := newTab(t, 1440, 900)
	p.script("cluster kip1289=on\ntopic orders\ntopic dlq.orders errors.deadletterqueue.group.enable=true\n" +
		"config group workers share.auto.offset.reset=earliest errors.deadletterqueue.topic.name=dlq.orders\nproduce orders-0 a b\njoin workers m1 orders\nfetch workers m1\n")
	count := func(tab string) string { return js[string](p, `document.getElementById("tab-%s").textContent`, tab) }
	assert.Contains(t, count("dead"), " 0")
	p.command("ack workers m1 orders-0 0=reject")
	assert.Contains(t, count("dead"), " 1")
	p.command("init-producer p1 txn=payments")
	p.command("produce orders-0 c producer=p1 txn=yes")
	p.command("txn-ack workers m1 p1 orders-0 1=accept")
	p.until(`document.querySelector(".txns .txn").innerText.includes("Ongoing") && document.querySelector(".txns .txn").innerText.includes("staged: orders-0 1 of workers")`)
	p.click(`.txns button`, "Commit")
	p.until(`document.querySelector(".txns .txn").innerText.includes("CompleteCommit")`)
	assert.Contains(t, count("markers"), " 1")
	p.click("#tab-dead", "")
	p.until(`document.getElementById("panel-log").innerText.includes("Offset rejected by client")`)
	p.do(chromedp.Focus(chromedp.CSS("#tab-dead")))
	p.press(kb.ArrowLeft)
	p.until(`document.activeElement.id === "tab-markers" && document.getElementById("panel-log").innerText.includes("COMMIT")`)
	p.press(kb.ArrowLeft)
	p.until(`document.activeElement.id === "tab-state" && document.getElementById("panel-log").innerText.includes("ShareSnapshot")`)
	assert.Contains(t, js[string](p, `document.getElementById("panel-log").innerText`), "TX_PENDING")
}
