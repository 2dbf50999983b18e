// Package fleetrelease gives the routes of releases the members of the fleet.
package fleetrelease

import (
	"net/http"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/apiserver/fleet"
	"kapis.dev/ks-apiserver/pkg/apiserver/fleetlist"
	appstore "kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/application/release"
	"kapis.dev/ks-apiserver/pkg/proxy"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// Members returns the members of a fleet for the routes of releases; nil where this server is no hub. May decides who may enter a member.
func Members(h *fleet.Hub, may authz.Authorizer, streams *stream.Guard) *release.Fleet {
	if h == nil {
		return nil
	}
	return &release.Fleet{
		Check: func(name string) error {
			switch m := h.Members.ByName(name); {
			case m == nil:
				return appstore.Invalidf("metadata.labels: %s is %.63q: there is no such cluster", v2.LabelCluster, name)
			case m.Lite:
				return status.Errorf(http.StatusNotImplemented, "%s", appstore.NoPrograms(name))
			}
			return nil
		},
		AsCaller: caller.Client{May: may, Kube: within{proxy.NewMembers(h.Members.ByName, streams)}},
	}
}

// within sends requests to members by what this server passes their requests on with.
type within struct{ members http.Handler }

// RoundTrip implements http.RoundTripper.
func (w within) RoundTrip(r *http.Request) (*http.Response, error) {
	return fleetlist.Serve(w.members, r)
}
