package config

import "slices"

// What a request can state who its user is by.
const (
	CredentialProxy       = "proxy"       // the headers of an authenticating proxy
	CredentialToken       = "token"       // a bearer token, in the header or in the console's cookie
	CredentialCertificate = "certificate" // a client certificate
)

// credentials are in the order in which they count by default: a token is sent on purpose, a certificate with every request.
func credentials() []string { return []string{CredentialProxy, CredentialToken, CredentialCertificate} }

// validateOrder validates that the order names each kind of credential once.
func (a *Authentication) validateOrder(fault func(format string, args ...any)) {
	if !slices.Equal(slices.Sorted(slices.Values(a.Order)), slices.Sorted(slices.Values(credentials()))) {
		fault("authentication.order: %q does not name each of %q once", a.Order, credentials())
	}
}
