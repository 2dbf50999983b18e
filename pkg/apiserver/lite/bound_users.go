package lite

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// bindings are the kinds that name users in a cluster without ours.
var bindings = []schema.GroupVersionResource{
	rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"),
	rbacv1.SchemeGroupVersion.WithResource("rolebindings"),
}

// bound returns the users whom the bindings of a cluster name, but for those of Kubernetes itself, and those of bindings that hold in the
// whole cluster, or in a namespace of its system.
func bound(ctx context.Context, caches *store.Store) (users, clusterUsers []string, err error) {
	names, wide := map[string]bool{}, map[string]bool{}
	for _, kind := range bindings {
		snap, err := caches.Snapshot(ctx, kind)
		if err != nil {
			return nil, nil, err
		}
		snap.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
			var o struct{ Subjects []rbacv1.Subject }
			if json.Unmarshal([]byte(snap.Record(ref).JSON.String()), &o) != nil {
				return true
			}
			for _, s := range o.Subjects {
				if s.Kind == rbacv1.UserKind && !strings.HasPrefix(s.Name, "system:") {
					names[s.Name] = true
					if ref.Namespace == "" || tenantv1beta1.IsSystemNamespace(ref.Namespace) {
						wide[s.Name] = true
					}
				}
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(names)), slices.Sorted(maps.Keys(wide)), nil
}
