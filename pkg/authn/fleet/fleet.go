// Package fleet authenticates the users whom the hub of this fleet names on links. The hub has proved who it is when the link was opened
// (pkg/cluster/link), so its word is taken for the user's name, UID and groups; what they may do here is decided here.
package fleet

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
)

// The headers in which a hub names the user of a request. Clients of this server can't send them: filter.Authentication removes them.
const (
	HeaderUser  = link.HeaderUser
	HeaderUID   = link.HeaderUID
	HeaderGroup = link.HeaderGroup
	HeaderScope = link.HeaderScope
)

var (
	errNobody = errors.New("the hub names no user, or one whose name belongs to Kubernetes or to this server")
	errLocal  = errors.New("a user of this cluster has the name already: an administrator of the cluster has to rename or delete it")
)

// Authenticator authenticates requests that came over a link. It knows nobody else.
type Authenticator struct {
	// Local returns the UID of the user of this cluster that has a name, "" for none; nil for a cluster that has no users. Its error is a
	// Status of 503 where there may be one that is not known yet.
	Local func(name string) (uid string, err error)
}

var _ authenticator.Request = (*Authenticator)(nil)

// Trusts reports whether the hub has sent a request.
func (*Authenticator) Trusts(r *http.Request) bool { return link.FromHub(r.Context()) }

// Headers returns the names of the headers in which the hub names users.
func (*Authenticator) Headers() []string {
	return []string{HeaderUser, HeaderUID, HeaderGroup, HeaderScope}
}

// HeaderPrefixes returns none.
func (*Authenticator) HeaderPrefixes() []string { return nil }

// AuthenticateRequest returns the user whom the hub names. A request of the hub without one fails: no other way to authenticate counts on a
// link.
func (a *Authenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if !link.FromHub(r.Context()) {
		return nil, false, nil
	}
	names, uids := r.Header[HeaderUser], r.Header[http.CanonicalHeaderKey(HeaderUID)]
	if len(names) != 1 || len(uids) != 1 || !isPerson(names[0]) || uids[0] == "" {
		return nil, false, errNobody
	}
	u := &user.DefaultInfo{Name: names[0], UID: uids[0]}
	if err := a.checkLocal(u); err != nil {
		return nil, false, fmt.Errorf("user %q of the fleet: %w", u.Name, err)
	}
	for _, g := range r.Header[HeaderGroup] {
		if isPerson(g) {
			u.Groups = append(u.Groups, g)
		}
	}
	u.Groups = append(u.Groups, user.AllAuthenticated)
	if scope := r.Header[HeaderScope]; len(scope) > 0 {
		u.Extra = map[string][]string{authz.ExtraScope: slices.Clone(scope)}
	}
	return &authenticator.Response{User: u}, true, nil
}

// checkLocal returns an error unless the name is free in this cluster, or the user's here, too.
func (a *Authenticator) checkLocal(u *user.DefaultInfo) error {
	if a.Local == nil {
		return nil
	}
	local, err := a.Local(u.Name)
	if err == nil && local != "" && local != u.UID {
		err = errLocal
	}
	return err
}

// isPerson reports whether a name can be that of a person, or of a group of people.
func isPerson(name string) bool {
	return name != "" && !strings.HasPrefix(name, "system:") && !strings.HasPrefix(name, "kapis:")
}
