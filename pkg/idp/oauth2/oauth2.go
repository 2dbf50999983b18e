// Package oauth2 logs users in at any OAuth 2.0 server with an endpoint that returns the user of an access token. Only
// that endpoint is trusted; tokens themselves are not parsed.
package oauth2

import (
	"fmt"
	"net/url"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/upstream"
)

// Name is the name of the type in configurations.
const Name = "OAuth2IdentityProvider"

// Type returns the type of provider.
func Type() idp.Type { return idp.Type{Name: Name, Open: open} }

type settings struct {
	Endpoint upstream.Endpoint `json:"endpoint"`
	// SubjectKey is the key of the user's identifier, which never changes and is never reused: text, or an integer.
	SubjectKey string `json:"subjectKey"`
	// UsernameKey, EmailKey, DisplayNameKey and GroupsKey are the keys of these values; "" for none.
	UsernameKey    string `json:"usernameKey"`
	DisplayNameKey string `json:"displayNameKey"`
	EmailKey       string `json:"emailKey"`
	GroupsKey      string `json:"groupsKey"`
	GroupsPrefix   string `json:"groupsPrefix"`

	upstream.Registration // a public client has no secret
}

func (s *settings) check(loopback bool) error {
	switch {
	case s.ClientID == "":
		return fmt.Errorf("the key %q is missing", "clientID")
	case s.SubjectKey == "":
		return fmt.Errorf("the key %q is missing: it names what never changes of a person, such as an id", "subjectKey")
	case s.GroupsPrefix != "" && s.GroupsKey == "":
		return fmt.Errorf("the key %q has no effect without the key %q", "groupsPrefix", "groupsKey")
	}
	if err := s.Endpoint.Check(loopback); err != nil {
		return err
	}
	if err := upstream.Redirect(s.RedirectURL, loopback); err != nil {
		return err
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
	if err := s.check(o.AllowLoopback); err != nil {
		return nil, err
	}
	f, err := s.Flow(s.Endpoint.AuthURL, s.Endpoint.TokenURL, o)
	if err != nil {
		return nil, err
	}
	f.Hint, f.Again = "login_hint", url.Values{"prompt": {"login"}}
	f.PersonAt(s.Endpoint.UserInfoURL, s.person)
	return f, nil
}

func (s *settings) person(c upstream.Claims) (*idp.Identity, error) {
	who := &idp.Identity{Subject: c.Subject(s.SubjectKey)}
	if who.Subject == "" {
		return nil, upstream.Nobody(s.SubjectKey)
	}
	if s.UsernameKey != "" {
		who.Username = c.Text(s.UsernameKey)
	}
	if who.Username == "" {
		who.Username = who.Subject
	}
	if s.DisplayNameKey != "" {
		who.DisplayName = c.Text(s.DisplayNameKey)
	}
	if s.EmailKey != "" && (!c.Has("email_verified") || c.True("email_verified")) {
		who.Email = c.Email(s.EmailKey)
	}
	if s.GroupsKey != "" {
		who.Groups = idp.Groups(c.List(s.GroupsKey), s.GroupsPrefix)
	}
	return who, nil
}
