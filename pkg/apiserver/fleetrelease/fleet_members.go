// Package fleetrelease gives the routes of releases, and the removal of users from workspaces, the members of the fleet.
package fleetrelease

import (
	"context"
	"net/http"
	"slices"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/apiserver/fleet"
	"kapis.dev/ks-apiserver/pkg/apiserver/fleetlist"
	appstore "kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/application/release"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/removal"
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
		AsCaller: asCaller(h, may, streams),
	}
}

func asCaller(h *fleet.Hub, may authz.Authorizer, streams *stream.Guard) caller.Client {
	return caller.Client{May: may, Kube: within{proxy.NewMembers(h.Members.ByName, streams)}}
}

// Removal returns the members of a fleet for the removal of users from workspaces; nil where this server is no hub. May decides who may
// enter a member.
func Removal(h *fleet.Hub, may authz.Authorizer, streams *stream.Guard, placed Placed) *removal.Fleet {
	if h == nil {
		return nil
	}
	return &removal.Fleet{Placed: having(h, placed), AsCaller: asCaller(h, may, streams)}
}

// Placed returns the names of the clusters that a WorkspaceTemplate, in JSON, is placed in. tenant.Clusters has one.
type Placed func(ctx context.Context, template string) ([]string, error)

// having returns the names, each once, of those clusters that are members in which the hub keeps workspaces.
func having(h *fleet.Hub, placed Placed) Placed {
	return func(ctx context.Context, template string) ([]string, error) {
		if err := h.Known(); err != nil { // a member that has not been read yet would be left out
			return nil, err
		}
		names, err := placed(ctx, template)
		if err != nil {
			return nil, err
		}
		slices.Sort(names)
		return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
			m := h.Members.ByName(name)
			return m == nil || m.Lite || m.SharedSecret
		}), nil
	}
}

// within sends requests to members by what this server passes their requests on with.
type within struct{ members http.Handler }

// RoundTrip implements http.RoundTripper.
func (w within) RoundTrip(r *http.Request) (*http.Response, error) {
	return fleetlist.Serve(w.members, r)
}
