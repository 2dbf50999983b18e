package ldap

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"kapis.dev/ks-apiserver/pkg/idp"
)

var (
	errNobody  = errors.New("no entry matches")
	errSeveral = errors.New("more than one entry matches; make userSearchBase or userSearchFilter narrower")
)

// Attributes that say that an entry is disabled.
const (
	lockedTime     = "pwdAccountLockedTime" // OpenLDAP's password policy
	accountControl = "userAccountControl"   // Active Directory
	accountLock    = "nsAccountLock"        // 389 Directory Server
)

const (
	// lockedForGood is the value of pwdAccountLockedTime that an administrator sets. Any other value is a time, set after wrong
	// passwords: that must not end sessions, since anyone can cause it.
	lockedForGood = "000001010000Z"
	// accountDisable is the bit of userAccountControl for disabled accounts.
	accountDisable = 2
)

func (p *Provider) equals(attribute, value string) string {
	return "(" + attribute + "=" + ldap.EscapeFilter(value) + ")"
}

// person returns the one entry below the base that matches. Its other errors are errNobody and errSeveral.
func (p *Provider) person(ctx context.Context, filter string) (*ldap.Entry, error) {
	var found *ldap.SearchResult
	err := p.searches.with(ctx, func(c *conn) (err error) {
		found, err = p.search(ctx, c, &ldap.SearchRequest{
			BaseDN: p.UserSearchBase, Scope: ldap.ScopeWholeSubtree, SizeLimit: 2,
			Filter: "(&" + filter + p.UserSearchFilter + ")", Attributes: p.attributes(),
		})
		return err
	})
	switch {
	case ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded):
		return nil, errSeveral
	case err != nil:
		return nil, err
	case len(found.Entries) == 0:
		return nil, errNobody
	case len(found.Entries) > 1:
		return nil, errSeveral
	}
	return found.Entries[0], nil
}

// attributes returns the attributes that are read of users. Operational attributes have to be named.
func (p *Provider) attributes() []string {
	out := []string{p.LoginAttribute, p.MailAttribute, lockedTime, accountControl, accountLock}
	for _, a := range []string{p.UIDAttribute, p.UserMemberAttribute, p.DisplayNameAttribute} {
		if a != "" {
			out = append(out, a)
		}
	}
	if p.DisplayNameAttribute == "" {
		out = append(out, "displayName", "cn")
	}
	return out
}

// disabled reports whether an administrator of the directory has disabled an entry.
func disabled(e *ldap.Entry) bool {
	if control, err := strconv.ParseInt(e.GetEqualFoldAttributeValue(accountControl), 10, 64); err == nil && control&accountDisable != 0 {
		return true
	}
	return e.GetEqualFoldAttributeValue(lockedTime) == lockedForGood || strings.EqualFold(e.GetEqualFoldAttributeValue(accountLock), "true")
}

// identity returns the Identity of a user's entry.
func (p *Provider) identity(ctx context.Context, e *ldap.Entry) (*idp.Identity, error) {
	id := &idp.Identity{
		Username:    e.GetEqualFoldAttributeValue(p.LoginAttribute),
		Email:       e.GetEqualFoldAttributeValue(p.MailAttribute),
		DisplayName: e.GetEqualFoldAttributeValue(p.DisplayNameAttribute),
	}
	if p.DisplayNameAttribute == "" {
		if id.DisplayName = e.GetEqualFoldAttributeValue("displayName"); id.DisplayName == "" {
			id.DisplayName = e.GetEqualFoldAttributeValue("cn")
		}
	}
	id.Subject = id.Username
	if p.UIDAttribute != "" {
		id.Subject = p.uid(e)
	}
	if id.Username == "" || id.Subject == "" {
		return nil, fmt.Errorf("%w: the person's entry has no %s, or no %s that the manager may read", idp.ErrUnavailable, p.LoginAttribute,
			p.uidAttribute())
	}
	groups, err := p.groups(ctx, e)
	if err != nil {
		return nil, unavailable("search for the person's groups", err)
	}
	id.Groups = idp.Groups(groups, "")
	return id, nil
}

func (p *Provider) uidAttribute() string {
	if p.UIDAttribute == "" {
		return p.LoginAttribute
	}
	return p.UIDAttribute
}

// uid returns the value of the uidAttribute, as text.
func (p *Provider) uid(e *ldap.Entry) string {
	if !strings.EqualFold(p.UIDAttribute, objectGUID) {
		return e.GetEqualFoldAttributeValue(p.UIDAttribute)
	}
	raw := e.GetEqualFoldRawAttributeValue(p.UIDAttribute)
	if len(raw) != 16 {
		return ""
	}
	g := swap([16]byte(raw))
	s := hex.EncodeToString(g[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// swap reverses the byte order of the first three groups of a GUID, which Active Directory stores in another order than it shows.
func swap(b [16]byte) [16]byte {
	return [16]byte{b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]}
}

// bySubject returns the filter that finds the user of a subject.
func (p *Provider) bySubject(subject string) (string, error) {
	if subject == "" || len(subject) > maxPassword {
		return "", errNobody
	}
	if !strings.EqualFold(p.UIDAttribute, objectGUID) {
		return p.equals(p.uidAttribute(), subject), nil
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(subject, "-", ""))
	if err != nil || len(raw) != 16 {
		return "", errors.New("the subject is none of objectGUID; the session was opened with another uidAttribute")
	}
	var b strings.Builder
	for _, x := range swap([16]byte(raw)) {
		fmt.Fprintf(&b, `\%02x`, x)
	}
	return "(" + p.UIDAttribute + "=" + b.String() + ")", nil
}
