package apikey_test

import (
	"errors"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authn/apikey"
	"kapis.dev/ks-apiserver/pkg/token"
)

type keys struct {
	name string
	err  error
}

func (k keys) Authenticate(key token.APIKey) (user.Info, error) {
	if key.Name != k.name {
		return nil, errors.New("not the key")
	}
	return &user.DefaultInfo{Name: "alice"}, k.err
}

func TestOnlyAPIKeysAreVerified(t *testing.T) {
	text, key := token.NewAPIKey()
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		token string
		keys  keys
		ok    bool
		err   bool
	}{
		"Good":         {text, keys{name: key.Name}, true, false},
		"Refused":      {text, keys{name: key.Name, err: refused}, false, true},
		"Unknown":      {text, keys{name: "another"}, false, true},
		"CutOff":       {text[:40], keys{name: key.Name}, false, true},
		"AnotherToken": {"eyJhbGciOiJSUzI1NiJ9.e30.x", keys{}, false, false},
		"Empty":        {"", keys{}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			resp, ok, err := (&apikey.Authenticator{Keys: test.keys}).AuthenticateToken(t.Context(), test.token)
			if ok != test.ok || (err != nil) != test.err || ok && resp.User.GetName() != "alice" {
				t.Errorf("%v, %v, %v", resp, ok, err)
			}
		})
	}
}

func FuzzAuthenticateToken(f *testing.F) {
	text, key := token.NewAPIKey()
	f.Add(text)
	f.Add("ksk_")
	a := &apikey.Authenticator{Keys: keys{name: key.Name}}
	f.Fuzz(func(t *testing.T, s string) {
		if _, ok, err := a.AuthenticateToken(t.Context(), s); ok && (err != nil || s[:30] != text[:30]) {
			t.Errorf("%q is good", s)
		}
	})
}
