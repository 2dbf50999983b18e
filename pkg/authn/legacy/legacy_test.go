package legacy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authn/legacy"
	"kapis.dev/ks-apiserver/pkg/token"
)

const secret = "8Jx2QmVnB5tY7wRcKp3LsHdF9gZaEu4W"

func start() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

func users(name string) (user.Info, time.Time, error) {
	switch name {
	case "alice":
		return &user.DefaultInfo{Name: "alice"}, time.Time{}, nil
	case "changed":
		return &user.DefaultInfo{Name: "changed"}, start().Add(-time.Hour), nil
	case "late":
		return nil, time.Time{}, apierrors.NewServiceUnavailable("not all users are known")
	}
	return nil, time.Time{}, errors.New("gone")
}

func newAuthenticator(t testing.TB, now time.Time) *legacy.Authenticator {
	t.Helper()
	a, err := legacy.New(
		legacy.Options{Secret: []byte(secret), Until: start().Add(24 * time.Hour), Users: users, Leeway: 30 * time.Second, Now: func() time.Time { return now }},
	)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func sign(t testing.TB, m jwt.SigningMethod, key any, header map[string]any, c jwt.MapClaims) string {
	t.Helper()
	tok := jwt.NewWithClaims(m, c)
	for k, v := range header {
		tok.Header[k] = v
	}
	s, err := tok.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func at(d time.Duration) int64 { return start().Add(d).Unix() }

func TestTokensOfTheOlderInstallation(t *testing.T) {
	for name, test := range map[string]struct {
		claims jwt.MapClaims
		user   string
	}{
		"access token": {jwt.MapClaims{"token_type": "access_token", "username": "alice", "exp": at(time.Hour)}, "alice"},
		"with issuer and times": {jwt.MapClaims{"token_type": "access_token", "username": "alice", "iss": "http://old", "iat": at(0), "exp": at(time.Hour)},
			"alice"},
		"static token without end":    {jwt.MapClaims{"token_type": "static_token", "username": "alice"}, "alice"},
		"issued after the change":     {jwt.MapClaims{"token_type": "access_token", "username": "changed", "iat": at(-time.Minute), "exp": at(time.Hour)}, "changed"},
		"issued before the change":    {jwt.MapClaims{"token_type": "access_token", "username": "changed", "iat": at(-2 * time.Hour), "exp": at(time.Hour)}, ""},
		"S37: static, of another":     {jwt.MapClaims{"token_type": "static_token", "username": "changed", "iat": at(-2 * time.Hour)}, ""},
		"S37: static, who knows when": {jwt.MapClaims{"token_type": "static_token", "username": "changed"}, ""},
		"issued nobody knows when":    {jwt.MapClaims{"token_type": "access_token", "username": "changed", "exp": at(time.Hour)}, ""},
		"S34: access token, no end":   {jwt.MapClaims{"token_type": "access_token", "username": "alice"}, ""},
		"expired":                     {jwt.MapClaims{"token_type": "access_token", "username": "alice", "exp": at(-time.Minute)}, ""},
		"U27: within the leeway": {jwt.MapClaims{"token_type": "access_token", "username": "alice", "exp": at(-20 * time.Second), "iat": at(20 * time.Second)},
			"alice"},
		"not yet":                    {jwt.MapClaims{"token_type": "access_token", "username": "alice", "exp": at(time.Hour), "nbf": at(time.Minute)}, ""},
		"from the future":            {jwt.MapClaims{"token_type": "access_token", "username": "alice", "exp": at(time.Hour), "iat": at(time.Minute)}, ""},
		"S32: refresh token":         {jwt.MapClaims{"token_type": "refresh_token", "username": "alice", "exp": at(time.Hour)}, ""},
		"S32: code":                  {jwt.MapClaims{"token_type": "code", "username": "alice", "exp": at(time.Hour)}, ""},
		"S32: ID token":              {jwt.MapClaims{"token_type": "id_token", "username": "alice", "exp": at(time.Hour)}, ""},
		"F12: for a member":          {jwt.MapClaims{"token_type": "access_token", "username": "alice", "exp": at(time.Hour), "aud": []string{"kapis:u-1"}}, ""},
		"F12: static, for a member":  {jwt.MapClaims{"token_type": "static_token", "username": "alice", "aud": "kapis:u-1"}, ""},
		"no kind":                    {jwt.MapClaims{"username": "alice", "exp": at(time.Hour)}, ""},
		"S37: user gone or disabled": {jwt.MapClaims{"token_type": "access_token", "username": "mallory", "exp": at(time.Hour)}, ""},
		"no user":                    {jwt.MapClaims{"token_type": "access_token", "exp": at(time.Hour)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthenticator(t, start())
			r, ok, err := a.AuthenticateToken(t.Context(), sign(t, jwt.SigningMethodHS256, []byte(secret), nil, test.claims))
			if test.user == "" {
				if ok || err == nil || strings.Contains(err.Error(), secret) {
					t.Errorf("accepted, or no reason: %v", err)
				}
				return
			}
			if err != nil || !ok || r.User.GetName() != test.user {
				t.Errorf("got %v, %v", ok, err)
			}
		})
	}
}

// S28, T8725-1: nothing but HS256 with the secret.
func TestSignaturesOfOthersAreRefused(t *testing.T) {
	a := newAuthenticator(t, start())
	good := jwt.MapClaims{"token_type": "access_token", "username": "alice", "exp": at(time.Hour)}
	for name, s := range map[string]string{
		"another secret":  sign(t, jwt.SigningMethodHS256, []byte(strings.ToLower(secret)), nil, good),
		"HS512":           sign(t, jwt.SigningMethodHS512, []byte(secret), nil, good),
		"none":            sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, good),
		"crit":            sign(t, jwt.SigningMethodHS256, []byte(secret), map[string]any{"crit": []string{"x"}}, good),
		"alg in disguise": sign(t, jwt.SigningMethodHS512, []byte(secret), map[string]any{"alg": "HS256"}, good),
		"nothing":         "",
		"dots":            strings.Repeat(".", 1<<20),
		"line end":        strings.Replace(sign(t, jwt.SigningMethodHS256, []byte(secret), nil, good), ".", ".\n", 1),
	} {
		if _, ok, _ := a.AuthenticateToken(t.Context(), s); ok {
			t.Errorf("%s: accepted", name)
		}
	}
}

// No token is accepted once the migration has ended, even one without an expiry.
func TestNothingIsTakenAfterTheMigration(t *testing.T) {
	s := sign(t, jwt.SigningMethodHS256, []byte(secret), nil, jwt.MapClaims{"token_type": "static_token", "username": "alice"})
	if _, ok, _ := newAuthenticator(t, start().Add(24*time.Hour-time.Second)).AuthenticateToken(t.Context(), s); !ok {
		t.Error("refused before its end")
	}
	if _, ok, err := newAuthenticator(t, start().Add(24*time.Hour)).AuthenticateToken(t.Context(), s); ok || err != nil {
		t.Error("taken at its end")
	}
}

// This server's own tokens are not of this kind, and its verifier refuses tokens of this kind.
func TestKindsAreKeptApart(t *testing.T) {
	keys, err := token.Generate(start())
	if err != nil {
		t.Fatal(err)
	}
	issuer := &token.Issuer{Keys: keys, URL: "https://ks.example", Audience: "a", Now: start}
	s, err := issuer.Access(&token.Access{Subject: "u", Username: "alice", Client: "c", Session: "s", Issued: start(), Expires: start().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := newAuthenticator(t, start()).AuthenticateToken(t.Context(), s); ok || err != nil {
		t.Errorf("taken, or verified: %v", err)
	}
	v, err := token.NewVerifier(token.Rules{Keys: keys, Issuer: "https://ks.example", Audience: "a", Now: start})
	if err != nil {
		t.Fatal(err)
	}
	old := sign(t, jwt.SigningMethodHS256, []byte(secret), map[string]any{"typ": "at+jwt"}, jwt.MapClaims{"token_type": "access_token", "username": "alice",
		"sub": "u", "client_id": "c", "sid": "s", "jti": "j", "iss": "https://ks.example", "aud": "a", "iat": at(0), "exp": at(time.Hour)})
	if _, err := v.Access(old); err == nil {
		t.Error("today's verifier took a token signed with a shared secret")
	}
}

// S31.
func TestShortSecretIsRefused(t *testing.T) {
	if _, err := legacy.New(legacy.Options{Secret: []byte(secret[:31])}); err == nil || strings.Contains(err.Error(), secret[:31]) {
		t.Errorf("got %v", err)
	}
}

func FuzzAuthenticateToken(f *testing.F) {
	a := newAuthenticator(f, start())
	f.Add(sign(f, jwt.SigningMethodHS256, []byte(secret), nil, jwt.MapClaims{"token_type": "static_token", "username": "alice"}))
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJIUzI1NiJ9..")
	f.Fuzz(func(t *testing.T, s string) {
		if r, ok, err := a.AuthenticateToken(t.Context(), s); ok && (err != nil || r.User.GetName() == "") {
			t.Error("ok without a user")
		}
	})
}

// Of a user who is not known yet it can't be told whether they are gone; of a token that nobody signed, it can.
func TestAUserWhoIsNotKnownYetIsNotGone(t *testing.T) {
	a := newAuthenticator(t, start())
	for name, unavailable := range map[string]bool{"late": true, "gone": false} {
		c := jwt.MapClaims{"token_type": "access_token", "username": name, "exp": at(time.Hour)}
		if _, ok, err := a.AuthenticateToken(t.Context(), sign(t, jwt.SigningMethodHS256, []byte(secret), nil, c)); ok ||
			apierrors.IsServiceUnavailable(err) != unavailable || err == nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
		if _, _, err := a.AuthenticateToken(t.Context(), sign(t, jwt.SigningMethodHS256, []byte("x"+secret), nil, c)); err == nil ||
			apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s, forged: %v", name, err)
		}
	}
}
