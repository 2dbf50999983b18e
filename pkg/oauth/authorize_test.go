package oauth

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

const verifier = "dBjftJeZ4CVP-mBVVp8v1Kw8N4rV8Kx0x0x0x0x0x0x"

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// harborAsks is an authorization request of a client with a secret, and spaAsks one of a client without.
func harborAsks(pairs ...string) url.Values {
	return with(url.Values{"response_type": {"code"}, "client_id": {"harbor"}, "redirect_uri": {harborURI}, "scope": {"openid profile"}, "state": {"s"}}, pairs...)
}

func spaAsks(pairs ...string) url.Values {
	return with(url.Values{"response_type": {"code"}, "client_id": {"spa"}, "redirect_uri": {"https://spa.example/cb"}, "scope": {"openid"}, "state": {"s"},
		"code_challenge": {challenge()}, "code_challenge_method": {"S256"}}, pairs...)
}

// with returns a copy of a form with other values; "" leaves one out.
func with(form url.Values, pairs ...string) url.Values {
	form = maps.Clone(form)
	for i := 0; i < len(pairs); i += 2 {
		if form.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			form.Del(pairs[i])
		}
	}
	return form
}

// authorize sends an authorization request from a browser; with "" no user is logged in.
func (s *server) authorize(t testing.TB, browser string, q url.Values) reply {
	t.Helper()
	return do(t, request(t, http.MethodGet, s.URL+"/oauth/authorize?"+q.Encode(), "", map[string]string{browserHeader: browser}))
}

// sentTo returns the parameters of a redirect to a URI.
func (r reply) sentTo(t testing.TB, uri string) url.Values {
	t.Helper()
	location := r.header.Get("Location")
	if r.code != http.StatusFound && r.code != http.StatusSeeOther || !strings.HasPrefix(location, uri) {
		t.Fatalf("%d to %q, want %s: %s", r.code, location, uri, r.text)
	}
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	if q := u.Query(); q.Get("iss") != issuerURL { // T9207-1
		t.Errorf("iss is %q", q.Get("iss"))
	}
	return u.Query()
}

func (s *server) code(t testing.TB, browser string, q url.Values) string {
	t.Helper()
	got := s.authorize(t, browser, q).sentTo(t, q.Get("redirect_uri"))
	if got.Get("code") == "" {
		t.Fatalf("no code: %v", got)
	}
	return got.Get("code")
}

// T6749-5, T6749-7, T6749-11, T9207-1, T9700-12, TCore-3: the redirect has a code, the query of the registered URI, and
// the state unchanged.
func TestAuthorizeAnswersWithACode(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	b := s.browser(t, "alice")
	before := f.written()
	for name, state := range map[string]string{"plain": "s", "binary": "\x00\xff\xfe&=#?\r\n", "Unicode": "zustand-状態",
		"long": strings.Repeat("x", protocol.MaxState), "none": ""} {
		t.Run(name, func(t *testing.T) {
			q := harborAsks("state", state, "unknown", "1", "display", "page", "ui_locales", "de", "claims_locales", "de", "acr_values", "1") // TCore-6
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				address, body := s.URL+"/oauth/authorize?"+q.Encode(), ""
				if method == http.MethodPost {
					address, body = s.URL+"/oauth/authorize", q.Encode()
				}
				r := do(t, request(t, method, address, body, map[string]string{browserHeader: b}))
				got := r.sentTo(t, harborURI+"&code=")
				if got.Get("state") != state || got.Get("tenant") != "a" || got.Get("code") == "" || len(got["code"]) != 1 {
					t.Errorf("%v", got)
				}
				if want := map[string]int{http.MethodGet: http.StatusFound, http.MethodPost: http.StatusSeeOther}[method]; r.code != want {
					t.Errorf("%s: %d", method, r.code)
				}
				if r.header.Get("Cache-Control") != "no-store" || r.header.Get("Referrer-Policy") != "no-referrer" {
					t.Errorf("headers %v", r.header)
				}
			}
		})
	}
	if f.written() != before {
		t.Error("a code was written down")
	}
}

// T6749-8, T9700-1, T9700-2, S39, S40: with an invalid client or redirect URI the browser is not redirected.
func TestAuthorizeSendsNobodyToWhatIsNotRegistered(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	b := s.browser(t, "alice")
	for name, test := range map[string]struct {
		q     url.Values
		error string
	}{
		"unknown client":                {harborAsks("client_id", "nobody"), protocol.InvalidClient},
		"no client":                     {harborAsks("client_id", ""), protocol.InvalidClient},
		"client twice":                  {url.Values{"client_id": {"harbor", "harbor"}}, protocol.InvalidRequest},
		"URI twice":                     {url.Values{"client_id": {"harbor"}, "redirect_uri": {harborURI, harborURI}}, protocol.InvalidRequest},
		"none of two given":             {harborAsks("client_id", "argo", "redirect_uri", ""), protocol.InvalidRequest},
		"none registered":               {harborAsks("client_id", "kubesphere", "redirect_uri", "https://x.example"), protocol.InvalidRequest},
		"that of another client":        {harborAsks("redirect_uri", "https://spa.example/cb"), protocol.InvalidRequest},
		"query left out":                {harborAsks("redirect_uri", "https://harbor.example/c/oidc/callback"), protocol.InvalidRequest},
		"query added":                   {harborAsks("redirect_uri", harborURI+"&x=1"), protocol.InvalidRequest},
		"path added":                    {spaAsks("redirect_uri", "https://spa.example/cb/x"), protocol.InvalidRequest},
		"slash added":                   {spaAsks("redirect_uri", "https://spa.example/cb/"), protocol.InvalidRequest},
		"path up":                       {spaAsks("redirect_uri", "https://spa.example/x/../cb"), protocol.InvalidRequest},
		"case":                          {spaAsks("redirect_uri", "https://SPA.example/cb"), protocol.InvalidRequest},
		"port":                          {spaAsks("redirect_uri", "https://spa.example:8443/cb"), protocol.InvalidRequest},
		"default port":                  {spaAsks("redirect_uri", "https://spa.example:443/cb"), protocol.InvalidRequest},
		"user":                          {spaAsks("redirect_uri", "https://spa.example@evil.example/cb"), protocol.InvalidRequest},
		"backslash":                     {spaAsks("redirect_uri", `https://evil.example\@spa.example/cb`), protocol.InvalidRequest},
		"sub-domain":                    {spaAsks("redirect_uri", "https://spa.example.evil.example/cb"), protocol.InvalidRequest},
		"fragment":                      {spaAsks("redirect_uri", "https://spa.example/cb#x"), protocol.InvalidRequest},
		"line end (T6749-24)":           {spaAsks("redirect_uri", "https://spa.example/cb\r\nX: y"), protocol.InvalidRequest},
		"javascript":                    {spaAsks("redirect_uri", "javascript:alert(1)"), protocol.InvalidRequest},
		"data":                          {spaAsks("redirect_uri", "data:text/html,x"), protocol.InvalidRequest},
		"http instead of https":         {spaAsks("redirect_uri", "http://spa.example/cb"), protocol.InvalidRequest},
		"loopback, user":                {spaAsks("redirect_uri", "http://127.0.0.1:80@evil.example/cb"), protocol.InvalidRequest},
		"loopback, sub-domain":          {spaAsks("redirect_uri", "http://127.0.0.1.evil.example/cb"), protocol.InvalidRequest},
		"loopback, path":                {spaAsks("redirect_uri", "http://127.0.0.1:8000/cb2"), protocol.InvalidRequest},
		"loopback, other name":          {spaAsks("redirect_uri", "http://localhost:8000/cb"), protocol.InvalidRequest},
		"loopback, no port":             {spaAsks("redirect_uri", "http://127.0.0.1:/cb"), protocol.InvalidRequest},
		"loopback, long port":           {spaAsks("redirect_uri", "http://127.0.0.1:808080/cb"), protocol.InvalidRequest},
		"loopback, query":               {spaAsks("redirect_uri", "http://127.0.0.1:8000/cb?x"), protocol.InvalidRequest},
		"loopback, https":               {spaAsks("redirect_uri", "https://127.0.0.1:8000/cb"), protocol.InvalidRequest},
		"loopback not registered":       {harborAsks("redirect_uri", "http://127.0.0.1:8000/cb"), protocol.InvalidRequest},
		"query that is not well-formed": {nil, protocol.InvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			query := test.q.Encode()
			if test.q == nil {
				query = "client_id=harbor&redirect_uri=%zz"
			}
			r := do(t, request(t, http.MethodGet, s.URL+"/oauth/authorize?"+query, "", map[string]string{browserHeader: b}))
			if r.code != http.StatusBadRequest || r.header.Get("Location") != "" || r.str("error") != test.error {
				t.Errorf("%d %v %s", r.code, r.header, r.text)
			}
		})
	}
}

// RFC 8252, 7.3 and 7.1; T9700-1: redirect URIs of native applications.
func TestAuthorizeLetsTheLoopbackPortVary(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	b := s.browser(t, "alice")
	for _, uri := range []string{"http://127.0.0.1/cb", "http://127.0.0.1:1/cb", "http://127.0.0.1:51004/cb", "com.example.app:/cb", "https://spa.example/cb"} {
		if got := s.authorize(t, b, spaAsks("redirect_uri", uri)).sentTo(t, uri+"?"); got.Get("code") == "" {
			t.Errorf("%s: %v", uri, got)
		}
	}
	if got := s.authorize(t, b, harborAsks("redirect_uri", "")).sentTo(t, harborURI); got.Get("code") == "" { // the only one registered
		t.Errorf("%v", got)
	}
}

// T6749-6, T6749-10, T7636-3, T7636-4, T9700-5, T9700-6, TCore-4, TCore-5: other errors of the request are sent to the client.
func TestAuthorizeTellsTheClientWhatIsWrong(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	b := s.browser(t, "alice")
	for name, test := range map[string]struct {
		q     url.Values
		error string
	}{
		"no response_type":            {harborAsks("response_type", ""), "invalid_request"},
		"token":                       {harborAsks("response_type", "token"), "unsupported_response_type"},
		"id_token":                    {harborAsks("response_type", "id_token", "nonce", ""), "unsupported_response_type"}, // TCore-8: nothing in the front channel
		"hybrid":                      {harborAsks("response_type", "code id_token"), "unsupported_response_type"},
		"fragment":                    {harborAsks("response_mode", "fragment"), "invalid_request"},
		"form_post":                   {harborAsks("response_mode", "form_post"), "invalid_request"},
		"request":                     {harborAsks("request", "e30."), "request_not_supported"},
		"resource of another":         {harborAsks("resource", "https://x.example"), "invalid_target"},
		"request_uri":                 {harborAsks("request_uri", s.URL+"/oauth/logout"), "request_uri_not_supported"},
		"registration":                {harborAsks("registration", "{}"), "registration_not_supported"},
		"public without a challenge":  {spaAsks("code_challenge", "", "code_challenge_method", ""), "invalid_request"},
		"plain":                       {spaAsks("code_challenge_method", "plain"), "invalid_request"},
		"no method, which is plain":   {spaAsks("code_challenge_method", ""), "invalid_request"},
		"method without a challenge":  {harborAsks("code_challenge_method", "S256"), "invalid_request"},
		"short challenge":             {spaAsks("code_challenge", challenge()[:42]), "invalid_request"},
		"challenge of other letters":  {spaAsks("code_challenge", strings.Repeat("+", 43)), "invalid_request"},
		"no scope that exists":        {harborAsks("scope", "root"), "invalid_scope"},
		"scope that is not for it":    {harborAsks("client_id", "argo", "redirect_uri", "https://argo.example/cb", "scope", "email"), "invalid_scope"},
		"scope with quotes":           {harborAsks("scope", `openid "`), "invalid_scope"},
		"prompt none and login":       {harborAsks("prompt", "none login"), "invalid_request"},
		"max_age of letters":          {harborAsks("max_age", "x"), "invalid_request"},
		"max_age below 0":             {harborAsks("max_age", "-1"), "invalid_request"},
		"hint that is not ours":       {harborAsks("id_token_hint", "x.y.z"), "invalid_request"},
		"long nonce":                  {harborAsks("nonce", strings.Repeat("n", protocol.MaxNonce+1)), "invalid_request"},
		"nonce that is no text":       {harborAsks("nonce", "\xff"), "invalid_request"},
		"grantMethod deny":            {harborAsks("client_id", "denied", "redirect_uri", "https://denied.example/cb"), "access_denied"},
		"consent with prompt none":    {harborAsks("client_id", "argo", "redirect_uri", "https://argo.example/cb", "prompt", "none"), "consent_required"},
		"re-authentication with none": {harborAsks("prompt", "none", "max_age", "0"), "login_required"},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.authorize(t, b, test.q).sentTo(t, test.q.Get("redirect_uri"))
			if got.Get("error") != test.error || got.Get("error_description") == "" || got.Get("state") != "s" || got.Get("code") != "" {
				t.Errorf("%v, want %s", got, test.error)
			}
		})
	}
	twice := harborAsks()
	twice.Add("scope", "openid")
	if got := s.authorize(t, b, twice).sentTo(t, harborURI); got.Get("error") != "invalid_request" { // T6749-4
		t.Errorf("%v", got)
	}
	if got := s.authorize(t, "", harborAsks("prompt", "none")).sentTo(t, harborURI); got.Get("error") != "login_required" || got.Get("tenant") != "a" {
		t.Errorf("%v", got)
	}
	if got := s.authorize(t, b, harborAsks("state", strings.Repeat("x", protocol.MaxState+1))).sentTo(t, harborURI); got.Get("error") != "invalid_request" ||
		got.Has("state") {
		t.Errorf("%v", got)
	}
}

// T6749-10: without a requested scope a client gets its default scopes, and the response names them.
func TestAuthorizeWithoutAScope(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	r := s.redeem(t, s.code(t, s.browser(t, "alice"), harborAsks("scope", "")), nil)
	if r.str("scope") != "openid profile email" {
		t.Errorf("%d %s", r.code, r.text)
	}
}

// T9700-11, S51: the authorization endpoint is for browsers that navigate to it, not for scripts.
func TestAuthorizeHasNoCORS(t *testing.T) {
	f := newReplicas(t, 1, nil)
	for _, method := range []string{http.MethodGet, http.MethodOptions} {
		r := do(t, request(t, method, f.servers[0].URL+"/oauth/authorize?"+spaAsks().Encode(), "",
			map[string]string{"Origin": "https://spa.example", "Access-Control-Request-Method": "GET"}))
		for name := range r.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: %s", method, name)
			}
		}
	}
}

// asked returns the page that the user sees, named by the error that it stands for.
func asked(r reply) string {
	switch {
	case strings.Contains(r.text, `name="password"`):
		return protocol.LoginRequired
	case strings.Contains(r.text, `value="allow"`):
		return "consent_required"
	}
	return r.str("error")
}

// TCore-4: prompt, max_age and id_token_hint. If the request wants a new login, only one after the request counts.
func TestAuthorizeAsksForWhatThePromptSays(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	_, hash := stand()
	f.user("bob", hash, iamapi.UserActive)
	b := s.browser(t, "alice")
	id := s.redeem(t, s.code(t, b, harborAsks()), nil).str("id_token")
	f.clock.Step(time.Hour)
	for name, test := range map[string]struct {
		browser string
		q       url.Values
		page    string // "" is a code at once
	}{
		"logged in":             {b, harborAsks(), ""},
		"nobody logged in":      {"", harborAsks(), "login_required"},
		"session that is over":  {"gone", harborAsks(), "login_required"},
		"login":                 {b, harborAsks("prompt", "login"), "login_required"},
		"select_account":        {b, harborAsks("prompt", "select_account"), "login_required"},
		"consent":               {b, harborAsks("prompt", "consent"), "consent_required"},
		"unknown prompt":        {b, harborAsks("prompt", "create"), ""},
		"max_age that is over":  {b, harborAsks("max_age", "3599"), "login_required"},
		"max_age that is not":   {b, harborAsks("max_age", "3600"), ""},
		"max_age 0":             {b, harborAsks("max_age", "0"), "login_required"},
		"the same person":       {b, harborAsks("id_token_hint", id), ""},
		"another person":        {s.browser(t, "bob"), harborAsks("id_token_hint", id), "login_required"},
		"client asks always":    {b, harborAsks("client_id", "argo", "redirect_uri", "https://argo.example/cb"), "consent_required"},
		"a hint of a name only": {b, harborAsks("login_hint", "bob"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.authorize(t, test.browser, test.q)
			if test.page == "" {
				if r.sentTo(t, test.q.Get("redirect_uri")).Get("code") == "" {
					t.Error(r.header.Get("Location"))
				}
			} else if asked(r) != test.page || r.header.Get("Location") != "" {
				t.Errorf("%d %s %s", r.code, r.header.Get("Location"), r.text)
			}
		})
	}
}

// pageOf returns the page that asks the user, named by the error that it stands for.
func pageOf(v any) string {
	if c, ok := v.(page.WithCookies); ok {
		v = c.Then
	}
	w, ok := v.(*page.Response)
	if !ok {
		return ""
	}
	switch w.Data.(type) {
	case page.Login:
		return protocol.LoginRequired
	case page.Consent:
		return "consent_required"
	}
	return "another"
}

func nameOf(err error) string {
	var e *protocol.Error
	if !errors.As(err, &e) {
		e = protocol.Failure(err)
	}
	return e.Name
}

// proceed resumes a request as a page does, in a browser.
func (s *server) proceed(t testing.TB, browser string, a *protocol.AuthorizationRequest) (any, error) {
	t.Helper()
	r := s.withBrowser(request(t, http.MethodPost, s.URL, "", map[string]string{browserHeader: browser}))
	b, err := s.oauth.logins.Of(r)
	if err != nil || b == nil {
		t.Fatal("nobody is logged in", err)
	}
	return s.oauth.authorize.Resume(r, b, a)
}

// TCore-4: after the page the request is resumed, once it has what it asked for.
func TestProceedGoesOnAfterThePages(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	_, hash := stand()
	f.user("bob", hash, iamapi.UserActive)
	old := s.browser(t, "alice")
	f.clock.Step(time.Minute + 300*time.Millisecond)
	ask := func(edit func(*protocol.AuthorizationRequest)) *protocol.AuthorizationRequest {
		a := &protocol.AuthorizationRequest{Client: "harbor", RedirectURI: harborURI, Scopes: []string{"openid"}, MaxAge: -1, At: f.clock.Now()}
		edit(a)
		return a
	}
	fresh, bob := s.browser(t, "alice"), s.browser(t, "bob")
	argo := func(a *protocol.AuthorizationRequest) { a.Client, a.RedirectURI = "argo", "https://argo.example/cb" }
	if err := s.sessions.Consent(t.Context(), fresh, "argo", []string{"openid"}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		browser string
		a       *protocol.AuthorizationRequest
		want    string // "code", the error of a redirect, or the page
	}{
		"login, logged in before": {old, ask(func(a *protocol.AuthorizationRequest) { a.Prompt = []string{"login"} }), "page login_required"},
		"login, logged in since":  {fresh, ask(func(a *protocol.AuthorizationRequest) { a.Prompt = []string{"login"} }), "code"},
		"select, stays":           {old, ask(func(a *protocol.AuthorizationRequest) { a.Prompt = []string{"select_account"} }), "code"},
		"max_age 0, before":       {old, ask(func(a *protocol.AuthorizationRequest) { a.MaxAge = 0 }), "page login_required"},
		"max_age 0, since":        {fresh, ask(func(a *protocol.AuthorizationRequest) { a.MaxAge = 0 }), "code"},
		"somebody else":           {bob, ask(func(a *protocol.AuthorizationRequest) { a.Subject = "uid-alice" }), "login_required"},
		"consent, not yet":        {old, ask(argo), "page consent_required"},
		"consent, given":          {fresh, ask(argo), "code"},
		"consent, for less": {fresh, ask(func(a *protocol.AuthorizationRequest) { argo(a); a.Scopes = []string{"openid", "groups"} }),
			"page consent_required"},
		"consent asked for again":     {fresh, ask(func(a *protocol.AuthorizationRequest) { argo(a); a.Prompt = []string{"consent"} }), "page consent_required"},
		"consent asked for and given": {fresh, ask(func(a *protocol.AuthorizationRequest) { argo(a); a.Prompt = []string{"consent"}; a.Agreed = fresh }), "code"},
		"consent given by another":    {old, ask(func(a *protocol.AuthorizationRequest) { argo(a); a.Agreed = fresh }), "page consent_required"},
		"client that is gone":         {fresh, ask(func(a *protocol.AuthorizationRequest) { a.Client = "gone" }), "page invalid_client"},
		"URI that is gone":            {fresh, ask(func(a *protocol.AuthorizationRequest) { a.RedirectURI = "https://evil.example" }), "page invalid_request"},
		"device":                      {fresh, ask(func(a *protocol.AuthorizationRequest) { a.UserCode = "BCDF" }), "device"},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			switch v, err := s.proceed(t, test.browser, test.a); {
			case err != nil:
				got = "page " + nameOf(err)
			case pageOf(v) != "":
				got = "page " + pageOf(v)
			case strings.HasPrefix(string(v.(protocol.Redirect)), "/base/oauth/device?user_code=BCDF"):
				got = "device"
			default:
				u, _ := url.Parse(string(v.(protocol.Redirect)))
				if got = u.Query().Get("error"); got == "" && u.Query().Get("code") != "" {
					got = "code"
				}
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// U26: while kube-apiserver is down, users are not asked to log in again.
func TestAuthorizeSaysThatSessionsCanNotBeReached(t *testing.T) {
	f := newReplicas(t, 1, nil)
	f.setDown(true)
	wants{503, "temporarily_unavailable"}.check(t, f.servers[0].authorize(t, "not-known-here", harborAsks()))
}
