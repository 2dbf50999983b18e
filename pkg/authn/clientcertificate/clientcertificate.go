// Package clientcertificate authenticates users by the client certificate of their connection (RFC 8446, 4.4.2).
package clientcertificate

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Authenticator authenticates the holders of certificates of the directory's authorities. A certificate can't be revoked: its holder's
// User is suspended, or the link of the two removed.
type Authenticator struct {
	// Directory has the authorities.
	Directory *idp.Directory
	Accounts  idp.Accounts
	// Origin is the origin of this server's pages. Requests that a page of another origin made a browser send are refused, because
	// browsers send certificates by themselves.
	Origin string
	// Now returns the time.
	Now func() time.Time
}

var _ authenticator.Request = (*Authenticator)(nil)

// AuthenticateRequest returns the user who holds the certificate of the connection.
func (a *Authenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil, false, nil
	}
	for _, e := range a.Directory.Certificates() {
		id, err := e.Provider.(idp.Certificate).Holder(r.TLS, a.Now())
		if err == nil && id == nil {
			continue
		}
		if err == nil {
			err = web.CheckSameOrigin(r, a.Origin)
		}
		var u user.Info
		if err == nil {
			u, err = a.Accounts.Vouched(r.Context(), e, id)
		}
		if err != nil {
			return nil, false, fmt.Errorf("the client certificates of %q: %w", e.Name, err)
		}
		return &authenticator.Response{User: u}, true, nil
	}
	return nil, false, nil
}
