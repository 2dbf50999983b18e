package identity

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// userCode is how people see a code (RFC 8628, 6.1): letters that are no words and are not mixed up.
var userCode = regexp.MustCompile(`^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$`)

func TestDevicesAreToldWhatTheyNeed(t *testing.T) {
	rule(t, "T8628-1", "T8628-5", "T8628-7")
	storesNothing(t, func() {
		for range 50 { // U38
			a := harbor.device(t, "scope", "openid").must(t, http.StatusOK)
			harbor.poll(t, a.field("device_code")).fails(t, http.StatusBadRequest, "authorization_pending")
		}
	})
	a := harbor.device(t)
	if a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("the answer may be stored: %v", a.header)
	}
	got := a.object()
	if got["expires_in"] != 600.0 || got["interval"] != 5.0 || a.field("verification_uri") != issuer+"/oauth/device" {
		t.Errorf("%v", got)
	}
	code := a.field("user_code")
	if a.field("verification_uri_complete") != issuer+"/oauth/device?user_code="+code || !userCode.MatchString(code) {
		t.Errorf("%v", got)
	}
	if device := a.field("device_code"); len(device) < 43 || strings.Contains(device, code) || strings.Count(device, ".") == 2 {
		t.Errorf("the device code is %q", device)
	}
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"} {
		if at := get(t, path, "").field("device_authorization_endpoint"); at != issuer+"/oauth/device_authorization" {
			t.Errorf("%s names %q", path, at)
		}
	}
	storesNothing(t, func() {
		call(t, http.MethodPost, issuer+"/oauth/device_authorization", values("client_id", "nobody")).fails(t, http.StatusBadRequest, "invalid_client")
		call(t, http.MethodPost, issuer+"/oauth/device_authorization", values("client_id", harbor.ID)).fails(t, http.StatusUnauthorized, "invalid_client")
		refused.device(t).fails(t, http.StatusBadRequest, "access_denied")
	})
}

func TestADeviceCodeIsUsedOnceByItsClient(t *testing.T) {
	rule(t, "T8628-2")
	b := here(t)
	a := harbor.device(t)
	b.letIn(t, a.field("user_code"))
	storesNothing(t, func() {
		portal.poll(t, a.field("device_code")).fails(t, http.StatusBadRequest, "invalid_grant")
		wrong := harbor
		wrong.Secret = "wrong"
		wrong.poll(t, a.field("device_code")).is(t, http.StatusUnauthorized)
		harbor.poll(t, a.field("device_code")+"x").fails(t, http.StatusBadRequest, "invalid_grant")
	})
	const devices = 16
	answers, other := make([]answer, devices), replica(t)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			base := issuer
			if i%2 == 1 {
				base = other
			}
			form := harbor.form("grant_type", "urn:ietf:params:oauth:grant-type:device_code", "device_code", a.field("device_code"))
			answers[i], _ = try(t.Context(), http.MethodPost, base+"/oauth/token", form)
		})
	}
	wg.Wait()
	good := 0
	for _, got := range answers {
		if got.status == http.StatusOK {
			good++
		}
	}
	if good > 1 { // none where the other's attempt has ended the session before the first was answered
		t.Errorf("%d devices got tokens: %v", good, answers)
	}

	a = harbor.device(t)
	b.letIn(t, a.field("user_code"))
	got := harbor.poll(t, a.field("device_code")).tokens(t)
	alive(t, got.Access)
	if _, id := claims(t, got.ID); id["preferred_username"] != alice {
		t.Errorf("the device is %v", id)
	}
	if p := b.findDevice(t, a.field("user_code")); p.status == http.StatusOK {
		if p = b.submit(t, p, "answer", "allow"); p.status == http.StatusOK {
			t.Errorf("a code lets in twice: %q", p.heading())
		}
	}
	alive(t, got.Access)
	// The device code comes a second time, elsewhere: one of the two who have it is a thief.
	aliveAt(t, other, got.Access)
	harbor.tokenAt(t, other, "grant_type", "urn:ietf:params:oauth:grant-type:device_code", "device_code", a.field("device_code")).
		fails(t, http.StatusBadRequest, "invalid_grant")
	harbor.refresh(t, got.Refresh).fails(t, http.StatusBadRequest, "invalid_grant")
	over(t, issuer, got.Access)
}

func TestDevicesWait(t *testing.T) {
	rule(t, "T8628-3")
	a := harbor.device(t)
	code := a.field("device_code")
	// Who polls again within five seconds is told to slow down. A busy machine may take longer than that for two polls.
	last := time.Now()
	harbor.poll(t, code).fails(t, http.StatusBadRequest, "authorization_pending")
	for deadline := last.Add(patience); ; {
		sent := time.Now()
		again := harbor.poll(t, code)
		soon := time.Since(last) < 5*time.Second
		if last = sent; soon || again.field("error") == "slow_down" {
			again.fails(t, http.StatusBadRequest, "slow_down")
			break
		}
		if again.fails(t, http.StatusBadRequest, "authorization_pending"); sent.After(deadline) {
			t.Fatal("no poll was answered within five seconds of the one before it")
		}
	}

	denied := harbor.device(t)
	here(t).submit(t, here(t).findDevice(t, denied.field("user_code")), "answer", "deny").shows(t, http.StatusOK, "")
	storesNothing(t, func() {
		harbor.poll(t, denied.field("device_code")).fails(t, http.StatusBadRequest, "access_denied")
	})

	// What expired a second ago: nobody waits for ten minutes.
	old := map[string]any{"c": harbor.ID, "u": strings.ReplaceAll(a.field("user_code"), "-", ""), "e": time.Now().Add(-time.Second)}
	storesNothing(t, func() {
		harbor.poll(t, openVault(t).sealed(t, "device", old)).fails(t, http.StatusBadRequest, "expired_token")
	})

	// The pause is ten seconds by now, and stays so (RFC 8628, 3.5): the one of five is not enough any more. A poll that a busy machine
	// delays for longer than that says nothing, and is followed by another.
	for deadline := time.Now().Add(patience); ; {
		time.Sleep(time.Until(last.Add(6 * time.Second))) //nolint:forbidigo // the time itself is what is tested
		sent := time.Now()
		again := harbor.poll(t, code)
		if time.Since(last) < 10*time.Second {
			again.fails(t, http.StatusBadRequest, "slow_down")
			return
		}
		if last = sent; sent.After(deadline) {
			t.Fatal("no poll was answered within ten seconds of the one before it")
		}
	}
}

func TestUserCodesAreEasyToTypeAndHardToGuess(t *testing.T) {
	rule(t, "T8628-4")
	b := here(t)
	code := harbor.device(t).field("user_code")
	plain := strings.ReplaceAll(code, "-", "")
	for _, typed := range []string{code, strings.ToLower(code), plain, strings.ToLower(plain[:6]) + " " + plain[6:], " " + code + " ", plain[:1] + "-" +
		plain[1:]} {
		b.findDevice(t, typed).shows(t, http.StatusOK, "Connect "+harbor.ID)
	}
	// Where it counts guesses, it counts those of the person: so another server is asked, which nobody else needs.
	guesser := logIn(t, alice)
	guesser.via = differently(t, func(map[string]any) {}).URL
	begin, wrong := time.Now(), 0.0
	for i := range 40 { // two of them have the right check letter, which is no wrong guess
		p := guesser.findDevice(t, fmt.Sprintf("%sBBBB-BBB%c", plain[:4], "BCDFGHJKLMNPQRSTVWXZ"[i%20]))
		if p.status != http.StatusTooManyRequests && !strings.HasPrefix(p.heading(), "Connect "+harbor.ID) {
			wrong++
		}
	}
	if most := 10 + time.Since(begin).Minutes(); wrong > most { // at once, and one more with each minute
		t.Errorf("%v wrong guesses were answered, and not %v at most", wrong, most)
	}
	if p := guesser.findDevice(t, code); p.status != http.StatusTooManyRequests && wrong+1 > 10+time.Since(begin).Minutes() {
		t.Errorf("after %v wrong ones a right one is answered %d %q", wrong, p.status, p.heading())
	}
	b.findDevice(t, code).shows(t, http.StatusOK, "Connect "+harbor.ID) // others are not held up
}

// T8628-6: whoever opens an address that somebody sent him sees which client it is and which code, is warned, and has to say yes.
func TestThePersonAlwaysConfirmsTheDevice(t *testing.T) {
	rule(t, "T8628-5", "T8628-6")
	b := here(t)
	a := harbor.device(t)
	code := a.field("user_code")
	waits := func() {
		t.Helper()
		harbor.poll(t, a.field("device_code")).is(t, http.StatusBadRequest)
	}
	storesNothing(t, func() {
		p := b.open(t, a.field("verification_uri_complete")).shows(t, http.StatusOK, "Connect a device")
		if p.form(t, url.Values{"user_code": {}}).fields.Get("user_code") != code {
			t.Errorf("the code is not filled in: %s", clip(p.body))
		}
		waits()
		p = b.submit(t, p, "user_code", code).shows(t, http.StatusOK, "Connect "+harbor.ID)
		for _, want := range []string{code, harbor.ID, alice} {
			if !strings.Contains(p.body, want) {
				t.Errorf("the page does not show %q: %s", want, clip(p.body))
			}
		}
		if !strings.Contains(p.body, `class="note" role="note"`) {
			t.Error("the page does not warn of those who send codes to others")
		}
		if strings.Contains(p.body, a.field("device_code")) {
			t.Error("the page shows the device code")
		}
		waits()
		f := p.form(t, values("answer", "allow"))
		f.fields.Set("answer", "allow")
		b.post(t, "/oauth/device", f.fields, "Origin: https://evil.example", "Sec-Fetch-Site: cross-site").is(t, http.StatusForbidden)
		newBrowser(t).post(t, "/oauth/device", f.fields, "Sec-Fetch-Site: same-origin").is(t, http.StatusForbidden)
		without := f.fields
		without.Del("form")
		b.post(t, "/oauth/device", without, "Sec-Fetch-Site: same-origin").is(t, http.StatusForbidden)
		waits()
	})
	// Somebody who is not logged in has to log in first, and is asked all the same.
	fresh := newBrowser(t)
	p := fresh.open(t, a.field("verification_uri_complete")).shows(t, http.StatusOK, "Log in")
	fresh.login(t, p, alice, password).shows(t, http.StatusOK, "Connect a device")
}
