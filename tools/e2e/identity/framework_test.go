package identity

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// basic is the header of HTTP Basic, with both parts in their form encoding (RFC 6749, 2.3.1).
func basic(id, secret string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
}

// endpoints are those that take a form from a client.
var endpoints = []string{"/oauth/token", "/oauth/revoke", "/oauth/introspect", "/oauth/device_authorization"}

func TestClientsProveThemselves(t *testing.T) {
	rule(t, "T6749-1", "T6749-3", "T6749-18")
	odd := newClient(t, client{ID: "odd +:%/client", Secret: "s%3A:+ &=é;a long one"})
	machine := values("grant_type", "client_credentials")
	for name, c := range map[string]struct {
		form    url.Values
		headers []string
		status  int
		failed  string
	}{
		"ByBasicWithEncodedParts": {form: machine, headers: []string{basic(odd.ID, odd.Secret)}, status: 200},
		"ByBasicWithItsNameInTheFormToo": {form: values("grant_type", "client_credentials", "client_id", odd.ID), headers: []string{basic(odd.ID, odd.Secret)},
			status: 200},
		"ByTheForm":          {form: odd.form("grant_type", "client_credentials"), status: 200},
		"TheSchemeHasNoCase": {form: machine, headers: []string{strings.Replace(basic(odd.ID, odd.Secret), "Basic", "bAsIc", 1)}, status: 200},
		"NotByBothWays": {form: odd.form("grant_type", "client_credentials"), headers: []string{basic(odd.ID, odd.Secret)}, status: 400,
			failed: "invalid_request"},
		"NotAsTwoClients": {form: values("grant_type", "client_credentials", "client_id", harbor.ID), headers: []string{basic(odd.ID, odd.Secret)},
			status: 400, failed: "invalid_request"},
		"NotByTwoHeaders": {form: machine, headers: []string{basic(odd.ID, odd.Secret), basic(harbor.ID, harbor.Secret)}, status: 400,
			failed: "invalid_request"},
		"AWrongSecretByBasic":              {form: machine, headers: []string{basic(odd.ID, "wrong")}, status: 401, failed: "invalid_client"},
		"AnUnknownClientByBasic":           {form: machine, headers: []string{basic("nobody", "x")}, status: 401, failed: "invalid_client"},
		"NoSecretByBasic":                  {form: machine, headers: []string{basic(odd.ID, "")}, status: 401, failed: "invalid_client"},
		"APublicClientHasNoSecretForBasic": {form: machine, headers: []string{basic(desk.ID, "")}, status: 401, failed: "invalid_client"},
		"GarbageByBasic":                   {form: machine, headers: []string{"Authorization: Basic !!!"}, status: 401, failed: "invalid_client"},
		"AWrongSecretByTheForm": {form: values("grant_type", "client_credentials", "client_id", odd.ID, "client_secret", "wrong"), status: 401,
			failed: "unauthorized_client"},
		"NoSecret":        {form: values("grant_type", "client_credentials", "client_id", odd.ID), status: 401, failed: "invalid_client"},
		"NoClient":        {form: machine, status: 400, failed: "invalid_client"},
		"AnUnknownClient": {form: values("grant_type", "client_credentials", "client_id", "nobody"), status: 400, failed: "invalid_client"},
		"AnothersSecret": {form: values("grant_type", "client_credentials", "client_id", odd.ID, "client_secret", harbor.Secret), status: 401,
			failed: "unauthorized_client"},
		"ABearerTokenIsNoProofAndNoHarm": {form: odd.form("grant_type", "client_credentials"), headers: []string{"Authorization: Bearer x"}, status: 200},
		"AnAssertionIsNoProof": {form: values("grant_type", "client_credentials", "client_id", odd.ID, "client_assertion", "x", "client_assertion_type",
			"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"), status: 401, failed: "invalid_client"},
		"ASecretForAPublicClientIsWrongToo": {form: values("grant_type", "refresh_token", "refresh_token", "x", "client_id", desk.ID, "client_secret", "x"),
			status: 401, failed: "unauthorized_client"},
		"APublicClientSaysWhoItIs":           {form: desk.form("grant_type", "refresh_token", "refresh_token", "x"), status: 400, failed: "invalid_grant"},
		"APublicClientThatSaysNothingIsNone": {form: values("grant_type", "refresh_token", "refresh_token", "x"), status: 400, failed: "invalid_client"},
	} {
		t.Run(name, func(t *testing.T) {
			before := stored(t)
			a := call(t, http.MethodPost, issuer+"/oauth/token", c.form, c.headers...)
			if a.is(t, c.status); c.status != http.StatusOK {
				a.fails(t, c.status, c.failed)
				if got := added(t, before, "sessions"); got != nil {
					t.Errorf("stored %v", got)
				}
			}
			if got := a.header.Get("WWW-Authenticate"); (c.status == http.StatusUnauthorized) != strings.HasPrefix(got, "Basic realm=") {
				t.Errorf("%d with the challenge %q", c.status, got)
			}
		})
	}
}

func TestNoSecretStandsInTheURL(t *testing.T) {
	rule(t, "T6749-2")
	secrets := map[string]string{"client_secret": harbor.Secret, "password": password, "refresh_token": "x", "code": "x", "code_verifier": "x", "token": "x"}
	for _, path := range endpoints {
		for name, value := range secrets {
			storesNothing(t, func() {
				call(
					t,
					http.MethodPost,
					issuer+path+"?"+values(name, value).Encode(),
					harbor.form("grant_type", "client_credentials", "token", "x"),
				).fails(t, http.StatusBadRequest, "invalid_request")
			})
		}
		// All of it in the URL is no request at all.
		storesNothing(t, func() {
			call(
				t,
				http.MethodPost,
				issuer+path+"?"+harbor.form("grant_type", "client_credentials").Encode(),
				url.Values{},
			).fails(t, http.StatusBadRequest, "invalid_request")
		})
	}
	logIsClean(t, harbor.Secret, password)
}

func TestGuessingClientSecretsIsSlowedDown(t *testing.T) {
	rule(t, "T6749-2")
	c := newClient(t, client{ID: "guessed", Secret: random()})
	guess := values("grant_type", "client_credentials", "client_id", c.ID, "client_secret", "wrong")
	// Many at once: 100 may be, and 10 more with each second, which a slow machine might not exceed one after the other.
	begin, n := time.Now(), 0
	for ; float64(n) <= 100+10*time.Since(begin).Seconds(); n += guessers {
		answers := make(chan answer, guessers)
		var all sync.WaitGroup
		for range guessers {
			all.Go(func() {
				a, err := try(t.Context(), http.MethodPost, issuer+"/oauth/token", guess)
				if err != nil {
					t.Error(err)
				}
				answers <- a
			})
		}
		all.Wait()
		close(answers)
		slowed := false
		for a := range answers {
			if a.status != http.StatusTooManyRequests {
				a.fails(t, http.StatusUnauthorized, "unauthorized_client")
			} else if slowed = true; a.header.Get("Retry-After") == "" {
				t.Error("nobody is told when to try again")
			}
		}
		if t.Failed() {
			t.Fatalf("after %d guesses", n)
		}
		if slowed {
			// Who has the right one is not slowed down, nor are other clients.
			c.token(t, "grant_type", "none").fails(t, http.StatusBadRequest, "unsupported_grant_type")
			harbor.token(t, "grant_type", "none").fails(t, http.StatusBadRequest, "unsupported_grant_type")
			return
		}
	}
	t.Errorf("%d guesses in %v were not slowed down", n, time.Since(begin))
}

// guessers is how many guess at once.
const guessers = 16

func TestParameters(t *testing.T) {
	rule(t, "T6749-4")
	machine := harbor.form("grant_type", "client_credentials")
	with := func(more string) string { return machine.Encode() + "&" + more }
	for name, c := range map[string]struct {
		body   string
		failed string
	}{
		"AnUnknownOneIsIgnored":            {body: with("no_such=x&" + url.QueryEscape("ü") + "=1")},
		"AnEmptyOneIsOmitted":              {body: with("scope=&refresh_token=&code_verifier=")},
		"AnEmptyOneThatIsNeededIsMissing":  {body: harbor.form("grant_type", "").Encode(), failed: "invalid_request"},
		"ADuplicateIsRefused":              {body: with("grant_type=client_credentials"), failed: "invalid_request"},
		"ADuplicateOfAnUnknownOneIsToo":    {body: with("x=1&x=2"), failed: "invalid_request"},
		"ADuplicateClientIsRefused":        {body: with("client_id=" + harbor.ID), failed: "invalid_request"},
		"ABrokenFormIsRefused":             {body: with("a=%zz"), failed: "invalid_request"},
		"ASemicolonIsNoSeparator":          {body: with("a=1;b=2"), failed: "invalid_request"},
		"AMissingGrantTypeIsMissing":       {body: harbor.form().Encode(), failed: "invalid_request"},
		"ANamelessParameterIsAnUnknownOne": {body: with("=x")},
	} {
		t.Run(name, func(t *testing.T) {
			before := stored(t)
			a := call(t, http.MethodPost, issuer+"/oauth/token", c.body)
			if c.failed == "" {
				a.tokens(t)
				return
			}
			a.fails(t, http.StatusBadRequest, c.failed)
			if got := added(t, before, "sessions"); got != nil {
				t.Errorf("stored %v", got)
			}
		})
	}
	t.Run("AtTheAuthorizationEndpoint", func(t *testing.T) {
		b := here(t)
		q := harbor.ask("no_such", "x")
		q.code(t, b)
		q.refused(t, b.open(t, q.address()+"&scope=openid"), "invalid_request")
		q.refused(t, b.open(t, q.address()+"&no_such=y"), "invalid_request")
		for _, twice := range []string{"&client_id=" + harbor.ID, "&redirect_uri=" + url.QueryEscape(harbor.RedirectURIs[0])} {
			b.open(t, q.address()+twice).shows(t, http.StatusBadRequest, "")
		}
		// An empty state is none.
		p := b.open(t, harbor.ask("state", "").address()+"&state=&prompt=&max_age=")
		if got := p.leads(t, harbor.RedirectURIs[0]); got.Get("code") == "" || got.Has("state") {
			t.Errorf("answered %v", got)
		}
	})
}

func TestTheTokenEndpointIsForPosts(t *testing.T) {
	rule(t, "T6749-9")
	query := "?" + values("grant_type", "client_credentials", "client_id", harbor.ID).Encode()
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		storesNothing(t, func() {
			a := call(t, method, issuer+"/oauth/token"+query, harbor.form("grant_type", "client_credentials"))
			if a.status != http.StatusMethodNotAllowed && (method == http.MethodGet || a.status < 400) {
				t.Errorf("%s: %d %s", method, a.status, clip(a.body))
			}
		})
	}
	for _, kind := range []string{"application/json", "multipart/form-data; boundary=x", "text/plain", ""} {
		storesNothing(t, func() {
			call(
				t,
				http.MethodPost,
				issuer+"/oauth/token",
				harbor.form("grant_type", "client_credentials"),
				"Content-Type: "+kind,
			).fails(t, http.StatusUnsupportedMediaType, "invalid_request")
		})
	}
}

func TestScopesAreTold(t *testing.T) {
	rule(t, "T6749-10")
	b := here(t)
	narrow := newClient(t, client{ID: "narrow", Secret: random(), ScopeRestrictions: []string{"openid", "email"}})
	for name, c := range map[string]struct {
		client       client
		asked, given string
	}{
		"AllOfIt":                {harbor, "openid profile email groups offline_access", "openid profile email groups offline_access"},
		"TheDefaultIsTold":       {harbor, "", "openid profile email"},
		"UnknownOnesAreLeftOut":  {harbor, "openid no_such", "openid"},
		"TheClientsBoundsHold":   {narrow, "openid profile email", "openid email"},
		"TheDefaultIsWithinThem": {narrow, "", "openid email"},
		"TheAPIByName":           {harbor, "openid api", "openid api"},
		"TwiceIsOnce":            {harbor, "openid openid", "openid"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.client.ask("scope", c.asked).tokens(t, b); got.Scope != c.given {
				t.Errorf("granted %q, want %q", got.Scope, c.given)
			} else if _, payload := claims(t, got.Access); payload["scope"] != c.given {
				t.Errorf("the token says %v", payload["scope"])
			}
		})
	}
	for _, scope := range []string{"no_such", "profile groups", "open\"id", "ópenid"} {
		who := harbor
		if scope == "profile groups" {
			who = narrow
		}
		q := who.ask("scope", scope)
		storesNothing(t, func() { q.refused(t, b.open(t, q.address()), "invalid_scope") })
	}
	storesNothing(t, func() {
		harbor.token(t, "grant_type", "client_credentials", "scope", "no_such").fails(t, 400, "invalid_scope")
	})
}

func TestAnswersWithTokensAreNeverStored(t *testing.T) {
	rule(t, "T6749-20")
	got := harbor.ask().tokens(t, here(t))
	if got.Type != "Bearer" || got.ExpiresIn <= 0 || got.Refresh == "" {
		t.Errorf("token_type %q, expires_in %d", got.Type, got.ExpiresIn)
	}
	for name, a := range map[string]answer{
		"Success":        harbor.refresh(t, got.Refresh),
		"BadGrant":       harbor.refresh(t, "x"),
		"BadClient":      call(t, http.MethodPost, issuer+"/oauth/token", values("client_id", "nobody")),
		"BadSecret":      call(t, http.MethodPost, issuer+"/oauth/token", url.Values{}, basic(harbor.ID, "wrong")),
		"BadType":        call(t, http.MethodPost, issuer+"/oauth/token", "{}", "Content-Type: application/json"),
		"TooLong":        call(t, http.MethodPost, issuer+"/oauth/token", strings.Repeat("a", 70<<10)),
		"Device":         harbor.device(t),
		"Introspection":  harbor.introspect(t, got.Access),
		"Revocation":     harbor.revoke(t, "x"),
		"UserInfo":       get(t, "/oauth/userinfo", got.Access),
		"NoUserInfo":     get(t, "/oauth/userinfo", "x"),
		"Callback":       get(t, "/oauth/callback/nobody?code=x", ""),
		"CallbackAsPage": get(t, "/oauth/callback/nobody?code=x&state=y", "", "Accept: text/html"),
		"Authorization":  get(t, strings.TrimPrefix(harbor.ask().address(), issuer), ""),
		"TokenReview":    call(t, http.MethodPost, issuer+"/oauth/authenticate", `{"spec":{"token":"x"}}`, "Content-Type: application/json"),
	} {
		if a.header.Get("Cache-Control") != "no-store" || a.header.Get("Pragma") != "no-cache" {
			t.Errorf("%s: %d may be stored: %v", name, a.status, a.header)
		}
	}
}

func TestErrorsHaveTheirCodes(t *testing.T) {
	rule(t, "T6749-21")
	for name, c := range map[string]struct {
		answer answer
		status int
		failed string
	}{
		"invalid_request":        {harbor.token(t, "grant_type", "authorization_code"), 400, "invalid_request"},
		"invalid_client":         {call(t, http.MethodPost, issuer+"/oauth/token", url.Values{}, basic(harbor.ID, "wrong")), 401, "invalid_client"},
		"invalid_grant":          {harbor.token(t, "grant_type", "authorization_code", "code", "x"), 400, "invalid_grant"},
		"unauthorized_client":    {desk.token(t, "grant_type", "client_credentials"), 400, "unauthorized_client"},
		"unsupported_grant_type": {harbor.token(t, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion", "x"), 400, "unsupported_grant_type"},
		"invalid_scope":          {harbor.token(t, "grant_type", "client_credentials", "scope", "no_such"), 400, "invalid_scope"},
	} {
		a := c.answer.fails(t, c.status, c.failed)
		if got := a.header.Get("Content-Type"); !strings.HasPrefix(got, "application/json") {
			t.Errorf("%s is of type %q", name, got)
		}
		for _, r := range a.field("error_description") { // RFC 6749, 5.2
			if r < ' ' || r > '~' || r == '"' || r == '\\' {
				t.Errorf("%s: the description has %q", name, r)
			}
		}
		if challenge := a.header.Get("WWW-Authenticate"); (c.status == 401) != (challenge != "") {
			t.Errorf("%s: challenge %q", name, challenge)
		}
	}
}

func TestClientsActForThemselves(t *testing.T) {
	rule(t, "T6749-19")
	got := harbor.token(t, "grant_type", "client_credentials").tokens(t)
	if got.Refresh != "" || got.ID != "" {
		t.Errorf("a client has a refresh token (%v) or an ID token (%v)", got.Refresh != "", got.ID != "")
	}
	alive(t, got.Access)
	storesNothing(t, func() {
		desk.token(t, "grant_type", "client_credentials").fails(t, 400, "unauthorized_client")
		harbor.token(t, "grant_type", "client_credentials", "scope", "openid").fails(t, 400, "invalid_scope")
		harbor.refresh(t, got.Access).fails(t, 400, "invalid_grant")
	})
}

func TestThePasswordGrantIsForTheConsole(t *testing.T) {
	rule(t, "T6749-23")
	grant := []string{"grant_type", "password", "username", bob, "password", password}
	for _, c := range []client{harbor, asking, desk} {
		storesNothing(t, func() { c.token(t, grant...).fails(t, 400, "unsupported_grant_type") })
	}
	storesNothing(t, func() { refused.token(t, grant...).fails(t, 400, "unauthorized_client") })
	alive(t, console.token(t, grant...).tokens(t).Access)
	t.Run("GuessingIsLimited", func(t *testing.T) {
		name := newUser(t, "guessed")
		tries := 0
		storesNothing(t, func() {
			for status := 400; status == 400; tries++ {
				if tries > 20 {
					t.Fatal("20 wrong passwords were tried")
				}
				status = console.token(t, "grant_type", "password", "username", name, "password", fmt.Sprintf("Wrong-%d", tries)).status
			}
			console.token(t, "grant_type", "password", "username", name, "password", password).fails(t, 429, "invalid_grant")
		})
		alive(t, passwordLogin(t, bob).Access) // nobody else is locked out
	})
}

func TestRefreshTokensAreBound(t *testing.T) {
	rule(t, "T6749-22")
	b := here(t)
	got := harbor.ask("scope", "openid profile groups").tokens(t, b)
	theirs := desk.ask().tokens(t, b)
	storesNothing(t, func() {
		portal.refresh(t, got.Refresh).fails(t, 400, "invalid_grant")
		desk.refresh(t, got.Refresh).fails(t, 400, "invalid_grant")
		harbor.refresh(t, theirs.Refresh).fails(t, 400, "invalid_grant")
		client{ID: harbor.ID}.refresh(t, got.Refresh).fails(t, 401, "invalid_client")
		harbor.refresh(t, got.Refresh, "scope", "openid email").fails(t, 400, "invalid_scope")
		harbor.refresh(t, got.Refresh, "scope", "openid profile groups offline_access").fails(t, 400, "invalid_scope")
	})
	narrow := harbor.refresh(t, got.Refresh, "scope", "openid").tokens(t)
	if narrow.Scope != "openid" {
		t.Errorf("narrowed to %q", narrow.Scope)
	}
	if all := harbor.refresh(t, narrow.Refresh).tokens(t); all.Scope != "openid profile groups" {
		t.Errorf("the next has %q", all.Scope)
	}
	if next := desk.refresh(t, theirs.Refresh).tokens(t); next.Scope != theirs.Scope {
		t.Errorf("a public client's next has %q", next.Scope)
	}
}
