package oidc

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

func TestATokenOfTheProviderNamesItsUser(t *testing.T) {
	op, p, _ := served(t, func(_ *idptest.OP, s *Settings) {
		s.BearerAudiences, s.GroupsKey, s.GroupsPrefix = []string{"ks-apiserver", "other"}, "teams", "ci:"
	})
	kid, key := op.Key()
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	good := map[string]any{
		"iss": p.settings.Issuer, "sub": "job-7", "aud": "ks-apiserver", "iat": now, "exp": now + 60,
		"preferred_username": "builder", "teams": []string{"devs", "system:masters"},
	}
	with := func(name string, value any) map[string]any {
		c := maps.Clone(good)
		claim(name, value)(c)
		return c
	}
	for name, tc := range map[string]struct {
		claims map[string]any
		key    any
		issued bool
		ok     bool
	}{
		"AToken":                 {good, key, true, true},
		"OneOfItsAudiences":      {with("aud", []string{"x", "other"}), key, true, true},
		"AnotherAudience":        {with("aud", "x"), key, true, false},
		"TheAudienceOfLogins":    {with("aud", idptest.ClientID), key, true, false},
		"NoAudience":             {with("aud", nil), key, true, false},
		"Expired":                {with("exp", now-120), key, true, false},
		"NoEnd":                  {with("exp", nil), key, true, false},
		"OfTheFuture":            {with("iat", now+3600), key, true, false},
		"NotYetValid":            {with("nbf", now+3600), key, true, false},
		"NoSubject":              {with("sub", nil), key, true, false},
		"SignedByAnother":        {good, foreign, true, false},
		"OfAnotherIssuer":        {with("iss", "https://other.example"), key, false, false},
		"OfAnIssuerThatBeginsSo": {with("iss", p.settings.Issuer+"/"), key, false, false},
		"OfAnIssuerThatIsNoText": {with("iss", []string{p.settings.Issuer}), key, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			token := idptest.SignJWT(jose.RS256, tc.key, kid, tc.claims)
			if got := p.Issued(token); got != tc.issued {
				t.Fatalf("got issued %v, want %v", got, tc.issued)
			}
			id, err := p.Bearer(t.Context(), token)
			if !tc.ok {
				if id != nil || !errors.Is(err, idp.ErrRefused) {
					t.Errorf("got %v, %v; want it refused", id, err)
				}
				return
			}
			if err != nil || id.Subject != "job-7" || id.Username != "builder" || len(id.Groups) != 2 || id.Groups[0] != "ci:devs" {
				t.Errorf("got %+v, %v; want job-7, builder, ci:devs", id, err)
			}
		})
	}
	for _, token := range []string{"", ".", "..", "a.b.c", "a.e30.", "a.!.c", "ks_key"} {
		if p.Issued(token) {
			t.Errorf("%q is taken for a token of the provider", token)
		}
	}
}

func TestTokensOfAProviderWithoutAudiencesAuthenticateNobody(t *testing.T) {
	op, p, _ := served(t, nil)
	kid, key := op.Key()
	claims := map[string]any{"iss": p.settings.Issuer, "sub": "x", "aud": idptest.ClientID, "exp": time.Now().Unix() + 60}
	if p.Issued(idptest.SignJWT(jose.RS256, key, kid, claims)) {
		t.Error("an ID token of a login authenticates requests")
	}
}

func TestATokenIsNotRefusedWhileTheProviderIsDown(t *testing.T) {
	op, p, _ := served(t, func(op *idptest.OP, s *Settings) { s.BearerAudiences = []string{"a"} })
	kid, key := op.Key()
	op.Mux = http.NewServeMux() // answers 404
	claims := map[string]any{"iss": p.settings.Issuer, "sub": "x", "aud": "a", "exp": time.Now().Unix() + 60}
	if _, err := p.Bearer(t.Context(), idptest.SignJWT(jose.RS256, key, kid, claims)); !errors.Is(err, idp.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}
