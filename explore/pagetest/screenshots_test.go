package pagetest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

var pictures = flag.String("pictures", "", "directory that TestScreenshots writes its pictures into; without one it is skipped")

// Pictures for the documents: make screenshots takes them.
func TestScreenshots(t *testing.T) {
	if *pictures == "" {
		t.Skip("-pictures names no directory")
	}
	take := func(p *tab, name string) {
		js[any](p, `document.activeElement.blur()`)
		p.frame()
		p.until(`document.getAnimations().length === 0`)
		p.until(`[...document.querySelectorAll("canvas")].every(c => c.width > 0)`)
		js[any](p, `new Promise(r => setTimeout(() => r(0), 600))`) // rings come to rest, values of records come
		image, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(*pictures, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(*pictures, name+".png"), image, 0o644))
	}
	walk := func(p *tab, tour string, steps int) {
		p.open("#tour=" + tour)
		p.button("Begin")
		for i := 1; i < steps; i++ {
			p.until(`document.querySelector(".caption .step, .story h2").textContent.includes("%d of")`, i)
			p.button("Next")
		}
		p.until(`document.querySelector(".caption .step, .story h2").textContent.includes("%d of")`, steps)
		p.calm()
	}
	light := newTab(t, 1280, 780)
	light.media("prefers-color-scheme", "light")
	walk(light, "a-first-share-group", 8)
	take(light, "share-group")
	walk(light, "kip1289-late-stage-fence", 3)
	take(light, "both-ways")
	dark := newTab(t, 1280, 780)
	dark.media("prefers-color-scheme", "dark")
	walk(dark, "a-transaction-commits", 4)
	dark.filter("api", "TxnShareAcknowledge")
	dark.row(`.row.request`)
	dark.until(`document.querySelector(".decoded .tree")`)
	dark.do(chromedp.Focus(chromedp.CSS(`.lane canvas`)))
	dark.press(kb.Home)
	take(dark, "transaction")
}
