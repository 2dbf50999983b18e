package oauth

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	deviceflow "kapis.dev/ks-apiserver/pkg/oauth/device"
)

const grantDevice = "urn:ietf:params:oauth:grant-type:device_code"

func (s *server) begin(t testing.TB, form url.Values) reply {
	t.Helper()
	return do(t, request(t, http.MethodPost, s.URL+"/oauth/device_authorization", form.Encode(), nil))
}

func (s *server) poll(t testing.TB, device string, pairs ...string) reply {
	t.Helper()
	return s.post(t, with(url.Values{"grant_type": {grantDevice}, "client_id": {"cli"}, "device_code": {device}}, pairs...), nil)
}

// person does what the page does with a user's input.
func (s *server) person(t testing.TB, session, typed string, say func(r *http.Request, b *browser.Login, code string) error) (*client.Client, []string, error) {
	t.Helper()
	r := s.withBrowser(request(t, http.MethodPost, s.URL, "", map[string]string{browserHeader: session}))
	b, err := s.oauth.logins.Of(r)
	if err != nil || b == nil {
		t.Fatal("nobody is logged in", err)
	}
	code, c, scopes, err := s.oauth.devices.TryUserCode(b, typed)
	if err == nil && say != nil {
		err = say(r, b, code)
	}
	return c, scopes, err
}

func (s *server) approve(r *http.Request, b *browser.Login, code string) error {
	return s.oauth.devices.Approve(r, b, code)
}

func (s *server) deny(r *http.Request, b *browser.Login, code string) error {
	return s.oauth.devices.Deny(r.Context(), b, code)
}

// T8628-1, T8628-2, T8628-5, T8628-7, S58, U38: a device begins without a write, and gets tokens once a user has approved it.
func TestDeviceIsLetIn(t *testing.T) {
	f := newReplicas(t, 2, nil)
	s := f.servers[0]
	before := f.written()
	r := s.begin(t, url.Values{"client_id": {"cli"}, "scope": {"openid email"}})
	uncached(t, r)
	device, user := r.str("device_code"), r.str("user_code")
	if r.code != http.StatusOK || r.body["expires_in"] != float64(600) || r.body["interval"] != float64(5) ||
		r.str("verification_uri") != issuerURL+"/oauth/device" ||
		r.str("verification_uri_complete") != issuerURL+"/oauth/device?user_code="+user || len(strings.ReplaceAll(user, "-", "")) != 12 {
		t.Fatalf("%d %s", r.code, r.text)
	}
	if len(device) < 43 || strings.Contains(device, user) || f.written() != before {
		t.Error("the device code is short, or something was written")
	}
	wants{400, "authorization_pending"}.check(t, s.poll(t, device))
	b := s.browser(t, "alice")
	before = f.written()
	c, scopes, err := s.person(t, b, strings.ToLower(strings.ReplaceAll(user, "-", " ")), nil)
	if err != nil || c.Name != "cli" || !slices.Equal(scopes, []string{"openid", "profile", "email", "api"}) || f.written() != before {
		t.Fatalf("%v %v %v", c, scopes, err)
	}
	if _, _, err = s.person(t, b, user, s.approve); err != nil {
		t.Fatal(err)
	}
	f.clock.Step(deviceflow.PollInterval)
	wants{400, "invalid_grant"}.check(t, s.poll(t, device, "client_id", "spa"))
	got := f.servers[1].poll(t, device)
	if got.code != http.StatusOK || got.str("scope") != "openid email" || got.str("refresh_token") == "" || payload(t, got.str("id_token"))["sub"] != "uid-alice" {
		t.Fatalf("%d %s", got.code, got.text)
	}
	full := s.post(t, url.Values{"grant_type": {"refresh_token"}, "client_id": {"cli"}, "refresh_token": {got.str("refresh_token")}}, nil)
	if full.str("scope") != "openid email" { // T6749-22
		t.Errorf("a refresh gets more than the device asked for: %s", full.text)
	}
	f.clock.Step(deviceflow.PollInterval)
	wants{400, "invalid_grant"}.check(t, s.poll(t, device)) // single use, and reuse ends the login
	if code := s.userinfo(t, got.str("access_token")).code; code != http.StatusUnauthorized {
		t.Errorf("the session outlives the reuse: %d", code)
	}
}

// T8628-2, T8628-3, T6749-18, S32.
func TestDeviceIsRefused(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	for name, test := range map[string]struct {
		form url.Values
		want wants
	}{
		"unknown client":                        {url.Values{"client_id": {"nobody"}}, wants{400, "invalid_client"}},
		"no secret":                             {url.Values{"client_id": {"harbor"}}, wants{401, "invalid_client"}},
		"denied client":                         {url.Values{"client_id": {"denied"}, "client_secret": {"denied-secret"}}, wants{400, "access_denied"}},
		"unknown scope":                         {url.Values{"client_id": {"cli"}, "scope": {"root"}}, wants{400, "invalid_scope"}},
		"scope that is not listed for a device": {url.Values{"client_id": {"cli"}, "scope": {"groups"}}, wants{400, "invalid_scope"}},
	} {
		t.Run(name, func(t *testing.T) { test.want.check(t, s.begin(t, test.form)) })
	}
	device := s.begin(t, url.Values{"client_id": {"cli"}}).str("device_code")
	wants{400, "invalid_request"}.check(t, s.poll(t, ""))
	wants{400, "invalid_grant"}.check(t, s.poll(t, "garbage"))
	wants{400, "invalid_grant"}.check(t, s.post(t, spaRedeems(device), nil))
	wants{400, "invalid_grant"}.check(t, s.poll(t, s.code(t, s.browser(t, "alice"), spaAsks()), "client_id", "spa"))
	f.clock.Step(deviceflow.Life)
	wants{400, "expired_token"}.check(t, s.poll(t, device))
}

// T8628-3: a denial is final, and an answer is delivered once.
func TestDeviceIsDenied(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	b := s.browser(t, "alice")
	r := s.begin(t, url.Values{"client_id": {"cli"}})
	if _, _, err := s.person(t, b, r.str("user_code"), s.deny); err != nil {
		t.Fatal(err)
	}
	wants{400, "access_denied"}.check(t, s.poll(t, r.str("device_code")))
	if _, _, err := s.person(t, b, r.str("user_code"), s.approve); err == nil || !strings.Contains(err.Error(), "used already") {
		t.Error(err)
	}
}

// T8628-3: a device that polls too early waits five seconds longer, for this and all later polls.
func TestEarlyPollIsToldToSlowDown(t *testing.T) {
	f := newReplicas(t, 1, nil)
	device := f.servers[0].begin(t, url.Values{"client_id": {"cli"}}).str("device_code")
	wants{400, "authorization_pending"}.check(t, f.servers[0].poll(t, device))
	wants{400, "slow_down"}.check(t, f.servers[0].poll(t, device))
}

// T8628-4: wrong codes are limited by user, in all browsers of the user, and do not affect other users at the same address.
func TestWrongUserCodesAreLimited(t *testing.T) {
	f := newReplicas(t, 1, nil)
	_, hash := stand()
	f.user("bob", hash, iamapi.UserActive)
	s := f.servers[0]
	b, other, bob := s.browser(t, "alice"), s.browser(t, "alice"), s.browser(t, "bob")
	good := s.begin(t, url.Values{"client_id": {"cli"}}).str("user_code")
	for range deviceflow.GuessesAtOnce {
		if _, _, err := s.person(t, b, "BBBB-BBBB-BBBB", nil); err == nil || !strings.Contains(err.Error(), "no such code") {
			t.Fatal(err)
		}
	}
	for name, browser := range map[string]string{"the same browser": b, "another of the same person": other} {
		if _, _, err := s.person(t, browser, good, nil); err == nil || !strings.Contains(err.Error(), "Too many") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := s.person(t, bob, good, nil); err != nil {
		t.Error("another person", err)
	}
	f.clock.Step(deviceflow.GuessPause)
	if _, _, err := s.person(t, b, good, nil); err != nil {
		t.Error(err)
	}
}
