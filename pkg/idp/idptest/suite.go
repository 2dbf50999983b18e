// Package idptest tests that a type of identity provider does what package idp demands: the tests of each type run it,
// against a server that behaves like the real ones.
package idptest

import (
	"encoding/json"
	"net/http"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// Suite has a type of provider, and the function that starts a server for it.
type Suite struct {
	// Type is the type under test.
	Type idp.Type
	// Start starts a server that is reached at the outside address, with one user who can log in. It is called once for
	// each test, and stops what it started by t.Cleanup.
	Start func(t *testing.T, o Outside) *Double
}

// Outside is how a provider reaches its server: over a line that can fail.
type Outside struct {
	// Address is host:port, and Base the address as an https URL without a trailing slash.
	Address, Base string
	// CA is the PEM certificate of the authority for Base if the server is a Double's Handler.
	CA string
}

// Double is the provider's counterpart: a server, the settings for it, and a user.
type Double struct {
	// Handler answers over TLS, for providers that speak HTTP. Backend is the host:port of any other server.
	Handler http.Handler
	Backend string

	// Settings are valid settings. Required names those of their keys that can't be left out.
	Settings map[string]any
	Required []string
	// Addresses are the keys that hold URLs, such as "endpoint.tokenURL" for a nested one.
	Addresses []string
	// Secrets are texts that must not be shown: those in the settings, and the server's tokens.
	Secrets []string
	// Wrong has changes of the settings that Check finds, by name.
	Wrong map[string]func(settings map[string]any)
	// Impatient has changes of the settings that make the provider give up after some hundred milliseconds. Those in Settings themselves
	// leave enough time for a slow machine.
	Impatient map[string]any

	// Person is the identity of a login, without its secrets.
	Person idp.Identity
	// Username and Password are the user's at a Password provider.
	Username, Password string
	// NoPKCE and NoNonce say that the protocol of a Redirect provider lacks these.
	NoPKCE, NoNonce bool

	// Rename gives the user another name and e-mail, SetGroups sets the groups, and Remove removes the user. One is nil if
	// the provider has no such feature.
	Rename    func()
	SetGroups func(groups []string)
	Remove    func()
}

// Run runs the suite.
func (s Suite) Run(t *testing.T) {
	t.Run("Settings", s.settings)
	t.Run("Secrets", s.secrets)
	t.Run("Faults", s.faults)
	t.Run("Addresses", s.addresses)
	t.Run("Person", s.person)
	t.Run("Redirect", s.redirect)
	t.Run("Password", s.password)
	t.Run("Refresh", s.refresh)
	t.Run("Logout", s.logout)
}

// encode encodes settings as they are written in a configuration.
func encode(t *testing.T, settings map[string]any) []byte {
	t.Helper()
	raw, err := json.Marshal(settings)
	if err != nil {
		t.Fatalf("encode settings: %v", err)
	}
	return raw
}

// clone returns a copy of settings, so that a test can change them.
func clone(t *testing.T, settings map[string]any) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(encode(t, settings), &out); err != nil {
		t.Fatalf("copy settings: %v", err)
	}
	return out
}

// WithDouble opens a provider for a server, and gives a test a function that logs in there; for tests of one provider only.
func WithDouble(t *testing.T, kind idp.Type, start func(o Outside) *Double, test func(login func() (*idp.Identity, error))) {
	t.Helper()
	w := Suite{Type: kind, Start: func(_ *testing.T, o Outside) *Double { return start(o) }}.world(t)
	test(w.login)
}
