package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// ownBindings are the kinds of bindings that a member has of its own.
var ownBindings = []schema.GroupVersionResource{
	iamv1beta1.SchemeGroupVersion.WithResource("clusterrolebindings"),
	iamv1beta1.SchemeGroupVersion.WithResource("rolebindings"),
}

// namespacesKind is the kind of the namespaces, whose labels say which are the system's.
var namespacesKind = corev1.SchemeGroupVersion.WithResource("namespaces")

// bound knows whom a member's own bindings name.
type bound struct {
	caches fleetsync.Snapshots

	mu    sync.Mutex
	users *fleetsync.Bound
	names *cluster.BoundNames
	// at are the generations that users and names are of. They grow without a change, and are of this replica: a hub that was told them
	// would compare everything each time.
	at string
}

// now returns the users.
func (b *bound) now(ctx context.Context) (*fleetsync.Bound, error) {
	users, _, err := b.read(ctx)
	return users, err
}

// others returns the other names.
func (b *bound) others(ctx context.Context) (*cluster.BoundNames, error) {
	_, names, err := b.read(ctx)
	return names, err
}

// read costs nothing while no binding and no namespace changes.
func (b *bound) read(ctx context.Context) (*fleetsync.Bound, *cluster.BoundNames, error) {
	namespaces, err := b.caches.Snapshot(ctx, namespacesKind)
	if err != nil {
		return nil, nil, err
	}
	var snaps []*index.Snapshot
	at := strconv.FormatUint(namespaces.Generation(), 10) + " "
	for _, k := range ownBindings {
		snap, err := b.caches.Snapshot(ctx, k)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		snaps, at = append(snaps, snap), at+strconv.FormatUint(snap.Generation(), 10)+" "
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users != nil && b.at == at {
		return b.users, b.names, nil
	}
	users, clusterUsers, groups := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, snap := range snaps {
		snap.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
			var o struct {
				Subjects []struct{ Kind, Name string } `json:"subjects"`
			}
			if json.Unmarshal([]byte(snap.Record(ref).JSON.String()), &o) != nil {
				return true
			}
			wide := holdsInCluster(namespaces, ref.Namespace)
			for _, s := range o.Subjects {
				switch s.Kind {
				case rbacv1.UserKind:
					users[s.Name] = true
					if wide {
						clusterUsers[s.Name] = true
					}
				case rbacv1.GroupKind:
					groups[s.Name] = true
				}
			}
			return true
		})
	}
	all := slices.Sorted(maps.Keys(users))
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, nil, fmt.Errorf("encode whom bindings name: %w", err)
	}
	sum := sha256.Sum256(raw)
	b.at, b.users = at, &fleetsync.Bound{Version: hex.EncodeToString(sum[:16]), Users: all}
	b.names = &cluster.BoundNames{ClusterUsers: slices.Sorted(maps.Keys(clusterUsers)), Groups: slices.Sorted(maps.Keys(groups))}
	return b.users, b.names, nil
}

// holdsInCluster reports whether a binding holds in the whole cluster, which has the namespace "", or in a namespace of its system.
func holdsInCluster(namespaces *index.Snapshot, namespace string) bool {
	if namespace == "" || tenantv1beta1.IsSystemNamespace(namespace) {
		return true
	}
	record, found := namespaces.Get("", namespace)
	if !found {
		return false
	}
	workspace, _ := record.Labels.Get(tenantv1beta1.LabelWorkspace)
	return workspace == tenantv1beta1.SystemWorkspace
}
