package lite

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// bindings are the kinds that name users in a cluster without ours.
var bindings = []schema.GroupVersionResource{
	rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"),
	rbacv1.SchemeGroupVersion.WithResource("rolebindings"),
}

// bound returns the users whom the bindings of a cluster name, but for those of Kubernetes itself.
func bound(ctx context.Context, caches *store.Store) ([]string, error) {
	names := map[string]bool{}
	for _, kind := range bindings {
		snap, err := caches.Snapshot(ctx, kind)
		if err != nil {
			return nil, err
		}
		snap.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
			var o struct{ Subjects []rbacv1.Subject }
			if json.Unmarshal([]byte(snap.Record(ref).JSON.String()), &o) != nil {
				return true
			}
			for _, s := range o.Subjects {
				if s.Kind == rbacv1.UserKind && !strings.HasPrefix(s.Name, "system:") {
					names[s.Name] = true
				}
			}
			return true
		})
	}
	return slices.SortedFunc(maps.Keys(names), cmp.Compare[string]), nil
}
