package logins

import (
	"context"
	"crypto/sha256"
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

// patience bounds what a test does in the browser.
const patience = 90 * time.Second

// browser is one window of a browser of its own.
type browser struct {
	t   *testing.T
	ctx context.Context
	win window

	mu sync.Mutex
	// complaints are what the browser wrote to its console.
	complaints []string
}

type window struct {
	width, height int64
	phone, dark   bool
	language      string
}

var (
	desktop = window{width: 1280, height: 800, language: "en"}
	phone   = window{width: 390, height: 844, phone: true, language: "en"}
)

// open starts a browser. Where there is none the test fails: what is not tested in a browser does not work in one.
func (w *site) open(t *testing.T, win window) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("install Debian's package chromium (make test does)")
	}
	pin := sha256.Sum256(w.Certificate().RawSubjectPublicKeyInfo)
	allocator, stop := chromedp.NewExecAllocator(t.Context(),
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("headless", true), chromedp.Flag("no-sandbox", true), chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("no-first-run", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("lang", win.language),
		chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(pin[:])))
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	ctx, late := context.WithTimeout(ctx, patience)
	t.Cleanup(late)
	b := &browser{t: t, ctx: ctx, win: win}
	if err := chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *cdplog.EventEntryAdded:
			b.complaints = append(b.complaints, e.Entry.Text)
		case *runtime.EventExceptionThrown:
			b.complaints = append(b.complaints, e.ExceptionDetails.Text)
		}
	}); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	call(b, cdplog.Enable, cdp.Empty{})
	call(b, network.Enable, network.EnableParams{})
	call(b, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": win.language}})
	b.dress()
	return b
}

// dress gives the window its size and its colours.
func (b *browser) dress() {
	b.t.Helper()
	scheme := "light"
	if b.win.dark {
		scheme = "dark"
	}
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: b.win.width, Height: b.win.height, DeviceScaleFactor: 1,
		Mobile: b.win.phone})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// call sends the browser a command.
func call[P, R any](b *browser, c cdp.Command[P, R], params P) R {
	b.t.Helper()
	r, err := chromedp.Call(b.ctx, c, params)
	if err != nil {
		b.t.Fatalf("%s: %v", c.Method, err)
	}
	return r
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatalf("%v; at %s: %s", err, b.try(`location.href`), b.try(`document.body.innerText`))
	}
}

// try is eval for what is told of a failure.
func (b *browser) try(script string) string {
	s, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](script))
	if err != nil {
		return err.Error()
	}
	return s
}

// eval runs a script, and returns what it gives.
func eval[T any](b *browser, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.t.Fatalf("%s: %v; at %s", script, err, b.try(`location.href`))
	}
	return v
}

// until waits for a script to give true. While a page goes and another comes there is none to ask.
func (b *browser) until(script string) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for {
		if ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](script)); err == nil && ok {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			b.t.Fatalf("%s never comes true; at %s: %s", script, b.try(`location.href`), b.try(`document.body.innerText`))
		}
	}
}

// visit opens an address.
func (b *browser) visit(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate(address))
}

// sees waits for a heading that begins so.
func (b *browser) sees(heading string) {
	b.t.Helper()
	b.until(`document.readyState === "complete" && (document.querySelector("h1")?.innerText ?? "").startsWith(` + quote(heading) + `)`)
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

// types types with the keyboard, into whatever has the focus.
func (b *browser) types(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.do(chromedp.KeyEvent(k))
	}
}

// tabTo presses Tab until an element has the focus, and tells whether its focus can be seen.
func (b *browser) tabTo(selector string) {
	b.t.Helper()
	for range 40 {
		if eval[bool](b, `document.activeElement?.matches(`+quote(selector)+`) ?? false`) {
			if width := eval[string](b, `getComputedStyle(document.activeElement).outlineWidth`); width == "0px" {
				b.t.Errorf("the focus of %s can't be seen", selector)
			}
			return
		}
		b.types(kb.Tab)
	}
	b.t.Fatalf("Tab does not lead to %s: %s", selector, b.try(`document.body.innerText`))
}

// login logs in on the login page, with the keyboard.
func (b *browser) login(name, pass string) {
	b.t.Helper()
	b.tabTo("#username")
	b.types(name)
	b.tabTo("#password")
	b.types(pass, kb.Enter)
}

// quiet fails where the browser had anything to complain of: a policy that was broken, a script that failed.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	said := slices.DeleteFunc(slices.Clone(b.complaints), func(s string) bool {
		// A page that says what is wrong has a status that says so, too; and a test is faster with the keyboard than autofocus.
		return strings.Contains(s, "status of 4") || strings.Contains(s, "Autofocus processing")
	})
	if len(said) > 0 {
		b.t.Errorf("the browser complains: %q", said)
	}
}

// picture keeps a picture of the page where LOGINS_PICTURES names a folder.
func (b *browser) picture(name string) {
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
