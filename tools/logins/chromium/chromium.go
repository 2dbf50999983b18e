// Package chromium is a browser for tests, Debian's chromium: windows that are used as people use them, mostly by keyboard, and an
// inspection of the pages that they show.
package chromium

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Browser is one window of a browser of its own, which ends with the test.
type Browser struct {
	t   *testing.T
	ctx context.Context
	win Window

	mu sync.Mutex
	// complaints are what the browser wrote to its console.
	complaints []complaint
}

// complaint is a message of the browser about the page or the resource at an address.
type complaint struct{ text, at string }

// Window is the kind of a window.
type Window struct {
	// Width and Height are in CSS pixels.
	Width, Height int64
	// Phone makes it behave as the browser of a phone; Dark prefers dark colours.
	Phone, Dark bool
	// Language is the language of the user, such as "en" or "zh-CN".
	Language string
}

// Desktop is a window on a desk.
func Desktop() Window { return Window{Width: 1280, Height: 800, Language: "en"} }

// Phone is the whole screen of a phone.
func Phone() Window { return Window{Width: 390, Height: 844, Phone: true, Language: "en"} }

// Open starts a browser that trusts the certificates, and aborts any action of the test after patience. Where there is no browser the
// test fails.
func Open(t *testing.T, win Window, patience time.Duration, certificates ...*x509.Certificate) *Browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("install Debian's package chromium (make test does)")
	}
	pins := make([]string, 0, len(certificates))
	for _, c := range certificates {
		pin := sha256.Sum256(c.RawSubjectPublicKeyInfo)
		pins = append(pins, base64.StdEncoding.EncodeToString(pin[:]))
	}
	allocator, stop := chromedp.NewExecAllocator(t.Context(),
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(longest),
		chromedp.Flag("headless", true), chromedp.Flag("no-sandbox", true), chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("no-first-run", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("lang", win.Language),
		chromedp.Flag("ignore-certificate-errors-spki-list", strings.Join(pins, ",")))
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	ctx, late := context.WithTimeout(ctx, patience)
	t.Cleanup(late)
	b := &Browser{t: t, ctx: ctx, win: win}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	Call(b, cdplog.Enable, cdp.Empty{})
	Call(b, network.Enable, network.EnableParams{})
	Call(b, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": win.Language}})
	b.dress()
	return b
}

// hear records the browser's complaints.
func (b *Browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		b.complaints = append(b.complaints, complaint{e.Entry.Text, e.Entry.URL})
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, complaint{e.ExceptionDetails.Text, e.ExceptionDetails.URL})
	}
}

// Complaints returns the messages of the browser's console about resources below these addresses, each with its address: violated
// policies, failed scripts. Without addresses it returns all.
func (b *Browser) Complaints(below ...string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for _, c := range b.complaints {
		ours := func(address string) bool { return strings.HasPrefix(c.at, address+"/") }
		if len(below) == 0 || c.at == "" || slices.ContainsFunc(below, ours) {
			list = append(list, strings.TrimSpace(c.text+" "+c.at))
		}
	}
	return list
}

// dress sets the window's size and colours.
func (b *Browser) dress() {
	b.t.Helper()
	scheme := "light"
	if b.win.Dark {
		scheme = "dark"
	}
	Call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: b.win.Width, Height: b.win.Height,
		DeviceScaleFactor: 1,
		Mobile:            b.win.Phone})
	Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme",
		Value: scheme}}})
}

// Call sends the browser a command.
func Call[P, R any](b *Browser, c cdp.Command[P, R], params P) R {
	b.t.Helper()
	r, err := chromedp.Call(b.ctx, c, params)
	if err != nil {
		b.t.Fatalf("%s: %v", c.Method, err)
	}
	return r
}

// Do runs other actions, one after the other.
func (b *Browser) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatalf("%v; at %s: %s", err, b.try(`location.href`), b.try(`document.body.innerText`))
	}
}

// try is Eval for the message of a failure.
func (b *Browser) try(script string) string {
	s, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](script))
	if err != nil {
		return err.Error()
	}
	return s
}

// Eval runs a script, and returns its result.
func Eval[T any](b *Browser, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.t.Fatalf("%s: %v; at %s", script, err, b.try(`location.href`))
	}
	return v
}

// Until waits for a script to return true. While a page is being replaced there is none to run it in.
func (b *Browser) Until(script string) {
	b.t.Helper()
	b.wait(script+" never comes true", func() bool {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](script))
		return err == nil && ok
	})
}

// Complains waits for a message of the browser with a text in it: it arrives apart from what the page itself can see.
func (b *Browser) Complains(text string) {
	b.t.Helper()
	b.wait("the browser does not complain of "+text, func() bool {
		return slices.ContainsFunc(b.Complaints(), func(said string) bool { return strings.Contains(said, text) })
	})
}

// longest bounds the start of a browser and a wait for what a page shows. It is long, since CI machines are slow.
const longest = 3 * time.Minute

// wait asks until the answer is yes, and fails the test with what after the longest time.
func (b *Browser) wait(what string, ask func() bool) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(longest)
	for !ask() {
		select {
		case <-tick.C:
		case <-late:
			b.t.Fatalf("%s; at %s: %s; it said %q", what, b.try(`location.href`), b.try(`document.body.innerText`), b.Complaints())
		}
	}
}

// Visit opens an address.
func (b *Browser) Visit(address string) {
	b.t.Helper()
	b.Do(chromedp.Navigate(address))
}

// Sees waits for a heading with this prefix.
func (b *Browser) Sees(heading string) {
	b.t.Helper()
	b.Until(`document.readyState === "complete" && (document.querySelector("h1")?.innerText ?? "").startsWith(` + quote(heading) + `)`)
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

// Types types with the keyboard, into the element with the focus.
func (b *Browser) Types(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.Do(chromedp.KeyEvent(k))
	}
}

// TabTo presses Tab until an element has the focus, and reports whether its focus can be seen.
func (b *Browser) TabTo(selector string) {
	b.t.Helper()
	for range 40 {
		if Eval[bool](b, `document.activeElement?.matches(`+quote(selector)+`) ?? false`) {
			if width := Eval[string](b, `getComputedStyle(document.activeElement).outlineWidth`); width == "0px" {
				b.t.Errorf("the focus of %s can't be seen", selector)
			}
			return
		}
		b.Types(kb.Tab)
	}
	b.t.Fatalf("Tab does not lead to %s: %s", selector, b.try(`document.body.innerText`))
}

// Press moves to a button by keyboard, and presses it.
func (b *Browser) Press(selector string) {
	b.t.Helper()
	b.TabTo(selector)
	b.Types(kb.Enter)
}

// Login logs in on the login page, with the keyboard.
func (b *Browser) Login(name, pass string) {
	b.t.Helper()
	b.TabTo("#username")
	b.Types(name)
	b.TabTo("#password")
	b.Types(pass, kb.Enter)
}

// Quiet fails if there are complaints.
func (b *Browser) Quiet(below ...string) {
	b.t.Helper()
	said := slices.DeleteFunc(b.Complaints(below...), func(s string) bool {
		// A page with an error message has an error status, too; and a test is faster with the keyboard than autofocus.
		return strings.Contains(s, "status of 4") || strings.Contains(s, "status of 503") || strings.Contains(s, "Autofocus processing")
	})
	if len(said) > 0 {
		b.t.Errorf("the browser complains: %q", said)
	}
}

// Picture stores a picture of the page where LOGINS_PICTURES names a folder.
func (b *Browser) Picture(name string) {
	b.t.Helper()
	dir := os.Getenv("LOGINS_PICTURES")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
