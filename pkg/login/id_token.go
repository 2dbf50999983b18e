package login

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// identity has the claims that are read of an ID token.
type identity struct {
	Issuer   string    `json:"iss"`
	Audience audiences `json:"aud"`
	Nonce    string    `json:"nonce"`
	Username string    `json:"preferred_username"`
}

// audiences is a single audience or a list (RFC 7519, 4.1.3).
type audiences []string

// UnmarshalJSON reads both forms.
func (a *audiences) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// readIdentity reads an ID token that came from the token endpoint itself. Its signature would add nothing to the certificate
// of the connection (OpenID Connect Core 1.0, 3.1.3.7, 6), and no other program relies on what this one says about the user.
func readIdentity(raw, issuer, client, nonce string) (*identity, error) {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return nil, errors.New("the ID token is not a JWT")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, errors.New("the ID token is not a JWT")
	}
	var id identity
	switch err := json.Unmarshal(payload, &id); {
	case err != nil:
		return nil, errors.New("the claims of the ID token are not JSON")
	case id.Issuer != issuer:
		return nil, fmt.Errorf("the ID token is of %q", plain(id.Issuer))
	case !slices.Contains(id.Audience, client):
		return nil, errors.New("the ID token is for another client")
	case nonce != "" && subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(nonce)) != 1:
		return nil, errors.New("the ID token is of another login (nonce)")
	}
	return &id, nil
}
