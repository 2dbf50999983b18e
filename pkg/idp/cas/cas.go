// Package cas logs users in at a CAS server (CAS Protocol 3.0).
package cas

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/upstream"
)

// Name is the name of the type in configurations.
const Name = "CASIdentityProvider"

// Type returns the type of provider.
func Type() idp.Type { return idp.Type{Name: Name, Open: open} }

type settings struct {
	// CASServerURL is the address of the server, above /login and /p3/serviceValidate.
	CASServerURL string `json:"casServerURL"`
	RedirectURL  string `json:"redirectURL"`
	// SubjectKey is an attribute of users that never changes; "" for the user name.
	SubjectKey string `json:"subjectKey"`
	// EmailKey, DisplayNameKey and GroupsKey are attributes; by default mail, displayName, and none for groups.
	EmailKey       string `json:"emailKey"`
	DisplayNameKey string `json:"displayNameKey"`
	GroupsKey      string `json:"groupsKey"`
	GroupsPrefix   string `json:"groupsPrefix"`

	upstream.Settings
}

// Provider is a CAS server: an idp.Redirect and an idp.Logout.
type Provider struct {
	client   *upstream.Client
	settings settings
	base     string
	now      func() time.Time
}

func open(raw []byte, o idp.OpenOptions) (idp.Provider, error) {
	s := settings{EmailKey: "mail", DisplayNameKey: "displayName"}
	if err := idp.Decode(raw, &s); err != nil {
		return nil, err
	}
	if err := upstream.Address("casServerURL", s.CASServerURL, o.AllowLoopback); err != nil {
		return nil, err
	}
	if strings.Contains(s.CASServerURL, "?") {
		return nil, fmt.Errorf("the key %q holds an address with a query", "casServerURL")
	}
	if s.RedirectURL != "" {
		if err := upstream.Address("redirectURL", s.RedirectURL, o.AllowLoopback); err != nil {
			return nil, err
		}
	}
	if s.GroupsPrefix != "" && s.GroupsKey == "" {
		return nil, fmt.Errorf("the key %q has no effect without the key %q", "groupsPrefix", "groupsKey")
	}
	if err := upstream.Prefix("groupsPrefix", s.GroupsPrefix); err != nil {
		return nil, err
	}
	client, err := upstream.NewClient(s.Settings, o)
	if err != nil {
		return nil, err
	}
	return &Provider{client: client, settings: s, base: strings.TrimSuffix(s.CASServerURL, "/"), now: time.Now}, nil
}

// Check has the server refuse an invalid ticket.
func (p *Provider) Check(ctx context.Context) error {
	ctx, cancel := p.client.Bound(ctx)
	defer cancel()
	service, err := p.service("https://check.invalid/", "check")
	if err == nil {
		_, err = p.validate(ctx, service, "ST-check", false)
	}
	return upstream.Checked(err)
}

// service returns the redirect URI with the state in it, since CAS has no parameter for the state. A ticket is for one service only.
func (p *Provider) service(callback, state string) (string, error) {
	if p.settings.RedirectURL != "" {
		callback = p.settings.RedirectURL
	}
	return upstream.Extend(callback, url.Values{"state": {state}})
}

// Begin returns where to send the browser (CAS Protocol 3.0, 2.1.1).
func (p *Provider) Begin(_ context.Context, b idp.Begin) (string, error) {
	service, err := p.service(b.Callback, b.State)
	if err != nil {
		return "", err
	}
	q := url.Values{"service": {service}}
	if b.Again {
		q.Set("renew", "true")
	}
	return upstream.Extend(p.base+"/login", q)
}

// Finish has the server validate the ticket (2.8), which is valid once, and for the service that it was issued for.
func (p *Provider) Finish(ctx context.Context, c idp.Callback) (*idp.Identity, error) {
	ctx, cancel := p.client.Bound(ctx)
	defer cancel()
	ticket, err := upstream.Code(c.Values, "ticket")
	if err != nil {
		return nil, err
	}
	service, err := p.service(c.Callback, c.Values.Get("state"))
	if err != nil {
		return nil, err
	}
	r, err := p.validate(ctx, service, ticket, c.Again)
	if err != nil {
		return nil, err
	}
	if r.Code != "" {
		return nil, fmt.Errorf("%w: it refuses the ticket: %s", idp.ErrRefused, known(r.Code))
	}
	who, err := p.person(r)
	if err == nil && c.Again {
		who.Authenticated = p.now()
	}
	return who, err
}

// ProvesFreshLogin returns true: with renew, CAS accepts only the ticket of a user who has just entered a password (2.5.1).
func (p *Provider) ProvesFreshLogin() bool { return true }

// validate returns the server's answer about a ticket; with renew, only a ticket of a fresh login is valid. A fault of the server or of
// its settings is an error.
func (p *Provider) validate(ctx context.Context, service, ticket string, renew bool) (*response, error) {
	q := url.Values{"service": {service}, "ticket": {ticket}}
	if renew {
		q.Set("renew", "true")
	}
	address, err := upstream.Extend(p.base+"/p3/serviceValidate", q)
	if err != nil {
		return nil, err
	}
	a, err := p.client.Get(ctx, address, "", "application/xml, text/xml")
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, a.Unexpected()
	}
	r, err := parse(a.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", a.Unreadable("what CAS answers"), err)
	}
	switch r.Code {
	case "INTERNAL_ERROR":
		return nil, fmt.Errorf("%w: it answers %s", idp.ErrUnavailable, r.Code)
	case "UNAUTHORIZED_SERVICE", "UNAUTHORIZED_SERVICE_PROXY":
		if ticket != "ST-check" { // for this ticket no service is registered
			return nil, fmt.Errorf("%w: %w: it does not know this server as a service: %s", idp.ErrUnavailable, upstream.ErrSettings, r.Code)
		}
	}
	return r, nil
}

// known returns a code that CAS Protocol 3.0, 2.5.3 lists; other codes may contain anything.
func known(code string) string {
	if slices.Contains([]string{"INVALID_REQUEST", "INVALID_TICKET_SPEC", "INVALID_TICKET", "INVALID_SERVICE", "INVALID_PROXY_CALLBACK"},
		code) {
		return code
	}
	return "for a reason of its own"
}

// person returns the identity in an answer. The attributes are those of the organization's directory.
func (p *Provider) person(r *response) (*idp.Identity, error) {
	s := p.settings
	claims := upstream.Claims{"user": r.User}
	attribute := func(key string) string {
		if all := r.Attributes[key]; len(all) > 0 {
			return all[0]
		}
		return ""
	}
	who := &idp.Identity{Subject: claims.Subject("user"), Username: claims.Text("user"),
		DisplayName: upstream.Line(attribute(s.DisplayNameKey), 255), Email: upstream.Email(attribute(s.EmailKey))}
	if s.SubjectKey != "" {
		if len(r.Attributes[s.SubjectKey]) > 1 {
			return nil, fmt.Errorf("%w: the person has more than one %q", idp.ErrRefused, s.SubjectKey)
		}
		who.Subject = upstream.Claims{"subject": attribute(s.SubjectKey)}.Subject("subject")
	}
	if who.Subject == "" {
		return nil, fmt.Errorf("%w: it names nobody", idp.ErrRefused)
	}
	if s.GroupsKey != "" {
		who.Groups = idp.Groups(r.Attributes[s.GroupsKey], s.GroupsPrefix)
	}
	return who, nil
}

// Logout returns the page that ends the user's session at CAS (2.3).
func (p *Provider) Logout(_ context.Context, _, back, state string) (string, error) {
	q := url.Values{}
	if back != "" {
		service, err := upstream.Extend(back, url.Values{"state": {state}})
		if err != nil {
			return "", err
		}
		q.Set("service", service)
	}
	return upstream.Extend(p.base+"/logout", q)
}
