// Package github logs users in at GitHub, or a GitHub Enterprise Server.
package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/upstream"
)

// Name is the name of the type in configurations.
const Name = "GitHubIdentityProvider"

const (
	pageSize = 100 // GitHub's maximum
	maxPages = 10
)

// Type returns the type of provider.
func Type() idp.Type { return idp.Type{Name: Name, Open: open} }

type settings struct {
	// Endpoint is for a GitHub Enterprise Server: https://<host>/login/oauth/authorize, https://<host>/login/oauth/access_token and
	// https://<host>/api/v3/user.
	Endpoint upstream.Endpoint `json:"endpoint"`
	// Organizations are the organizations whose members may log in, by name or by number; none for all users of GitHub. A
	// name that an organization gives up can be taken by another one; a number can't. An entry of digits only is a number,
	// never a name.
	Organizations []string `json:"organizations"`
	GroupsPrefix  string   `json:"groupsPrefix"`

	// Scopes are by default user:email, and read:org if Organizations are set. With read:org, organizations and teams become groups.
	upstream.Registration
}

func (s *settings) complete(loopback bool) error {
	if err := s.Confidential(); err != nil {
		return err
	}
	for _, a := range []struct {
		key      string
		into     *string
		fallback string
	}{
		{"endpoint.authURL", &s.Endpoint.AuthURL, "https://github.com/login/oauth/authorize"},
		{"endpoint.tokenURL", &s.Endpoint.TokenURL, "https://github.com/login/oauth/access_token"},
		{"endpoint.userInfoURL", &s.Endpoint.UserInfoURL, "https://api.github.com/user"}, {"redirectURL", &s.RedirectURL, ""},
	} {
		if *a.into == "" {
			*a.into = a.fallback
		} else if err := upstream.Address(a.key, *a.into, loopback); err != nil {
			return err
		}
	}
	if len(s.Scopes) == 0 {
		if s.Scopes = []string{"user:email"}; len(s.Organizations) > 0 {
			s.Scopes = append(s.Scopes, "read:org")
		}
	}
	if len(s.Organizations) > 0 && !s.organizations() {
		return fmt.Errorf("the key %q needs %q in the key %q", "organizations", "read:org", "scopes")
	}
	if s.GroupsPrefix != "" && !s.organizations() {
		return fmt.Errorf("the key %q has no effect without %q in the key %q", "groupsPrefix", "read:org", "scopes")
	}
	if err := upstream.Prefix("groupsPrefix", s.GroupsPrefix); err != nil {
		return err
	}
	return upstream.Scopes("scopes", s.Scopes)
}

func (s *settings) organizations() bool {
	return slices.ContainsFunc(s.Scopes, func(scope string) bool { return strings.HasSuffix(scope, ":org") })
}

type provider struct {
	*upstream.Flow
	settings settings
}

func open(raw []byte, o idp.OpenOptions) (idp.Provider, error) {
	var s settings
	if err := idp.Decode(raw, &s); err != nil {
		return nil, err
	}
	if err := s.complete(o.AllowLoopback); err != nil {
		return nil, err
	}
	f, err := s.Flow(s.Endpoint.AuthURL, s.Endpoint.TokenURL, o)
	if err != nil {
		return nil, err
	}
	f.Style, f.Hint, f.Again, f.Lasting = upstream.StyleForm, "login", url.Values{"prompt": {"select_account"}}, true
	p := &provider{settings: s, Flow: f}
	p.Person = p.person
	return p, nil
}

// account is a person or an organization. Numbers never change, while names can be given up and taken by others.
type account struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Name  string `json:"name"`
}

func (p *provider) person(ctx context.Context, access string) (*idp.Identity, error) {
	var a account
	if err := p.Ask(ctx, p.settings.Endpoint.UserInfoURL, access, &a); err != nil {
		return nil, err
	}
	if a.ID <= 0 {
		return nil, upstream.Nobody("id")
	}
	who := &idp.Identity{Subject: strconv.FormatInt(a.ID, 10), Username: upstream.Line(a.Login, 255), DisplayName: upstream.Line(a.Name, 255)}
	var err error
	if who.Email, err = p.email(ctx, access); err != nil {
		return nil, err
	}
	if !p.settings.organizations() {
		return who, nil
	}
	orgs, err := pages[account](ctx, p, "/orgs", access)
	if err != nil {
		return nil, err
	}
	if !p.admits(orgs) {
		return nil, fmt.Errorf("%w: the person is in none of the organizations that may log in", idp.ErrRefused)
	}
	who.Groups, err = p.groups(ctx, orgs, access)
	return who, err
}

// admits reports whether members of these organizations may log in.
func (p *provider) admits(orgs []account) bool {
	return len(p.settings.Organizations) == 0 || slices.ContainsFunc(orgs, func(o account) bool {
		return slices.ContainsFunc(p.settings.Organizations, func(want string) bool {
			if isNumber(want) {
				return want == strconv.FormatInt(o.ID, 10)
			}
			return o.Login != "" && strings.EqualFold(want, o.Login)
		})
	})
}

// isNumber reports whether a text is the number of an organization, rather than a name. GitHub also allows names of digits only: if those
// were taken for names, anyone could name an organization by the number of another one.
func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// email returns the user's primary address if it is verified.
func (p *provider) email(ctx context.Context, access string) (string, error) {
	if !slices.Contains(p.settings.Scopes, "user:email") && !slices.Contains(p.settings.Scopes, "user") {
		return "", nil
	}
	type address struct {
		Email    string `json:"email"`
		Primary  bool   `json:"primary"`
		Verified bool   `json:"verified"`
	}
	all, err := pages[address](ctx, p, "/emails", access)
	if err != nil {
		return "", err
	}
	for _, a := range all {
		if a.Primary && a.Verified {
			return upstream.Email(a.Email), nil
		}
	}
	return "", nil
}

// groups returns "org" for each organization, and "org/team" for each team.
func (p *provider) groups(ctx context.Context, orgs []account, access string) ([]string, error) {
	type team struct {
		Slug         string  `json:"slug"`
		Organization account `json:"organization"`
	}
	teams, err := pages[team](ctx, p, "/teams", access)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(orgs)+len(teams))
	for _, o := range orgs {
		names = append(names, o.Login)
	}
	for _, t := range teams {
		if t.Slug != "" && t.Organization.Login != "" && !strings.Contains(t.Slug+t.Organization.Login, "/") { // neither name has a slash
			names = append(names, t.Organization.Login+"/"+t.Slug)
		}
	}
	return idp.Groups(names, p.settings.GroupsPrefix), nil
}

// pages reads all pages of a list below the address of the user.
func pages[T any](ctx context.Context, p *provider, below, access string) ([]T, error) {
	var all []T
	for page := range maxPages {
		address, err := url.JoinPath(p.settings.Endpoint.UserInfoURL, below)
		if err == nil {
			address, err = upstream.Extend(address, url.Values{"per_page": {strconv.Itoa(pageSize)}, "page": {strconv.Itoa(page + 1)}})
		}
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := p.Ask(ctx, address, access, &raw); err != nil {
			return nil, err
		}
		var some []T
		if json.Unmarshal(raw, &some) != nil {
			return nil, errors.Join(idp.ErrUnavailable, fmt.Errorf("read the list of the person's %s: it is none", strings.TrimPrefix(below, "/")))
		}
		if all = append(all, some...); len(some) < pageSize {
			break
		}
	}
	return all, nil
}
