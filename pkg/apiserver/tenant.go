package apiserver

import (
	"os"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/kapis/dynamic"
	kapistenant "kapis.dev/ks-apiserver/pkg/kapis/tenant"
	"kapis.dev/ks-apiserver/pkg/kapis/tenant/auditing"
	"kapis.dev/ks-apiserver/pkg/tenant"
)

// fleet returns the clusters.
func (p *components) fleet() *tenant.Clusters {
	return &tenant.Clusters{Store: p.store, Host: p.cfg.Multicluster.HostClusterName}
}

// tenantServices returns the routes of workspaces, and those of the kinds of their group.
func (p routes) tenantServices(kinds *dynamic.Handler) []*restful.WebService {
	h := &kapistenant.Handler{
		Resources: p.resources, Streams: p.streams, AsCaller: p.caller(), Fleet: p.fleet(), Labelled: p.rbac, Now: time.Now,
		UserOf: func(name string) user.Info {
			if u := p.users.ByName(name); u != nil {
				return u.Info()
			}
			return nil
		},
	}
	if p.members != nil {
		h.Granted = p.members.Granted
	}
	var all []*restful.WebService
	for _, version := range []string{kapistenant.V1beta1, kapistenant.V1alpha3, kapistenant.V1alpha2} {
		ws := h.WebService(version)
		if version == kapistenant.V1alpha2 && p.audit != nil && p.audit.recent != nil {
			p.recentAudit().Mount(ws)
		}
		kinds.Mount(ws)
		all = append(all, ws)
	}
	return all
}

// recentAudit returns the route of the newest audit events.
func (p routes) recentAudit() *auditing.Handler {
	replica, err := os.Hostname()
	if err != nil {
		replica = "unknown"
	}
	fleet := p.cfg.Multicluster
	return &auditing.Handler{Ring: p.audit.recent, Authorizer: p.may, Replica: replica,
		Clusters: []string{fleet.ClusterName, fleet.HostClusterName, "host"}}
}
