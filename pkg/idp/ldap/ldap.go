// Package ldap is the identity provider for an LDAP directory (RFC 4511). A manager, or an anonymous search, finds the entry of the user
// who logs in, and a bind with the entry's DN and the password checks the password.
//
// Input of users is escaped in filters (RFC 4515, 3) and never becomes part of a DN: DNs come from the directory. Referrals are not
// followed: they would lead passwords to servers that no administrator configured. Searches and binds of users have separate
// connections, so that no search has the rights of the user who logged in last.
package ldap

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/status"
)

// TypeName is the name of the type in configurations.
const TypeName = "LDAPIdentityProvider"

// Limits of the input, in bytes. Longer input is a wrong name or a wrong password, and not sent.
const (
	maxLogin    = 256
	maxPassword = 1024
)

// Provider is one directory.
type Provider struct {
	settings
	address *address
	dial    func(context.Context) (*conn, error)
	// searches are connections of the manager, and proofs those on which users' passwords are checked.
	searches, proofs *pool
}

var (
	_ idp.Password  = (*Provider)(nil)
	_ idp.Refresher = (*Provider)(nil)
)

// Type returns the type of provider.
func Type() idp.Type { return idp.Type{Name: TypeName, Open: open} }

func open(raw []byte, o idp.OpenOptions) (idp.Provider, error) {
	p := &Provider{}
	if err := idp.Decode(raw, &p.settings); err != nil {
		return nil, err
	}
	var err error
	if p.address, err = p.settings.address(); err != nil {
		return nil, err
	}
	if err := p.complete(); err != nil {
		return nil, err
	}
	p.dial = func(ctx context.Context) (*conn, error) { return p.address.dial(ctx, p.timeout(), o.AllowLoopback) }
	p.proofs = newPool(p.dial)
	p.searches = newPool(p.manager)
	return p, nil
}

// Close closes the connections.
func (p *Provider) Close() error {
	p.searches.close()
	p.proofs.close()
	return nil
}

// String returns a name of the provider, and shows no other setting.
func (p *Provider) String() string { return "LDAP directory at " + p.address.hostPort }

// GoString returns the same as String.
func (p *Provider) GoString() string { return p.String() }

// manager returns a connection for searches.
func (p *Provider) manager(ctx context.Context) (*conn, error) {
	c, err := p.dial(ctx)
	if err != nil || p.ManagerDN == "" {
		return c, err
	}
	if err := c.do(ctx, p.timeout(), func() error { return c.Bind(p.ManagerDN, p.ManagerPassword.Reveal()) }); err != nil {
		c.shut()
		return nil, fmt.Errorf("log in as the managerDN: %w", err)
	}
	return c, nil
}

// Login returns the identity with that name and password.
func (p *Provider) Login(ctx context.Context, username, password string) (*idp.Identity, error) {
	if username == "" || password == "" || len(username) > maxLogin || len(password) > maxPassword {
		return nil, idp.ErrCredentials
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	e, err := p.person(ctx, p.equals(p.LoginAttribute, username))
	switch {
	case errors.Is(err, errNobody), errors.Is(err, errSeveral):
		// The same number of requests as for an existing user, so that the time reveals nothing.
		_ = p.prove(ctx, "cn="+rand.Text()+","+p.UserSearchBase, password)
		if errors.Is(err, errSeveral) {
			return nil, fmt.Errorf("%w: %w", idp.ErrCredentials, err)
		}
		return nil, idp.ErrCredentials
	case err != nil:
		return nil, unavailable("search for the person", err)
	}
	if err := p.prove(ctx, e.DN, password); err != nil {
		return nil, err
	}
	if disabled(e) {
		return nil, fmt.Errorf("%w: the entry is disabled", idp.ErrCredentials)
	}
	return p.identity(ctx, e)
}

// Refresh returns the user's current identity.
func (p *Provider) Refresh(ctx context.Context, subject, _ string) (*idp.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	filter, err := p.bySubject(subject)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", idp.ErrGone, err)
	}
	e, err := p.person(ctx, filter)
	switch {
	case errors.Is(err, errNobody), errors.Is(err, errSeveral):
		return nil, fmt.Errorf("%w: %w", idp.ErrGone, err)
	case err != nil:
		return nil, unavailable("search for the person", err)
	case disabled(e):
		return nil, fmt.Errorf("%w: the entry is disabled", idp.ErrGone)
	}
	return p.identity(ctx, e)
}

// Check does the steps of a login up to the password, on a new connection: the pooled ones prove only that the configuration was
// right once.
func (p *Provider) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	c, err := p.manager(ctx)
	if err != nil {
		return wrong("connect", err)
	}
	defer c.shut()
	for _, base := range []struct{ key, dn string }{{"userSearchBase", p.UserSearchBase}, {"groupSearchBase", p.GroupSearchBase}} {
		if base.dn == "" {
			continue
		}
		r, err := p.search(ctx, c, &ldap.SearchRequest{BaseDN: base.dn, Scope: ldap.ScopeBaseObject, Filter: "(objectClass=*)",
			Attributes: []string{"1.1"}, SizeLimit: 2})
		switch {
		case err != nil:
			return wrong("read the "+base.key, err)
		case len(r.Entries) != 1:
			return fmt.Errorf("the %s is not there, or the manager may not see it", base.key)
		}
	}
	return nil
}

// prove checks a password. An error of the user's entry counts as a wrong name or password; an error of the server does not.
func (p *Provider) prove(ctx context.Context, dn, password string) error {
	if dn == "" || password == "" { // an anonymous bind, which succeeds and proves nothing
		return idp.ErrCredentials
	}
	err := p.proofs.with(ctx, func(c *conn) error {
		return c.do(ctx, p.timeout(), func() error { return c.Bind(dn, password) })
	})
	if ldap.IsErrorAnyOf(err, ldap.LDAPResultInvalidCredentials, ldap.LDAPResultInappropriateAuthentication, ldap.LDAPResultUnwillingToPerform,
		ldap.LDAPResultInsufficientAccessRights, ldap.LDAPResultConstraintViolation, ldap.LDAPResultNoSuchObject, ldap.LDAPResultInvalidDNSyntax,
		ldap.LDAPResultReferral) {
		return idp.ErrCredentials
	}
	if err != nil {
		return unavailable("try the password", err)
	}
	return nil
}

// maxText bounds how much of a server's own message is repeated.
const maxText = 300

// unavailable returns the error for a server that could not be asked, with what to check. For a user who logs in, a wrong
// configuration is an outage too.
func unavailable(attempt string, err error) error {
	return fmt.Errorf("%w: %s", idp.ErrUnavailable, explain(attempt, err))
}

// wrong returns the error of a check: an outage, or an answer that shows that the configuration is wrong.
func wrong(attempt string, err error) error {
	if broken(err) || ldap.IsErrorAnyOf(err, ldap.LDAPResultBusy, ldap.LDAPResultUnavailable, ldap.LDAPResultTimeLimitExceeded,
		ldap.LDAPResultAdminLimitExceeded, ldap.LDAPResultOther) {
		return unavailable(attempt, err)
	}
	return errors.New(explain(attempt, err))
}

// explain describes what was attempted, what the server answered, and what to check.
func explain(attempt string, err error) string {
	hint := ""
	switch {
	case ldap.IsErrorAnyOf(err, ldap.LDAPResultConfidentialityRequired, ldap.LDAPResultStrongAuthRequired):
		hint = "; set startTLS, or ldaps:// in host"
	case ldap.IsErrorWithCode(err, ldap.LDAPResultInvalidCredentials):
		hint = "; look at managerDN and managerPassword"
	case ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject):
		hint = "; look at userSearchBase and groupSearchBase"
	case ldap.IsErrorWithCode(err, ldap.LDAPResultReferral):
		hint = "; referrals are not followed: set host to a server that has the entries itself"
	}
	return attempt + ": " + status.Excerpt(strings.ToValidUTF8(err.Error(), "?"), maxText) + hint
}

// search makes one search.
func (p *Provider) search(ctx context.Context, c *conn, r *ldap.SearchRequest) (out *ldap.SearchResult, err error) {
	r.DerefAliases = ldap.NeverDerefAliases
	r.TimeLimit = int((p.timeout() + time.Second - 1) / time.Second)
	err = c.do(ctx, p.timeout(), func() error {
		out, err = c.Search(r)
		return err
	})
	return out, err
}
