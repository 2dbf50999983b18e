package logins

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// arrived returns what the client got.
func (w *site) arrived(b *browser) url.Values {
	b.t.Helper()
	b.sees("Welcome")
	q, err := url.ParseQuery(<-w.client.landed)
	if err != nil {
		b.t.Fatal(err)
	}
	return q
}

func TestLoginAndConsentByKeyboardAlone(t *testing.T) {
	w := newSite(t)
	b := w.open(t, desktop)
	b.visit(w.asks("Argo CD"))
	b.sees("Log in")
	b.inspect("login-desktop")
	b.login("alice", "wrong")
	b.do(chromedp.WaitVisible("#error"))
	b.inspect("login-wrong-desktop")
	b.login("", password) // the name stands there still, and the password has the focus
	b.sees("Allow Argo CD?")
	b.inspect("consent-desktop")
	b.tabTo(`[value=allow]`)
	b.types(kb.Enter)
	if q := w.arrived(b); q.Get("code") == "" || q.Get("state") != "s" || q.Get("iss") != w.URL {
		t.Error(q)
	}
	b.quiet()
}

func TestDeviceIsLetInOnThePhone(t *testing.T) {
	w := newSite(t)
	b := w.open(t, phone)
	code := w.deviceCode(t)
	b.visit(w.URL + "/oauth/device?user_code=" + code)
	b.sees("Log in")
	b.inspect("login-phone")
	b.login("alice", password)
	b.sees("Connect a device")
	b.inspect("device-phone")
	b.tabTo("#code")
	b.types(kb.Enter)
	b.sees("Connect kubectl?")
	b.inspect("device-confirm-phone")
	if text := eval[string](b, `document.querySelector(".usercode").innerText`); text != code {
		t.Errorf("the page shows %s, and the device %s", text, code)
	}
	b.tabTo(`[value=allow]`)
	b.types(kb.Enter)
	b.sees("Connected")
	b.inspect("device-done-phone")
	b.quiet()
}

func TestFirstPasswordInChinese(t *testing.T) {
	w := newSite(t)
	w.user("alice", password, func(u *iamapi.User) { u.Annotations = map[string]string{iamapi.AnnotationUninitialized: "true"} })
	win := phone
	win.language, win.dark = "zh-CN", true
	b := w.open(t, win)
	b.visit(w.asks("Harbor"))
	b.sees("登录")
	b.inspect("login-zh-dark-phone")
	b.login("alice", password)
	b.sees("设置新密码")
	b.inspect("password-zh-dark-phone")
	b.tabTo("#new")
	b.types("lowercase1")
	b.tabTo("#repeat")
	b.types("lowercase1", kb.Enter)
	b.do(chromedp.WaitVisible("#error"))
	b.tabTo("#new")
	b.types(newPass)
	b.tabTo("#repeat")
	b.types(newPass, kb.Enter)
	if q := w.arrived(b); q.Get("code") == "" {
		t.Error(q)
	}
	b.quiet()
}

func TestEverythingButPasskeysWorksWithoutScripts(t *testing.T) {
	w := newSite(t)
	b := w.open(t, desktop)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.visit(w.asks("Harbor"))
	b.do(chromedp.SendKeys("#username", "alice"), chromedp.SendKeys("#password", password+kb.Enter))
	if q := <-w.client.landed; !strings.Contains(q, "code=") {
		t.Error(q)
	}
}

func TestPagesAreNotFramed(t *testing.T) { // S42, T9700-14
	w := newSite(t)
	b := w.open(t, desktop)
	b.visit(w.client.URL + "/home?html=" + url.QueryEscape(`<iframe src="`+w.URL+`/oauth/login"></iframe>`))
	b.until(`performance.getEntriesByType("resource").some(e => e.initiatorType === "iframe")`)
	b.mu.Lock()
	defer b.mu.Unlock()
	if said := strings.Join(b.complaints, "\n"); !strings.Contains(said, "frame") {
		t.Errorf("the browser shows it: %q", said)
	}
}
