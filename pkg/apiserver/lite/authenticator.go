package lite

import (
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	authnfleet "kapis.dev/ks-apiserver/pkg/authn/fleet"
)

// people authenticates the users whom the hub names, in those of their groups that the cluster's administrator lets count.
type people struct {
	authnfleet.Authenticator
	groups []string // sorted
}

// AuthenticateRequest implements authenticator.Request.
func (p *people) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	got, ok, err := p.Authenticator.AuthenticateRequest(r)
	if err != nil || !ok {
		return nil, false, err
	}
	u := got.User
	var groups []string
	for _, g := range u.GetGroups() {
		if _, counts := slices.BinarySearch(p.groups, g); counts || g == user.AllAuthenticated {
			groups = append(groups, g)
		}
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: groups, Extra: u.GetExtra()}}, true, nil
}
