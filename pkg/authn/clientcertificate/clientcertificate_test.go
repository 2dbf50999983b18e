package clientcertificate_test

import (
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authn/clientcertificate"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/certificate"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

type vouch func(*idp.Entry, *idp.Identity) (user.Info, error)

func (f vouch) Vouched(_ context.Context, e *idp.Entry, id *idp.Identity) (user.Info, error) {
	return f(e, id)
}

func TestTheHolderOfACertificateIsAuthenticated(t *testing.T) {
	now := time.Now()
	one, two, off := idptest.NewAuthority(t, "one", now), idptest.NewAuthority(t, "two", now), idptest.NewAuthority(t, "off", now)
	entry := func(name string, a *idptest.Authority) *idp.Entry {
		settings, err := json.Marshal(map[string]string{"clientCAData": a.PEM})
		if err != nil {
			t.Fatal(err)
		}
		p, err := certificate.Type().Open(settings, idp.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return &idp.Entry{Name: name, Provider: p}
	}
	disabled := entry("off", off)
	disabled.Disabled = true
	a := &clientcertificate.Authenticator{
		Directory: idptest.Directory(t, entry("one", one), entry("two", two), disabled),
		Origin:    "https://ks.example", Now: func() time.Time { return now },
		Accounts: vouch(func(e *idp.Entry, id *idp.Identity) (user.Info, error) {
			if id.Subject == "gone" {
				return nil, errors.New("gone")
			}
			return &user.DefaultInfo{Name: e.Name + "/" + id.Subject}, nil
		}),
	}
	if got := len(a.Directory.ClientAuthorities()); got != 2 {
		t.Errorf("got %d authorities, want 2", got)
	}
	peer := func(a *idptest.Authority, name string, days int) *tls.ConnectionState {
		return a.Peer(t, pkix.Name{CommonName: name}, days)
	}
	const foreign, ours = "https://evil.example", "https://ks.example"
	for name, tc := range map[string]struct {
		peer            *tls.ConnectionState
		method          string
		origin, upgrade string
		want            string
		fails           bool
	}{
		"AHolder":                   {peer(one, "jane", 1), "GET", "", "", "one/jane", false},
		"AHolderOfAnotherAuthority": {peer(two, "jane", 1), "GET", "", "", "two/jane", false},
		"OfADisabledAuthority":      {peer(off, "jane", 1), "GET", "", "", "", false},
		"ExpiredSinceTheHandshake":  {peer(one, "jane", -1), "GET", "", "", "", false},
		"OfKubernetes":              {peer(one, "system:admin", 1), "GET", "", "", "", true},
		"WithoutAUser":              {peer(one, "gone", 1), "GET", "", "", "", true},
		"NoCertificate":             {&tls.ConnectionState{}, "GET", "", "", "", false},
		"NoTLS":                     {nil, "GET", "", "", "", false},
		"AWriteOfAProgram":          {peer(one, "jane", 1), "POST", "", "", "one/jane", false},
		"AWriteOfOurPage":           {peer(one, "jane", 1), "POST", ours, "", "one/jane", false},
		"AWriteOfAForeignPage":      {peer(one, "jane", 1), "POST", foreign, "", "", true},
		"AStreamOfAForeignPage":     {peer(one, "jane", 1), "GET", foreign, "websocket", "", true},
		"AStreamOfOurPage":          {peer(one, "jane", 1), "GET", ours, "websocket", "one/jane", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, "https://ks.example/kapis/x", nil)
			r.TLS = tc.peer
			if tc.origin != "" {
				r.Header.Set("Origin", tc.origin)
			}
			if tc.upgrade != "" {
				r.Header.Set("Upgrade", tc.upgrade)
			}
			resp, ok, err := a.AuthenticateRequest(r)
			got := ""
			if ok {
				got = resp.User.GetName()
			}
			if got != tc.want || tc.fails != (err != nil) {
				t.Errorf("got %q, %v; want %q, an error: %v", got, err, tc.want, tc.fails)
			}
		})
	}
}
