// Package gitlab logs users in at GitLab.com, or a self-managed GitLab.
package gitlab

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/upstream"
)

// Name is the name of the type in configurations.
const Name = "GitLabIdentityProvider"

// Type returns the type of provider.
func Type() idp.Type { return idp.Type{Name: Name, Open: open} }

type settings struct {
	// BaseURL is the address of the GitLab; "" for https://gitlab.com.
	BaseURL string `json:"baseURL"`
	// Groups says that the paths of the user's groups become groups here.
	Groups       bool   `json:"groups"`
	GroupsPrefix string `json:"groupsPrefix"`

	// Scopes are by default openid, profile and email. openid is required, since the userinfo endpoint needs it.
	upstream.Registration
}

func (s *settings) complete(loopback bool) error {
	if err := s.Confidential(); err != nil {
		return err
	}
	if s.GroupsPrefix != "" && !s.Groups {
		return fmt.Errorf("the key %q has no effect without %q", "groupsPrefix", "groups: true")
	}
	if s.BaseURL == "" {
		s.BaseURL = "https://gitlab.com"
	}
	if err := upstream.Address("baseURL", s.BaseURL, loopback); err != nil {
		return err
	}
	if strings.Contains(s.BaseURL, "?") {
		return fmt.Errorf("the key %q holds an address with a query", "baseURL")
	}
	if err := upstream.Redirect(s.RedirectURL, loopback); err != nil {
		return err
	}
	if len(s.Scopes) == 0 {
		s.Scopes = []string{"openid", "profile", "email"}
	} else if !slices.Contains(s.Scopes, "openid") {
		return fmt.Errorf("the key %q has to hold %q", "scopes", "openid")
	}
	if err := upstream.Prefix("groupsPrefix", s.GroupsPrefix); err != nil {
		return err
	}
	return upstream.Scopes("scopes", s.Scopes)
}

func open(raw []byte, o idp.OpenOptions) (idp.Provider, error) {
	var s settings
	if err := idp.Decode(raw, &s); err != nil {
		return nil, err
	}
	if err := s.complete(o.AllowLoopback); err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(s.BaseURL, "/")
	f, err := s.Flow(base+"/oauth/authorize", base+"/oauth/token", o)
	if err != nil {
		return nil, err
	}
	f.Style, f.Hint, f.Again = upstream.StyleForm, "login_hint", url.Values{"prompt": {"login"}}
	f.PersonAt(base+"/oauth/userinfo", s.person)
	return f, nil
}

// person returns the identity in an answer of the userinfo endpoint. sub is the number of the user, which is never reused.
func (s *settings) person(c upstream.Claims) (*idp.Identity, error) {
	who := &idp.Identity{Subject: c.Subject("sub"), Username: c.First("preferred_username", "nickname", "sub"), DisplayName: c.Text("name")}
	if who.Subject == "" {
		return nil, upstream.Nobody("sub")
	}
	if c.True("email_verified") {
		who.Email = c.Email("email")
	}
	if s.Groups {
		who.Groups = idp.Groups(c.List("groups"), s.GroupsPrefix)
	}
	return who, nil
}
