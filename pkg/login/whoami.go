package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Person is the user who is logged in, as the server describes them (OpenID Connect Core 1.0, 5.1).
type Person struct {
	// Subject is the stable identifier, and Username the name that rights refer to; "" without the scope profile.
	Subject  string `json:"sub"`
	Username string `json:"preferred_username,omitempty"`
	Email    string `json:"email,omitempty"`
	// Groups are the groups in the claims of the scope groups.
	Groups []string `json:"groups,omitempty"`
}

// Name returns the username, or else the subject; it is safe to be shown on a terminal.
func (p *Person) Name() string { return plain(cmp.Or(p.Username, p.Subject)) }

// Whoami asks the server for the user, and logs in first if necessary.
func (s *Session) Whoami(ctx context.Context) (*Person, error) {
	t, err := s.Token(ctx)
	if err != nil {
		return nil, err
	}
	who, err := s.ask(ctx, t.Access)
	if errors.Is(err, errRefused) {
		return nil, fmt.Errorf("%w any more: log in again (kubectl ks login)", err)
	}
	return who, err
}

// ask asks the userinfo endpoint for the user of a token.
func (s *Session) ask(ctx context.Context, access string) (*Person, error) {
	p, err := s.discover(ctx)
	if err != nil {
		return nil, err
	}
	if p.UserInfo == "" {
		return nil, fmt.Errorf("%s has no endpoint that says who is logged in", s.Issuer)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.UserInfo, nil)
	if err != nil {
		return nil, fmt.Errorf("ask who is logged in: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+access)
	var who Person
	if err := call(s.http, req, &who); err != nil {
		return nil, s.explain(fmt.Errorf("ask who is logged in: %w", err))
	}
	for i, g := range who.Groups {
		who.Groups[i] = plain(g) // they are shown on terminals
	}
	return &who, nil
}
