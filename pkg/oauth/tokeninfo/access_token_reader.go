// Package tokeninfo has the endpoints about tokens that were issued: introspection, userinfo, TokenReview, revocation.
package tokeninfo

import (
	"context"
	"errors"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/authn/bearer"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Reader verifies access tokens and finds their sessions.
type Reader struct {
	Sessions *session.Store
}

// Active returns an access token that verify accepts and whose session is active; nil for others. An error says that this is not known
// now.
func (t *Reader) Active(ctx context.Context, raw string, verify func(string) (*token.Access, error)) (*token.Access, error) {
	a, err := verify(raw)
	if err == nil {
		_, err = t.Sessions.Resolve(ctx, a)
	}
	if err != nil {
		return nil, Undecided(err)
	}
	return a, nil
}

// Undecided returns an error that says that the session is not known now, and nil for others.
func Undecided(err error) error {
	if errors.Is(err, iam.ErrUnavailable) {
		return err
	}
	return nil
}

// FromHeader returns the access token of a request's Authorization header, which verify has to accept, and its user (RFC 6750, 2 and
// 3). A token in the query or in the body too is an error.
func (t *Reader) FromHeader(r *http.Request, verify func(string) (*token.Access, error)) (*token.Access, *iam.User, error) {
	raw, found, err := bearer.FromHeader(r.Header)
	if err != nil {
		return nil, nil, badToken(err)
	}
	if !found {
		return nil, nil, &protocol.Error{Code: http.StatusUnauthorized, Name: protocol.LoginRequired, Challenge: "Bearer",
			Description: "An access token is needed, in the Authorization header."}
	}
	if r.URL.Query().Has("access_token") || inBody(r) {
		return nil, nil, &protocol.Error{Code: http.StatusBadRequest, Name: protocol.InvalidRequest, Challenge: `Bearer error="invalid_request"`,
			Description: "The access token is sent in more than one way."}
	}
	a, err := verify(raw)
	if err != nil {
		return nil, nil, badToken(err)
	}
	u, err := t.Sessions.Resolve(r.Context(), a)
	if errors.Is(err, iam.ErrUnavailable) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, badToken(err)
	}
	return a, u, nil
}

// inBody reports whether the form of a request has an access token (RFC 6750, 2.2), which is not accepted there.
func inBody(r *http.Request) bool {
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") == "" {
		return false
	}
	values, err := protocol.ReadValues(r)
	return err == nil && values.Has("access_token")
}

// badToken returns the error for an invalid access token.
func badToken(err error) *protocol.Error {
	return &protocol.Error{Code: http.StatusUnauthorized, Name: protocol.InvalidToken, Cause: err,
		Description: "The access token is not valid, or no longer.", Challenge: `Bearer error="invalid_token"`}
}
