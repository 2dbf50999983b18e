package lite

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/web"
)

// missing answers requests for what only our programs have, in a cluster without them. A kind that the cluster has is served all the same.
func missing(name string, catalog *store.Catalog) filter.Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			info := request.InfoFrom(r.Context())
			byName := info != nil && info.APIGroup == resources.Group && info.APIVersion == "v1alpha3" && isKind(catalog, info)
			if info == nil || info.IsKubernetes || !isOurs(info) || byName {
				next.ServeHTTP(w, r)
				return
			}
			if _, found := catalog.Preferred(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}); found {
				next.ServeHTTP(w, r)
				return
			}
			web.WriteError(w, r, status.Errorf(http.StatusNotImplemented, "the cluster %q is served by its kube-apiserver alone: no program of ours"+
				" runs there, so it has no %s; /api, /apis, and lists of its own kinds work", name, info.Path))
		})
	}
}

// isKind reports whether a request by a plural name alone is for a kind that the cluster has.
func isKind(catalog *store.Catalog, i *request.Info) bool {
	_, known := catalog.GroupOf(i.Resource)
	return known
}

// isOurs reports whether a request is for a group, or a path, that only our programs have.
func isOurs(i *request.Info) bool {
	if !i.IsResource {
		return !isDescription(i.Path)
	}
	return i.Workspace != "" || i.APIGroup == "kubesphere.io" || strings.HasSuffix(i.APIGroup, ".kubesphere.io") ||
		strings.HasSuffix(i.APIGroup, ".kapis.dev")
}
