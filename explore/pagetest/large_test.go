package pagetest

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A lane of 100,000 offsets is drawn within its width: the whole, a window, and single offsets. What is in the document does not grow with the log.
func TestManyOffsets(t *testing.T) {
	p := newTab(t, 1440, 900)
	p.script("topic orders\nconfig group workers share.auto.offset.reset=earliest share.partition.max.record.locks=4000\n" +
		"produce orders-0 x count=50000\nproduce orders-0 y count=50000\njoin workers m1 orders\nfetch workers m1 records=3000 mode=record_limit\n")
	require.Empty(t, p.notice())
	p.until(`document.querySelector(".lane canvas").getAttribute("aria-label").includes("acquired by m1")`)
	nodes := js[int](p, `document.querySelectorAll("*").length`)
	assert.Less(t, nodes, 2500)
	p.click(".lane button", "All")
	p.frame()
	p.click(".lane button", "Window")
	p.frame()
	p.do(chromedp.Focus(chromedp.CSS(".lane canvas")))
	p.press(kb.End)
	p.until(`document.querySelector(".lane .chosen .what").textContent.startsWith("99999: not handed out")`)
	for range 20 {
		p.press("+")
	}
	p.press(kb.ArrowLeft)
	p.until(`document.querySelector(".lane .chosen .what").textContent.startsWith("99998: not handed out")`)
	p.until(`document.querySelector(".lane .chosen .what").textContent.includes("y49998")`)
	p.press(kb.Home)
	p.until(`document.querySelector(".lane .chosen .what").textContent.startsWith("0: acquired by m1")`)
	took := js[float64](p, `(async () => {
		const all = [], c = document.querySelector(".lane canvas");
		for (let i = 0; i < 60; i++) {
			const began = performance.now();
			c.dispatchEvent(new WheelEvent("wheel", {deltaX: i %% 20 < 10 ? 400 : 0, deltaY: i %% 20 < 10 ? 0 : i %% 2 ? 100 : -100, ctrlKey: i %% 20 >= 10, clientX: 600, bubbles: true, cancelable: true}));
			await new Promise(r => requestAnimationFrame(() => r()));
			all.push(performance.now() - began);
		}
		return all.sort((a, b) => a - b)[30];
	})()`)
	t.Logf("a frame of a lane of 100,000 offsets that is moved and zoomed: %.1f ms in the middle", took)
	assert.Less(t, js[int](p, `document.querySelectorAll("*").length`), nodes+200)
}
