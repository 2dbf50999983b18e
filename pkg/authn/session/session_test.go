package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authn/session"
	"kapis.dev/ks-apiserver/pkg/token"
)

type sessions func(a *token.Access) (user.Info, error)

func (f sessions) Authenticate(_ context.Context, a *token.Access) (user.Info, error) { return f(a) }

// S36: the session of a good token is checked at every request, even when the token is cached.
func TestGoodTokenIsOnlyAsGoodAsItsSession(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }
	keys, err := token.Generate(now())
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := token.NewVerifier(token.Rules{Keys: keys, Issuer: "https://ks.example", Audience: "a", Now: now, CacheSize: 16})
	if err != nil {
		t.Fatal(err)
	}
	issuer := &token.Issuer{Keys: keys, URL: "https://ks.example", Audience: "a", Now: now}
	s, err := issuer.Access(&token.Access{Subject: "u", Username: "alice", Client: "c", Session: "s1", Issued: now(), Expires: now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	var over error
	asked := 0
	a := &session.Authenticator{Tokens: verifier, Sessions: sessions(func(a *token.Access) (user.Info, error) {
		asked++
		if a.Session != "s1" || a.Subject != "u" {
			t.Errorf("asked about %+v", a)
		}
		return &user.DefaultInfo{Name: a.Username}, over
	})}
	for range 2 {
		if resp, ok, err := a.AuthenticateToken(t.Context(), s); !ok || err != nil || resp.User.GetName() != "alice" {
			t.Fatalf("%v, %v", ok, err)
		}
	}
	over = errors.New("over")
	if _, ok, err := a.AuthenticateToken(t.Context(), s); ok || !errors.Is(err, over) {
		t.Errorf("%v, %v", ok, err)
	}
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
	forUserinfo, err := issuer.Access(&token.Access{Subject: "u", Username: "alice", Client: "c", Session: "s1", Issued: now(), Expires: now().Add(time.Hour),
		Audience: token.UserInfo("https://ks.example")})
	if err != nil {
		t.Fatal(err)
	}
	over = nil
	for range 2 { // T9700-8
		if _, ok, err := a.AuthenticateToken(t.Context(), forUserinfo); ok || !errors.Is(err, token.ErrInvalid) || asked != 3 {
			t.Errorf("a token for the userinfo endpoint: %v, %v", ok, err)
		}
	}
	if _, ok, err := a.AuthenticateToken(t.Context(), s+"x"); ok || !errors.Is(err, token.ErrInvalid) || asked != 3 {
		t.Errorf("a bad token: %v, %v", ok, err)
	}
}
