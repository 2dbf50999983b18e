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

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
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

// widerBindings are kinds of which a member has some of its own, and the hub keeps others there. Who may enter the member, and which
// Users the hub sends, goes by ownBindings alone.
var widerBindings = []schema.GroupVersionResource{
	iamv1beta1.SchemeGroupVersion.WithResource("globalrolebindings"),
	iamv1beta1.SchemeGroupVersion.WithResource("workspacerolebindings"),
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
	snaps := map[string]*index.Snapshot{}
	at := strconv.FormatUint(namespaces.Generation(), 10) + " "
	for _, k := range slices.Concat(ownBindings, widerBindings) {
		snap, err := b.caches.Snapshot(ctx, k)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		snaps[k.Resource] = snap
		at += strconv.FormatUint(snap.Generation(), 10) + " "
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users != nil && b.at == at {
		return b.users, b.names, nil
	}
	found := namesOf(namespaces, snaps)
	all := slices.Sorted(maps.Keys(found.users))
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, nil, fmt.Errorf("encode whom bindings name: %w", err)
	}
	sum := sha256.Sum256(raw)
	b.at, b.users = at, &fleetsync.Bound{Version: hex.EncodeToString(sum[:16]), Users: all}
	b.names = &cluster.BoundNames{ClusterUsers: slices.Sorted(maps.Keys(found.clusterUsers)),
		WorkspaceUsers: slices.Sorted(maps.Keys(found.workspaceUsers)), Groups: slices.Sorted(maps.Keys(found.groups))}
	return b.users, b.names, nil
}

// boundNames are the names in bindings: users of ownBindings, and of all kinds those that hold in the cluster, in a workspace, and groups.
type boundNames struct{ users, clusterUsers, workspaceUsers, groups map[string]bool }

// namesOf returns the names in a member's own bindings, by their kinds.
func namesOf(namespaces *index.Snapshot, snaps map[string]*index.Snapshot) *boundNames {
	out := &boundNames{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for kind, snap := range snaps {
		snap.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
			record := snap.Record(ref)
			workspace, _ := record.Labels.Get(tenantv1beta1.LabelWorkspace)
			into := []map[string]bool{out.users}
			switch _, ofHub := record.Labels.Get(clusterv1alpha1.LabelFleet); {
			case kind == "globalrolebindings" && !ofHub, kind == "workspacerolebindings" && !ofHub && workspace == tenantv1beta1.SystemWorkspace:
				into = []map[string]bool{out.clusterUsers}
			case kind == "workspacerolebindings" && !ofHub:
				into = []map[string]bool{out.workspaceUsers}
			case kind == "globalrolebindings" || kind == "workspacerolebindings": // the hub knows whom it names
				return true
			case holdsInCluster(namespaces, ref.Namespace):
				into = append(into, out.clusterUsers)
			}
			out.add(record.JSON.String(), into)
			return true
		})
	}
	return out
}

// add adds the subjects of a binding, its users to each of some sets.
func (b *boundNames) add(binding string, users []map[string]bool) {
	var o struct {
		Subjects []struct{ Kind, Name string } `json:"subjects"`
	}
	if json.Unmarshal([]byte(binding), &o) != nil {
		return
	}
	for _, s := range o.Subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			for _, set := range users {
				set[s.Name] = true
			}
		case rbacv1.GroupKind:
			b.groups[s.Name] = true
		}
	}
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
