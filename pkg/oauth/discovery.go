package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/token"
)

// The documents, below /.well-known (OpenID Connect Discovery 1.0, 4; RFC 8414, 3).
const (
	openidPath   = "/openid-configuration"
	metadataPath = "/oauth-authorization-server"
)

// checkIssuer returns the path of the issuer, which RFC 8414, 3.1 puts behind the well-known one.
func checkIssuer(issuer string) (path string, err error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return "", errors.New("authentication.issuer.url: it is not a URL")
	}
	if (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil {
		return "", fmt.Errorf("authentication.issuer.url: %q is not an absolute http(s) URL without user, query and fragment (RFC 8414, 2)", u.Redacted())
	}
	return strings.TrimSuffix(u.EscapedPath(), "/"), nil
}

// metadata makes the document. It names what the tables have, and nothing else; a list that would be
// empty is left out (RFC 8414, 3.2).
func (s *Server) metadata() ([]byte, error) {
	base := strings.TrimSuffix(s.Issuer, "/")
	doc := map[string]any{
		"issuer":                                s.Issuer,
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{token.Algorithm},
		"scopes_supported":                      supportedScopes(),
		"claims_supported":                      s.claims(),
		"token_endpoint_auth_methods_supported": authMethods(),

		"revocation_endpoint_auth_methods_supported":    authMethods(),
		"introspection_endpoint_auth_methods_supported": secretMethods(),

		"response_types_supported":                       responseTypes(),
		"response_modes_supported":                       responseModes(),
		"code_challenge_methods_supported":               challengeMethods(),
		"prompt_values_supported":                        prompts(),
		"authorization_response_iss_parameter_supported": true, // RFC 9207, 2.3
		"claims_parameter_supported":                     false,
		"request_parameter_supported":                    false,
		"request_uri_parameter_supported":                false, // left out it would mean true
	}
	for _, e := range s.endpoints() {
		if e.meta != "" {
			doc[e.meta] = base + "/oauth" + e.path
		}
	}
	var names []string
	for _, g := range s.grants() {
		names = append(names, g.name)
	}
	doc["grant_types_supported"] = names
	b, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("make the discovery document: %w", err)
	}
	return b, nil
}

// claims are those that this server tells: nobody's e-mail is called verified where nothing says so.
func (s *Server) claims() []string {
	all := supportedClaims()
	if s.EmailVerified == nil {
		all = slices.DeleteFunc(all, func(claim string) bool { return claim == "email_verified" })
	}
	return all
}

func (s *Server) discovery(*restful.Request) (any, error) { return cacheableJSON(s.meta), nil }
