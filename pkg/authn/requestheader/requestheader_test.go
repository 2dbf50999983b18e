package requestheader_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authn/requestheader"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

// proxy trusts the peer with its certificate.
type proxy struct {
	cert   *x509.Certificate
	header string
}

func (p *proxy) Check(context.Context) error { return nil }
func (p *proxy) Roots() []*x509.Certificate  { return []*x509.Certificate{p.cert} }
func (p *proxy) Headers() []string           { return []string{p.header} }
func (p *proxy) HeaderPrefixes() []string    { return []string{p.header + "-Extra-"} }
func (p *proxy) Trusts(peer *tls.ConnectionState, _ time.Time) bool {
	return peer.VerifiedChains[0][0] == p.cert
}

func (p *proxy) Identity(h http.Header) (*idp.Identity, error) {
	switch v := h.Get(p.header); v {
	case "":
		return nil, nil
	case "two":
		return nil, idp.ErrRefused
	default:
		return &idp.Identity{Subject: v}, nil
	}
}

type vouch func(*idp.Entry, *idp.Identity) (user.Info, error)

func (f vouch) Vouched(_ context.Context, e *idp.Entry, id *idp.Identity) (user.Info, error) {
	return f(e, id)
}

// S19: headers count if a proxy sent them, and only the names that are its own.
func TestAProxyIsBelievedAndNobodyElse(t *testing.T) {
	one, two := &proxy{&x509.Certificate{}, "X-One"}, &proxy{&x509.Certificate{}, "X-Two"}
	a := &requestheader.Authenticator{
		Directory: idptest.Directory(t, &idp.Entry{Name: "one", Provider: one}, &idp.Entry{Name: "two", Provider: two},
			&idp.Entry{Name: "off", Disabled: true, Provider: &proxy{&x509.Certificate{}, "X-Off"}}, &idp.Entry{Name: "wrong", Fault: errors.New("x")}),
		Origin: "https://ks.example", Now: time.Now,
		Accounts: vouch(func(e *idp.Entry, id *idp.Identity) (user.Info, error) {
			if id.Subject == "gone" {
				return nil, errors.New("gone")
			}
			return &user.DefaultInfo{Name: e.Name + "/" + id.Subject}, nil
		}),
	}
	if !slices.Equal(a.Headers(), []string{"X-One", "X-Two"}) || len(a.Directory.ClientAuthorities()) != 2 {
		t.Errorf("%v, %d roots", a.Headers(), len(a.Directory.ClientAuthorities()))
	}
	if got, want := a.HeaderPrefixes(), []string{"X-One-Extra-", "X-Two-Extra-"}; !slices.Equal(got, want) {
		t.Errorf("got the prefixes %v, want %v", got, want)
	}
	for _, tc := range []struct {
		claim  string
		peer   *proxy
		method string
		h      map[string]string
		want   string
		fails  bool
	}{
		{"TheProxysOwn", one, "GET", map[string]string{"X-One": "jane"}, "one/jane", false},
		{"AnotherProxysHeader", one, "GET", map[string]string{"X-Two": "jane"}, "", false},
		{"NobodysCertificate", nil, "GET", map[string]string{"X-One": "jane"}, "", false},
		{"ADisabledProxy", &proxy{&x509.Certificate{}, "X-Off"}, "GET", map[string]string{"X-Off": "jane"}, "", false},
		{"NobodyNamed", one, "GET", nil, "", false},
		{"TwoReadings", one, "GET", map[string]string{"X-One": "two"}, "", true},
		{"NobodyHere", one, "GET", map[string]string{"X-One": "gone"}, "", true},
		{"AWriteOfAProgram", one, "POST", map[string]string{"X-One": "jane"}, "one/jane", false},
		{"AWriteOfOurPage", one, "POST", map[string]string{"X-One": "jane", "Origin": "https://ks.example", "Sec-Fetch-Site": "cross-site"}, "one/jane", false},
		{"AWriteOfAForeignPage", one, "POST", map[string]string{"X-One": "jane", "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, "", true},
		{"AStreamOfAForeignPage", one, "GET", map[string]string{"X-One": "jane", "Origin": "https://evil.example", "Upgrade": "websocket"}, "", true},
		{"AStreamOfOurPage", one, "GET", map[string]string{"X-One": "jane", "Origin": "https://ks.example", "Upgrade": "websocket"}, "one/jane", false},
	} {
		t.Run(tc.claim, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, "https://ks.example/kapis/x", nil)
			r.TLS = &tls.ConnectionState{}
			if tc.peer != nil {
				r.TLS.VerifiedChains = [][]*x509.Certificate{{tc.peer.cert}}
			}
			for k, v := range tc.h {
				r.Header.Set(k, v)
			}
			resp, ok, err := a.AuthenticateRequest(r)
			got := ""
			if ok {
				got = resp.User.GetName()
			}
			if got != tc.want || tc.fails != (err != nil) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	plain := httptest.NewRequest(http.MethodGet, "http://ks.example/", nil)
	plain.Header.Set("X-One", "jane")
	if a.Trusts(plain) {
		t.Error("a request without TLS is trusted")
	}
}
