package formstate

import (
	"errors"
	"net/http"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
)

// AuthnResult is an iam.AuthnResult as it is sealed in a form.
type AuthnResult struct {
	User, UID string `json:",omitempty"`
	// Credential is the user's credential: a result with another one is no longer valid.
	Credential   string            `json:",omitempty"`
	Registration *iam.Registration `json:",omitempty"`
	Provider     string            `json:",omitempty"`
	Subject      string            `json:",omitempty"`
	Groups       []string          `json:",omitempty"`
	Hint         string            `json:",omitempty"`
	Refresh      string            `json:",omitempty"`
	Methods      []string          `json:",omitempty"`
	At           time.Time
	// Authenticated is when the provider authenticated the user.
	Authenticated time.Time `json:",omitzero"`
	Pending       bool      `json:",omitempty"`
}

// PackResult returns a result in the form in which it is sealed, with what a session would keep of it.
func PackResult(p *iam.AuthnResult) *AuthnResult {
	p = p.Bounded()
	out := &AuthnResult{Registration: p.Registration, Provider: p.Provider, Subject: p.Subject, Groups: p.Groups,
		Hint: p.Hint, Refresh: p.Refresh, Methods: p.Methods, At: p.At, Authenticated: p.Authenticated, Pending: p.Pending}
	if p.User != nil {
		out.User, out.UID, out.Credential = p.User.Name, p.User.UID, p.User.Credential()
	}
	return out
}

// UnpackResult returns the result with the user as it is now.
func (f *Forms) UnpackResult(in *AuthnResult) (*iam.AuthnResult, error) {
	if in == nil || f.Now().Sub(in.At) > ResultLife {
		return nil, Stale(errors.New("the authentication is too long ago"))
	}
	p := &iam.AuthnResult{Registration: in.Registration, Provider: in.Provider, Subject: in.Subject, Groups: in.Groups,
		Hint: in.Hint, Refresh: in.Refresh, Methods: in.Methods, At: in.At, Authenticated: in.Authenticated, Pending: in.Pending}
	if in.User == "" {
		return p, nil
	}
	var err error
	if p.User, err = f.Users(in.User, in.UID); err != nil {
		return nil, err
	}
	if p.User == nil || p.User.Credential() != in.Credential {
		return nil, Stale(errors.New("the user is gone, or has another password"))
	}
	return p, nil
}

// OpenResult opens a form state and the authentication result in it.
func (f *Forms) OpenResult(r *http.Request, name Name, sealed string) (*State, *iam.AuthnResult, error) {
	p, err := f.Open(r, name, sealed)
	if err != nil {
		return nil, nil, err
	}
	result, err := f.UnpackResult(p.Result)
	return p, result, err
}
