package logins

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/tools/logins/chromium"
)

// arrived returns what the client got.
func (w *site) arrived(t *testing.T, b *chromium.Browser) url.Values {
	t.Helper()
	b.Sees("Welcome")
	q, err := url.ParseQuery(<-w.client.landed)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestLoginAndConsentByKeyboardAlone(t *testing.T) {
	w := newSite(t)
	b := w.open(t, chromium.Desktop())
	b.Visit(w.asks("Argo CD"))
	b.Sees("Log in")
	b.Inspect("login-desktop")
	b.Login("alice", "wrong")
	b.Do(chromedp.WaitVisible("#error"))
	b.Inspect("login-wrong-desktop")
	b.Login("", password) // the name stands there still, and the password has the focus
	b.Sees("Allow Argo CD?")
	b.Inspect("consent-desktop")
	b.TabTo(`[value=allow]`)
	b.Types(kb.Enter)
	if q := w.arrived(t, b); q.Get("code") == "" || q.Get("state") != "s" || q.Get("iss") != w.URL {
		t.Error(q)
	}
	b.Quiet()
}

func TestDeviceIsLetInOnThePhone(t *testing.T) {
	w := newSite(t)
	b := w.open(t, chromium.Phone())
	code := w.deviceCode(t)
	b.Visit(w.URL + "/oauth/device?user_code=" + code)
	b.Sees("Log in")
	b.Inspect("login-phone")
	b.Login("alice", password)
	b.Sees("Connect a device")
	b.Inspect("device-phone")
	b.TabTo("#code")
	b.Types(kb.Enter)
	b.Sees("Connect kubectl?")
	b.Inspect("device-confirm-phone")
	if text := chromium.Eval[string](b, `document.querySelector(".usercode").innerText`); text != code {
		t.Errorf("the page shows %s, and the device %s", text, code)
	}
	b.TabTo(`[value=allow]`)
	b.Types(kb.Enter)
	b.Sees("Connected")
	b.Inspect("device-done-phone")
	b.Quiet()
}

func TestFirstPasswordInChinese(t *testing.T) {
	w := newSite(t)
	w.user("alice", password, func(u *iamapi.User) { u.Annotations = map[string]string{iamapi.AnnotationUninitialized: "true"} })
	win := chromium.Phone()
	win.Language, win.Dark = "zh-CN", true
	b := w.open(t, win)
	b.Visit(w.asks("Harbor"))
	b.Sees("登录")
	b.Inspect("login-zh-dark-phone")
	b.Login("alice", password)
	b.Sees("设置新密码")
	b.Inspect("password-zh-dark-phone")
	b.TabTo("#new")
	b.Types("lowercase1")
	b.TabTo("#repeat")
	b.Types("lowercase1", kb.Enter)
	b.Do(chromedp.WaitVisible("#error"))
	b.TabTo("#new")
	b.Types(newPass)
	b.TabTo("#repeat")
	b.Types(newPass, kb.Enter)
	if q := w.arrived(t, b); q.Get("code") == "" {
		t.Error(q)
	}
	b.Quiet()
}

func TestEverythingButPasskeysWorksWithoutScripts(t *testing.T) {
	w := newSite(t)
	b := w.open(t, chromium.Desktop())
	chromium.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.Visit(w.asks("Harbor"))
	b.Do(chromedp.SendKeys("#username", "alice"), chromedp.SendKeys("#password", password+kb.Enter))
	if q := <-w.client.landed; !strings.Contains(q, "code=") {
		t.Error(q)
	}
}

func TestPagesAreNotFramed(t *testing.T) { // S42, T9700-14
	w := newSite(t)
	b := w.open(t, chromium.Desktop())
	b.Visit(w.client.URL + "/home?html=" + url.QueryEscape(`<iframe src="`+w.URL+`/oauth/login"></iframe>`))
	b.Until(`performance.getEntriesByType("resource").some(e => e.initiatorType === "iframe")`)
	b.Complains("frame")
}
