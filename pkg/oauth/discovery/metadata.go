// Package discovery makes the discovery documents (OpenID Connect Discovery 1.0, 4; RFC 8414, 3).
package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/oauth/claim"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/token"
)

// The paths of the documents, below /.well-known.
const (
	OpenIDPath   = "/openid-configuration"
	MetadataPath = "/oauth-authorization-server"
)

// Metadata is what the document is made from.
type Metadata struct {
	Issuer string
	// Endpoints are paths by the names of the document's fields.
	Endpoints map[string]string
	Grants    []string
	// EmailVerified says that the claim email_verified exists.
	EmailVerified bool
}

// CheckIssuer returns the path of an issuer's URL, or an error unless the URL may be in tokens.
func CheckIssuer(issuer string) (path string, err error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return "", errors.New("authentication.issuer.url: it is not a URL")
	}
	if (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil {
		return "", fmt.Errorf("authentication.issuer.url: %q is not an absolute http(s) URL without user, query and fragment (RFC 8414, 2)",
			u.Redacted())
	}
	return strings.TrimSuffix(u.EscapedPath(), "/"), nil
}

// Document returns the document.
func (m *Metadata) Document() (Document, error) {
	base := strings.TrimSuffix(m.Issuer, "/")
	claims := claim.Supported()
	if !m.EmailVerified {
		claims = slices.DeleteFunc(claims, func(name string) bool { return name == "email_verified" })
	}
	doc := map[string]any{
		"issuer":                                m.Issuer,
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{token.Algorithm},
		"scopes_supported":                      client.SupportedScopes(),
		"claims_supported":                      claims,
		"token_endpoint_auth_methods_supported": client.AuthMethods(),

		"revocation_endpoint_auth_methods_supported":    client.AuthMethods(),
		"introspection_endpoint_auth_methods_supported": client.SecretMethods(),

		"grant_types_supported":                          m.Grants,
		"response_types_supported":                       protocol.ResponseTypes(),
		"response_modes_supported":                       protocol.ResponseModes(),
		"code_challenge_methods_supported":               protocol.ChallengeMethods(),
		"prompt_values_supported":                        protocol.Prompts(),
		"authorization_response_iss_parameter_supported": true, // RFC 9207, 2.3
		"claims_parameter_supported":                     false,
		"request_parameter_supported":                    false,
		"request_uri_parameter_supported":                false, // true if it were left out
	}
	for field, path := range m.Endpoints {
		doc[field] = base + path
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("make the discovery document: %w", err)
	}
	return b, nil
}
