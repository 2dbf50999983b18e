// Package anonymous authenticates requests without credentials.
package anonymous

import (
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Authenticator authenticates a request that has no Authorization header at all as system:anonymous. An empty header, or one of an
// unknown scheme, is a failed login and not an anonymous request. It stands last in a union that ends at the first error.
type Authenticator struct{}

var _ authenticator.Request = Authenticator{}

// AuthenticateRequest returns system:anonymous of the group system:unauthenticated.
func (Authenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if _, sent := r.Header["Authorization"]; sent {
		return nil, false, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{
		Name: user.Anonymous, Groups: []string{user.AllUnauthenticated},
	}}, true, nil
}
