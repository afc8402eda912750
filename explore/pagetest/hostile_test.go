package pagetest

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// The page's files come with a policy under which nothing but themselves runs.
func TestContentSecurityPolicy(t *testing.T) {
	for _, path := range []string{"", "main.js", "style.css", "icon.svg"} {
		r, err := http.Get(server + "/explore/" + path)
		require.NoError(t, err)
		_ = r.Body.Close()
		assert.Equal(t, http.StatusOK, r.StatusCode, path)
		assert.Equal(t, policy, r.Header.Get("Content-Security-Policy"), path)
		assert.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"), path)
	}
	p := newTab(t, 1440, 900)
	p.open("")
	p.expect("Content Security Policy")
	p.expect("violates the following")
	p.expect("Refused to")
	p.expect("https://example.invalid")
	js[any](p, `window.refused = []; addEventListener("securitypolicyviolation", e => window.refused.push(e.effectiveDirective))`)
	js[any](p, `(s => { s.textContent = "window.pwned = 1"; document.body.append(s); })(document.createElement("script"))`)
	js[any](p, `(i => { i.src = "https://example.invalid/x.png"; document.body.append(i); })(document.createElement("img"))`)
	js[any](p, `document.body.setAttribute("onclick", "window.pwned = 1"); document.body.click()`)
	js[any](p, `fetch("https://example.invalid/").catch(() => 0)`)
	p.until(`["script-src-elem", "img-src", "script-src-attr", "connect-src"].every(d => window.refused.includes(d))`)
	assert.Nil(t, js[any](p, `window.pwned ?? null`))
}

// What clients say is shown as text, wherever it is shown.
func TestHostileText(t *testing.T) {
	p := newTab(t, 1440, 900)
	markup := `<img src=x onerror=window.pwned=1><script>window.pwned=1</script>`
	p.script("topic orders\nconfig group workers share.auto.offset.reset=earliest\nproduce orders-0 \"" + markup + "\" \"</textarea></pre>&amp;\"\n" +
		"join workers <b>m1</b> orders\nfetch workers <b>m1</b>\ninit-producer p1 txn=<i>payments</i>\nread orders-0\n")
	require.Empty(t, p.notice())
	assert.Zero(t, js[int](p, `document.querySelectorAll("main img, main script, main b b, main i:not(.swatch)").length`))
	assert.Contains(t, js[string](p, `document.querySelector(".transcript").textContent`), markup)
	assert.Equal(t, "<b>m1</b>", js[string](p, `document.querySelector(".member b").textContent`))
	// a record's value in the bar of what is chosen, in a tip, in a decoded message, in the text of the script
	p.do(chromedp.Focus(chromedp.CSS(`.lane canvas`)))
	p.press(kb.Home)
	p.until(`document.querySelector(".lane .chosen .what").textContent.includes(%s)`, quoted(markup))
	at := js[[]float64](p, `(r => [r.left + 20, r.top + 30])(document.querySelector(".lane canvas").getBoundingClientRect())`)
	p.do(chromedp.MouseEvent("mouseMoved", at[0], at[1]))
	p.until(`document.querySelector(".tip")?.textContent.includes(%s)`, quoted(markup))
	p.filter("api", "Produce")
	p.row(`.row.request`)
	p.until(`document.querySelector(".decoded .tree")`)
	p.button("Edit")
	p.until(`document.querySelector("textarea").value.includes(%s)`, quoted(markup))
	p.press(kb.Escape)
	assert.Zero(t, js[int](p, `document.querySelectorAll("main img, main script, .tip *").length`))
	assert.Nil(t, js[any](p, `window.pwned ?? null`))
}

// A message of the server that repeats hostile text is text too.
func TestHostileErrors(t *testing.T) {
	p := newTab(t, 1440, 900)
	p.expect("400")
	p.script(short)
	p.command(`produce <img/src=x/onerror=window.pwned=1> a`)
	assert.Contains(t, p.notice(), "<img")
	assert.Zero(t, js[int](p, `document.querySelectorAll("img").length`))
}
