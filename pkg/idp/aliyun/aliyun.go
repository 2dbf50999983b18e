// Package aliyun logs users in at Alibaba Cloud IDaaS.
package aliyun

import (
	"net/url"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/upstream"
)

// Name is the name of the type in configurations.
const Name = "AliyunIDaaSProvider"

// Type returns the type of provider.
func Type() idp.Type { return idp.Type{Name: Name, Open: open} }

type settings struct {
	// Endpoint has the addresses that the application's page at IDaaS shows.
	Endpoint upstream.Endpoint `json:"endpoint"`

	upstream.Registration
}

func (s *settings) check(loopback bool) error {
	if err := s.Confidential(); err != nil {
		return err
	}
	if err := s.Endpoint.Check(loopback); err != nil {
		return err
	}
	if err := upstream.Redirect(s.RedirectURL, loopback); err != nil {
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
	f.Again = url.Values{"prompt": {"login"}}
	f.PersonAt(s.Endpoint.UserInfoURL, person)
	return f, nil
}

// person returns the identity in an answer. The first generation of IDaaS wraps it in "data".
func person(c upstream.Claims) (*idp.Identity, error) {
	if data, ok := c["data"].(map[string]any); ok {
		c = data
	}
	who := &idp.Identity{Subject: c.Subject("sub"), Username: c.First("username", "preferred_username", "sub"),
		DisplayName: c.First("nickname", "name")}
	if who.Subject == "" {
		return nil, upstream.Nobody("sub")
	}
	if !c.Has("email_verified") || c.True("email_verified") { // the administrator of the instance creates the accounts
		who.Email = c.Email("email")
	}
	return who, nil
}
