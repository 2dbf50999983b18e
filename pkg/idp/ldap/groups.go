package ldap

import (
	"context"
	"errors"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"kapis.dev/ks-apiserver/pkg/idp"
)

const (
	// pageSize is how many groups are requested at once (RFC 2696); servers answer 500 to 1000 at most.
	pageSize = 250
	// maxDepth is how deep nested groups are followed, and perQuestion how many of them one search asks about.
	maxDepth    = 10
	perQuestion = 25
	// maxFound bounds the groups that are read for one user.
	maxFound = 4 * idp.MaxGroups
)

// errTooMany says that a user is in more groups than can be read. Which of them were read would be random.
var errTooMany = errors.New("the person is in too many groups; make groupSearchBase or groupSearchFilter narrower")

// groups returns the names of a user's groups.
func (p *Provider) groups(ctx context.Context, e *ldap.Entry) ([]string, error) {
	var named []string
	if p.UserMemberAttribute != "" {
		if named = e.GetEqualFoldAttributeValues(p.UserMemberAttribute); len(named) > maxFound {
			return nil, errTooMany
		}
	}
	if p.GroupSearchBase == "" {
		return firstValues(named), nil
	}
	s := &groupSearch{provider: p, ctx: ctx, names: map[string]string{}}
	err := p.searches.with(ctx, func(c *conn) error {
		s.conn = c
		clear(s.names) // it may be a retry
		return s.run(e, named)
	})
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(s.names))
	for _, name := range s.names {
		out = append(out, name)
	}
	return out, nil
}

// firstValues returns the names of groups of which only the DN is known: the value of its first part, as in cn=developers,ou=groups. A
// text that is no DN is already a name.
func firstValues(dns []string) []string {
	out := make([]string, 0, len(dns))
	for _, s := range dns {
		if dn, err := ldap.ParseDN(s); err == nil && len(dn.RDNs) > 0 {
			s = dn.RDNs[0].Attributes[0].Value
		}
		out = append(out, s)
	}
	return out
}

// groupSearch finds the groups of one user.
type groupSearch struct {
	provider *Provider
	ctx      context.Context //nolint:containedctx // it lives as long as one call
	conn     *conn
	names    map[string]string // by the normalized DN; "" for a group without a name
	next     []string          // DNs whose groups have to be searched
}

func (s *groupSearch) run(e *ldap.Entry, named []string) error {
	p := s.provider
	who := e.DN
	if strings.EqualFold(p.GroupMemberAttribute, memberUID) {
		who = e.GetEqualFoldAttributeValue(p.LoginAttribute)
	}
	s.next = nil
	if err := s.holding([]string{who}); err != nil {
		return err
	}
	if err := s.read(named); err != nil {
		return err
	}
	for depth := 0; p.NestedGroups && depth < maxDepth && len(s.next) > 0; depth++ {
		level := s.next
		s.next = nil
		for len(level) > 0 {
			n := min(len(level), perQuestion)
			if err := s.holding(level[:n]); err != nil {
				return err
			}
			level = level[n:]
		}
	}
	return nil
}

// holding finds the groups that have one of the members, page by page.
func (s *groupSearch) holding(members []string) error {
	p := s.provider
	var any strings.Builder
	for _, m := range members {
		any.WriteString(p.equals(p.GroupMemberAttribute, m))
	}
	paging := ldap.NewControlPaging(pageSize)
	for {
		r, err := p.search(s.ctx, s.conn, &ldap.SearchRequest{
			BaseDN: p.GroupSearchBase, Scope: ldap.ScopeWholeSubtree,
			Filter: "(&(|" + any.String() + ")" + p.GroupSearchFilter + ")", Attributes: []string{p.GroupNameAttribute},
			Controls: []ldap.Control{paging},
		})
		if err != nil {
			return err
		}
		if err := s.add(r.Entries); err != nil {
			return err
		}
		answered, ok := ldap.FindControl(r.Controls, ldap.ControlTypePaging).(*ldap.ControlPaging)
		if !ok || len(answered.Cookie) == 0 {
			return nil
		}
		paging.SetCookie(answered.Cookie)
	}
}

// read reads the groups that the user's own entry names: those below the base that match the filter.
func (s *groupSearch) read(dns []string) error {
	p := s.provider
	base, err := ldap.ParseDN(p.GroupSearchBase)
	if err != nil {
		return err
	}
	for _, name := range dns {
		dn, err := ldap.ParseDN(name)
		if err != nil || !base.AncestorOfFold(dn) {
			continue
		}
		if _, known := s.names[normal(dn)]; known {
			continue
		}
		filter := p.GroupSearchFilter
		if filter == "" {
			filter = "(objectClass=*)"
		}
		r, err := p.search(s.ctx, s.conn, &ldap.SearchRequest{
			BaseDN: name, Scope: ldap.ScopeBaseObject, Filter: filter, Attributes: []string{p.GroupNameAttribute}, SizeLimit: 2,
		})
		if ldap.IsErrorAnyOf(err, ldap.LDAPResultNoSuchObject, ldap.LDAPResultReferral) {
			continue // deleted, and still named; or outside the base
		}
		if err != nil {
			return err
		}
		if err := s.add(r.Entries); err != nil {
			return err
		}
	}
	return nil
}

// add adds groups that are not known yet, so that groups which contain each other cause no loop.
func (s *groupSearch) add(entries []*ldap.Entry) error {
	for _, e := range entries {
		dn, err := ldap.ParseDN(e.DN)
		if err != nil {
			continue
		}
		key := normal(dn)
		if _, known := s.names[key]; known {
			continue
		}
		if len(s.names) == maxFound {
			return errTooMany
		}
		s.names[key] = e.GetEqualFoldAttributeValue(s.provider.GroupNameAttribute)
		s.next = append(s.next, e.DN)
	}
	return nil
}

// normal returns the normalized form of a DN, which is equal for equal DNs.
func normal(dn *ldap.DN) string { return strings.ToLower(dn.String()) }
