package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// S38: what somebody has begun in one browser is not finished in another, whatever is copied from there.
func TestALoginIsBoundToTheBrowserThatBeganIt(t *testing.T) {
	rule(t, "S38", "T6749-12")
	const own = "Sec-Fetch-Site: same-origin"
	modules(t, []module{
		{"TheLoginForm", func(t *testing.T) {
			one, two := newBrowser(t), newBrowser(t)
			q := harbor.ask()
			f := one.open(t, q.address()).form(t, url.Values{"username": {}}).fields
			f.Set("username", alice)
			f.Set("password", password)
			two.open(t, "/oauth/login") // it has cookies of its own
			storesNothing(t, func() {
				two.post(t, "/oauth/login", f, own).is(t, http.StatusForbidden)
				newBrowser(t).post(t, "/oauth/login", f, own).is(t, http.StatusForbidden)
			})
			q.landed(t, one.post(t, "/oauth/login", f, own))
		}},
		{"TheApproval", func(t *testing.T) {
			q := asking.ask("prompt", "consent")
			f := here(t).open(t, q.address()).form(t, values("answer", "allow")).fields
			f.Set("answer", "allow")
			victim := logIn(t, newUser(t, "victim"))
			storesNothing(t, func() {
				for _, b := range []*browser{victim, newBrowser(t)} {
					if p := b.post(t, "/oauth/consent", f, own); p.to != nil || p.status != http.StatusForbidden {
						t.Errorf("%d, sent to %v", p.status, p.to)
					}
				}
			})
			q.landed(t, here(t).post(t, "/oauth/consent", f, own))
		}},
		{"TheAddressOfAProvider", func(t *testing.T) {
			u := newUpstream(t, "copied")
			one, two := newBrowser(t), newBrowser(t)
			var links []string
			for _, href := range one.open(t, harbor.ask().address()).links() {
				if strings.Contains(href, "login/"+u.name+"?") {
					links = append(links, href)
				}
			}
			p := two.open(t, "/oauth/"+links[0])
			if p.to != nil || p.status != http.StatusForbidden {
				t.Errorf("%d, sent to %v", p.status, p.to)
			}
		}},
		{"TheSessionCookieOfAnotherServer", func(t *testing.T) {
			b := logIn(t, alice)
			b.tamper(t, "ks-session")
			b.open(t, "/oauth/account").shows(t, http.StatusOK, "Log in")
		}},
	})
}

// S40: nobody is sent to an address that is not registered.
func TestLoginsLeadNowhereElse(t *testing.T) {
	rule(t, "S40", "T9700-2")
	u := newUpstream(t, "nowhere")
	evil := []string{
		"https://evil.example",
		"//evil.example",
		`/\evil.example`,
		"https:evil.example",
		"%2f%2fevil.example",
		"https://evil.example\r\nSet-Cookie: a=b",
		"javascript:alert(1)",
		"data:text/html,x",
		harbor.RedirectURIs[0] + "@evil.example",
		"http://127.0.0.1@evil.example/cb",
		"http://127.0.0.1.evil.example/cb",
	}
	check := func(what, to string, p *page) {
		t.Helper()
		for _, hop := range p.hops {
			if l := hop.header.Get("Location"); strings.Contains(l, "evil") || strings.HasPrefix(l, "javascript") || strings.HasPrefix(l, "data") ||
				hop.header.Get("Set-Cookie") == "a=b" {
				t.Errorf("%s: %q leads to %q", what, to, l)
			}
		}
	}
	for _, to := range evil {
		for _, c := range []client{harbor, desk, asking} {
			for _, b := range []*browser{here(t), newBrowser(t)} {
				check("a client", to, b.open(t, c.ask("redirect_uri", to).address()))
				check("a silent client", to, b.open(t, c.ask("redirect_uri", to, "prompt", "none").address()))
			}
		}
		check("the console", to, newBrowser(t).open(t, "/oauth/login/"+u.name+"?"+values("redirect_uri", to).Encode()))
		for _, name := range []string{"next", "redirect", "redirect_uri", "return_to", "rd"} {
			check("the login page", to, here(t).open(t, "/oauth/login?"+values(name, to).Encode()))
		}
		check("the logout", to, here(t).open(t, "/oauth/login?"+values("post_logout_redirect_uri", to).Encode()))
	}
}

// S42: every page, also one that says what is wrong, keeps others from framing it, keeping it, or guessing what it is.
func TestPagesAreNotFramedOrKept(t *testing.T) {
	rule(t, "S42", "T9700-14")
	b := logIn(t, newUser(t, "pages"))
	l := &leaving{browser: b}
	pages := map[string]*page{
		"Login":          newBrowser(t).open(t, "/oauth/login"),
		"LoginForClient": newBrowser(t).open(t, harbor.ask().address()),
		"LoginFailed":    func() *page { n := newBrowser(t); return n.login(t, n.open(t, "/oauth/login"), alice, "wrong") }(),
		"Consent":        b.open(t, asking.ask().address()),
		"Device":         b.open(t, "/oauth/device"),
		"DeviceConfirm":  b.findDevice(t, harbor.device(t).field("user_code")),
		"Account":        b.open(t, "/oauth/account"),
		"Logout":         l.logout(t),
		"SignedOut":      newBrowser(t).open(t, "/oauth/logout"),
		"UnknownClient":  b.open(t, "/oauth/authorize?client_id=nobody&response_type=code"),
		"BadRedirect":    b.open(t, harbor.ask("redirect_uri", "https://evil.example").address()),
		"BadCallback":    b.open(t, "/oauth/callback/nobody?code=a&state=b"),
		"BadProvider":    b.open(t, "/oauth/login/nobody"),
		"ForgedForm":     b.post(t, "/oauth/account", values("form", "x"), "Sec-Fetch-Site: same-origin"),
		"RedirectToUs":   b.open(t, "/oauth/login"),
	}
	for name, p := range pages {
		for _, a := range p.hops {
			policy := a.header.Get("Content-Security-Policy")
			redirect := a.status > 299 && a.status < 400
			switch {
			case !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") && !redirect:
				t.Errorf("%s is %s: %d %s", name, a.header.Get("Content-Type"), a.status, clip(a.body))
			case !redirect && (a.header.Get("X-Frame-Options") != "DENY" || !strings.Contains(policy, "frame-ancestors 'none'") ||
				!strings.Contains(policy, "default-src 'none'")):
				t.Errorf("%s may be framed: %v", name, a.header)
			case !redirect && (a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Referrer-Policy") != "no-referrer"):
				t.Errorf("%s: %v", name, a.header)
			case a.header.Get("Cache-Control") != "no-store":
				t.Errorf("%s may be kept: %v", name, a.header)
			}
		}
		p.each("script", func(n *html.Node) {
			if attribute(n, "src") == "" && attribute(n, "type") != "application/json" {
				t.Errorf("%s has a script of its own", name)
			}
		})
	}
}

// S42: no form of a page is taken from another site, or without what the page put into it.
func TestFormsAreNotForged(t *testing.T) {
	rule(t, "S42", "T6749-12")
	b := logIn(t, newUser(t, "forms"))
	device := b.findDevice(t, harbor.device(t).field("user_code"))
	l := &leaving{browser: b}
	forms := map[string]struct {
		path string
		form url.Values
	}{
		"Login":   {"/oauth/login", filled(againForm(t, b), "username", alice, "password", password)},
		"Consent": {"/oauth/consent", filled(b.open(t, asking.ask().address()).form(t, values("answer", "allow")).fields, "answer", "allow")},
		"Device":  {"/oauth/device", filled(device.form(t, values("answer", "allow")).fields, "answer", "allow")},
		"Account": {"/oauth/account", filled(b.open(t, "/oauth/account").form(t, url.Values{"description": {}}).fields, "description", "x", "days", "30")},
		"Logout":  {"/oauth/logout/confirm", filled(l.logout(t).form(t, values("answer", "yes")).fields, "answer", "yes")},
	}
	before := stored(t)
	for name, f := range forms {
		bare := maps.Clone(f.form)
		bare.Del("form")
		for how, try := range map[string]struct {
			form    url.Values
			headers []string
		}{
			"FromAnotherSite":       {f.form, []string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site"}},
			"FromASiblingSite":      {f.form, []string{"Origin: https://other.localhost", "Sec-Fetch-Site: same-site"}},
			"ByAnOldBrowser":        {f.form, []string{"Origin: https://evil.example"}},
			"WithoutWhatThePageHas": {bare, []string{"Sec-Fetch-Site: same-origin"}},
			"WithSomethingElse":     {filled(f.form, "form", strings.Repeat("A", 400)), []string{"Sec-Fetch-Site: same-origin"}},
		} {
			if p := b.post(t, f.path, try.form, try.headers...); p.to != nil || p.status != http.StatusForbidden {
				t.Errorf("%s/%s: %d %q, sent to %v", name, how, p.status, p.heading(), p.to)
			}
		}
	}
	for _, kind := range []string{"sessions", "apikeys"} {
		if got := added(t, before, kind); len(got) > 0 {
			t.Errorf("stored: %v", got)
		}
	}
	b.open(t, "/oauth/account").shows(t, http.StatusOK, "Your account")
}

// againForm is the form with which somebody who is logged in proves himself again.
func againForm(t *testing.T, b *browser) url.Values {
	t.Helper()
	return b.open(t, harbor.ask("prompt", "login").address()).form(t, url.Values{"username": {}}).fields
}

func filled(form url.Values, pairs ...string) url.Values {
	out := maps.Clone(form)
	for name, v := range values(pairs...) {
		out[name] = v
	}
	return out
}

// S49: what TLS allows stays as it is when the certificate is read again.
func TestTLSStaysAsItIsWhenTheCertificateChanges(t *testing.T) {
	rule(t, "S49")
	t.Parallel()
	dir := t.TempDir()
	certificate := func() {
		out, err := exec.CommandContext(t.Context(), product.Program("dev"), "cert", "--dir", product.Dir, "--name", "127.0.0.1", "--name", "localhost",
			"--out-cert", filepath.Join(dir, "tls.crt"), "--out-key", filepath.Join(dir, "tls.key"), "--out-ca", filepath.Join(dir, "ca.crt")).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	certificate()
	secure := reservedPort(t)
	at := net.JoinHostPort("127.0.0.1", secure)
	differently(
		t,
		func(map[string]any) {},
		"--bind-address=127.0.0.1",
		"--secure-port="+secure,
		"--tls-cert-file="+filepath.Join(dir, "tls.crt"),
		"--tls-private-key="+filepath.Join(dir, "tls.key"),
	)
	serial := func(ctx context.Context, c *tls.Config) (string, error) {
		c.RootCAs, c.ServerName = wire.TLSClientConfig.RootCAs, "localhost"
		conn, err := (&tls.Dialer{Config: c}).DialContext(ctx, "tcp", at)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
	}
	matrix := func(when string) string {
		t.Helper()
		for name, c := range map[string]*tls.Config{
			"TLS 1.0":         {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10},
			"TLS 1.1":         {MinVersion: tls.VersionTLS11, MaxVersion: tls.VersionTLS11},
			"TLS 1.2 RC4":     {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_RC4_128_SHA, tls.TLS_RSA_WITH_RC4_128_SHA}},
			"TLS 1.2 3DES":    {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA}},
			"TLS 1.2 RSA key": {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}},
		} {
			if _, err := serial(t.Context(), c); err == nil {
				t.Errorf("%s: a handshake with %s is taken", when, name)
			}
		}
		old, err := serial(t.Context(), &tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatalf("%s: TLS 1.2: %v", when, err)
		}
		if _, err := serial(t.Context(), &tls.Config{MinVersion: tls.VersionTLS13}); err != nil {
			t.Errorf("%s: TLS 1.3: %v", when, err)
		}
		return old
	}
	old := matrix("at first")
	certificate()
	eventually(t, "the new certificate is served", func(ctx context.Context) error {
		now, err := serial(ctx, &tls.Config{MinVersion: tls.VersionTLS12})
		if err == nil && now == old {
			err = errors.New("it is the old one")
		}
		return err
	})
	matrix("afterwards")
}
