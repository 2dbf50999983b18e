package header_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/header"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func opened(t *testing.T, settings string) *header.Provider {
	t.Helper()
	p, err := header.Type().Open([]byte(settings), idp.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p.(*header.Provider)
}

func TestConformance(t *testing.T) {
	idptest.Suite{Type: header.Type(), Start: func(t *testing.T, _ idptest.Outside) *idptest.Double {
		return &idptest.Double{
			Settings: map[string]any{
				"clientCAData": idptest.NewAuthority(t, "proxies", now).PEM, "allowedNames": []any{"front"},
				"usernameHeaders": []any{"X-Forwarded-User"}, "groupHeaders": []any{"X-Forwarded-Groups"},
			},
			Required: []string{"allowedNames"},
		}
	}}.Run(t)
}

func TestSettingsThatTrustTooMuchAreRefused(t *testing.T) {
	ca := "clientCAData: " + base64.StdEncoding.EncodeToString([]byte(idptest.NewAuthority(t, "proxies", now).PEM)) + "\n"
	for name, tc := range map[string]struct{ settings, names string }{
		"NoAuthority":          {"allowedNames: [front]", "clientCA"},
		"TwoAuthorities":       {ca + "clientCA: /x\nallowedNames: [front]", "clientCA"},
		"AnAuthorityThatIsNot": {"clientCAData: eA==\nallowedNames: [front]", "clientCAData"},
		"AMissingFile":         {"clientCA: /nonexistent\nallowedNames: [front]", "clientCA"},
		"AnyName":              {ca, "allowedNames"},
		"AnEmptyName":          {ca + `allowedNames: [""]`, "allowedNames"},
		"Authorization":        {ca + "allowedNames: [front]\nusernameHeaders: [authorization]", "usernameHeaders"},
		"Cookie":               {ca + "allowedNames: [front]\ngroupHeaders: [Cookie]", "groupHeaders"},
		"Impersonation":        {ca + "allowedNames: [front]\ngroupHeaders: [impersonate-group]", "groupHeaders"},
		"NoPrefix":             {ca + "allowedNames: [front]\nextraHeadersPrefixes: ['']", "extraHeadersPrefixes"},
		"APrefixOfAllHeaders":  {ca + "allowedNames: [front]\nextraHeadersPrefixes: [A]", "extraHeadersPrefixes"},
		"APrefixOfCookies":     {ca + "allowedNames: [front]\nextraHeadersPrefixes: [Coo-]", "extraHeadersPrefixes"},
		"NoHeaderName":         {ca + "allowedNames: [front]\nuidHeaders: ['a b']", "uidHeaders"},
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := header.Type().Open([]byte(tc.settings), idp.OpenOptions{}); err == nil || p != nil || !strings.Contains(err.Error(), tc.names) {
				t.Errorf("%v, %v", p, err)
			}
		})
	}
}

// S19: a proxy is identified by a verified certificate of the right authority and name, and by nothing else.
func TestOnlyTheProxyIsTrusted(t *testing.T) {
	proxies, others := idptest.NewAuthority(t, "proxies", now), idptest.NewAuthority(t, "proxies", now) // with the same name
	p := opened(t, "clientCAData: "+base64.StdEncoding.EncodeToString([]byte(proxies.PEM))+"\nallowedNames: [front]\n")
	chain := func(a *idptest.Authority, name string, days int) *tls.ConnectionState {
		return a.Peer(t, pkix.Name{CommonName: name}, days)
	}
	unverified := chain(proxies, "front", 1)
	unverified.VerifiedChains = nil
	rootOnly := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{proxies.Cert}}}
	for name, tc := range map[string]struct {
		peer *tls.ConnectionState
		want bool
	}{
		"TheProxy":                   {chain(proxies, "front", 1), true},
		"AnotherName":                {chain(proxies, "other", 1), false},
		"AnotherAuthorityOfThatName": {chain(others, "front", 1), false},
		"ExpiredSinceTheHandshake":   {chain(proxies, "front", -1), false},
		"NotVerified":                {unverified, false},
		"TheAuthorityItself":         {rootOnly, false},
		"NoTLS":                      {nil, false},
	} {
		if got := p.Trusts(tc.peer, now); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestHeadersNameThePerson(t *testing.T) {
	ca := "clientCAData: " + base64.StdEncoding.EncodeToString([]byte(idptest.NewAuthority(t, "proxies", now).PEM)) + "\nallowedNames: [front]\n"
	plain := opened(t, ca)
	full := opened(t, ca+"usernameHeaders: [X-A, X-B]\nuidHeaders: [X-Uid]\ngroupHeaders: [X-G, X-H]\nemailHeaders: [X-Mail]\ndisplayNameHeaders: [X-Name]\n")
	more := opened(t, ca+"extraHeadersPrefixes: [X-Remote-Extra-]\n")
	jane := func(extras http.Header) http.Header {
		extras["X-Remote-User"] = []string{"jane"}
		return extras
	}
	for name, tc := range map[string]struct {
		p       *header.Provider
		h       http.Header
		want    *idp.Identity
		refused bool
	}{
		"Usual": {plain, http.Header{"X-Remote-User": {"jane"}, "X-Remote-Group": {"dev", "", "system:masters", "ops"}},
			&idp.Identity{Subject: "jane", Username: "jane", Groups: []string{"dev", "ops"}}, false},
		"Nobody":             {plain, http.Header{"X-Remote-Group": {"dev"}}, nil, false},
		"EmptyIsNobody":      {plain, http.Header{"X-Remote-User": {""}}, nil, false},
		"TwoNames":           {plain, http.Header{"X-Remote-User": {"jane", "admin"}}, nil, true},
		"OverlongName":       {plain, http.Header{"X-Remote-User": {strings.Repeat("x", 2000)}}, nil, true},
		"TheSecondHeader":    {full, http.Header{"X-B": {"jane"}, "X-Uid": {"7"}}, &idp.Identity{Subject: "7", Username: "jane"}, false},
		"NoUIDWhereOneIsSet": {full, http.Header{"X-A": {"jane"}}, nil, true},
		"TwoUIDs":            {full, http.Header{"X-A": {"jane"}, "X-Uid": {"7", "8"}}, nil, true},
		"All": {full, http.Header{"X-A": {"jane"}, "X-Uid": {"7"}, "X-G": {"a"}, "X-H": {"b"}, "X-Mail": {"j@x"}, "X-Name": {"Jane"}},
			&idp.Identity{Subject: "7", Username: "jane", Groups: []string{"a", "b"}, Email: "j@x", DisplayName: "Jane"}, false},
		"Extras": {more, jane(http.Header{"X-Remote-Extra-Team": {"a", "b"}, "X-Remote-Extra-Corp.example%2fCost-Center": {"7"}, "X-Remote-Extra-": {"x"}}),
			&idp.Identity{Subject: "jane", Username: "jane", Extra: map[string][]string{"team": {"a", "b"}, "corp.example/cost-center": {"7"}}}, false},
		"ExtrasThatNobodyAskedFor": {plain, jane(http.Header{"X-Remote-Extra-Team": {"a"}}), &idp.Identity{Subject: "jane", Username: "jane"}, false},
		"TheScopeOfACredential":    {more, jane(http.Header{"X-Remote-Extra-Authentication.Kapis.Dev%2fScope": {"read"}}), nil, true},
		"AnExtraOfKubernetes":      {more, jane(http.Header{"X-Remote-Extra-Authentication.Kubernetes.Io%2FPod-Name": {"a"}}), nil, true},
		"AnOverlongExtra":          {more, jane(http.Header{"X-Remote-Extra-Team": {strings.Repeat("x", 2000)}}), nil, true},
		"AnExtraThatIsNoText":      {more, jane(http.Header{"X-Remote-Extra-Team": {"a\x00b"}}), nil, true},
		"TooManyValues":            {more, jane(http.Header{"X-Remote-Extra-Team": make([]string, 17)}), nil, true},
	} {
		got, err := tc.p.Identity(tc.h)
		if !reflect.DeepEqual(got, tc.want) || tc.refused != errors.Is(err, idp.ErrRefused) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
