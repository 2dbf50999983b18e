// Package idptest holds every kind of identity provider to what package idp promises of them: the tests of each run it,
// against a server that behaves as the real ones do.
package idptest

import (
	"encoding/json"
	"net/http"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// Suite is a type of provider, and how to start the other side of it.
type Suite struct {
	// Type is the type under test.
	Type idp.Type
	// Start starts a server that is found at the outside address, with one person who can log in. It is called
	// once for each test, and ends what it starts by t.Cleanup.
	Start func(t *testing.T, o Outside) *Double
}

// Outside is how a provider finds its server: over a line that can fail.
type Outside struct {
	// Address is host:port, Base the address as an https URL without a slash at its end.
	Address, Base string
	// CA is the PEM certificate that vouches for Base where the server is a Double's Handler.
	CA string
}

// Double is the other side: a server, the settings for it, and a person.
type Double struct {
	// Handler answers over TLS, for providers that speak HTTP. Backend is the host:port of any other server.
	Handler http.Handler
	Backend string

	// Settings are right ones. Required names those of their keys that can't be left out.
	Settings map[string]any
	Required []string
	// Addresses are the keys that hold URLs, "endpoint.tokenURL" for one below another.
	Addresses []string
	// Secrets are texts that nothing may show: those in the settings, and what the server gives.
	Secrets []string
	// Wrong are changes of the settings that Check finds, by what they are.
	Wrong map[string]func(settings map[string]any)
	// Impatient are changes of the settings that have the provider give up after some hundred milliseconds. Those in Settings themselves
	// leave time enough for a slow machine.
	Impatient map[string]any

	// Person is whom a login gives, without what is secret.
	Person idp.Identity
	// Username and Password are what he logs in with at a Password provider.
	Username, Password string
	// NoPKCE and NoNonce say what the protocol of a Redirect provider does not have.
	NoPKCE, NoNonce bool

	// Rename gives him another name and e-mail, SetGroups other groups, Remove takes him away. One is nil where there is no such thing.
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

// encode writes settings as they come from a configuration.
func encode(t *testing.T, settings map[string]any) []byte {
	t.Helper()
	raw, err := json.Marshal(settings)
	if err != nil {
		t.Fatalf("encode settings: %v", err)
	}
	return raw
}

// clone copies settings, so that a test can change them.
func clone(t *testing.T, settings map[string]any) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(encode(t, settings), &out); err != nil {
		t.Fatalf("copy settings: %v", err)
	}
	return out
}

// WithDouble opens a provider for a server, and has a test log in there; for what is one provider's alone.
func WithDouble(t *testing.T, kind idp.Type, start func(o Outside) *Double, test func(login func() (*idp.Identity, error))) {
	t.Helper()
	w := Suite{Type: kind, Start: func(_ *testing.T, o Outside) *Double { return start(o) }}.world(t)
	test(w.login)
}
