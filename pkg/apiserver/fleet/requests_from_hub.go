package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/extensionsync"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/cluster/releasesync"
	"kapis.dev/ks-apiserver/pkg/cluster/revalidate"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/version"
)

// ofHub answers what a hub asks for itself, and leaves the requests of users to next. Nothing else reaches it than what came over a link.
func ofHub(o Options, kubernetesVersion string, next http.Handler) (http.Handler, error) {
	c := rest.CopyConfig(o.Cluster)
	c.Impersonate = rest.ImpersonationConfig{UserName: clusterv1alpha1.HubUser}
	c.QPS = -1 // the hub asks in turn
	objects, err := dynamic.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("make a client for the hub: %w", err)
	}
	kube, err := newHealth(o.Cluster)
	if err != nil {
		return nil, err
	}
	sync := &fleetsync.Member{Objects: objects, Bound: (&bound{caches: o.Caches}).now, About: about(o, kubernetesVersion), Health: kube.now}
	extensions := &extensionsync.Member{Objects: objects, Namespace: o.Namespace}
	releases := &releasesync.Member{Objects: objects}
	unchanged := &revalidate.Member{Next: next, Changes: o.Changes, Drain: o.Drain}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case fleetsync.Owns(r.URL.Path):
			sync.ServeHTTP(w, r)
		case extensionsync.Owns(r.URL.Path):
			extensions.ServeHTTP(w, r)
		case releasesync.Owns(r.URL.Path):
			releases.ServeHTTP(w, r)
		case r.URL.Path == revalidate.Path:
			unchanged.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	}), nil
}

// about returns what a hub is told of this cluster.
func about(o Options, kubernetesVersion string) func(context.Context) (*cluster.About, error) {
	return func(ctx context.Context) (*cluster.About, error) {
		a := &cluster.About{Version: version.Get().GitVersion, KubernetesVersion: kubernetesVersion, Configz: o.Configz}
		nodes, err := o.Caches.Snapshot(ctx, corev1.SchemeGroupVersion.WithResource("nodes"))
		if err != nil {
			return nil, err
		}
		a.SetNodes(nodes)
		return a, nil
	}
}

// ownBindings are the kinds of bindings that a member has of its own.
var ownBindings = []schema.GroupVersionResource{
	iamv1beta1.SchemeGroupVersion.WithResource("clusterrolebindings"),
	iamv1beta1.SchemeGroupVersion.WithResource("rolebindings"),
}

// bound knows whom a member's own bindings name.
type bound struct {
	caches fleetsync.Snapshots

	mu   sync.Mutex
	last *fleetsync.Bound
}

// now returns them. It costs nothing while no binding changes.
func (b *bound) now(ctx context.Context) (*fleetsync.Bound, error) {
	var snaps []*index.Snapshot
	version := ""
	for _, k := range ownBindings {
		snap, err := b.caches.Snapshot(ctx, k)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		snaps, version = append(snaps, snap), version+strconv.FormatUint(snap.Generation(), 10)+" "
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last != nil && b.last.Version == version {
		return b.last, nil
	}
	names := map[string]bool{}
	for _, snap := range snaps {
		snap.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
			var o struct {
				Subjects []struct{ Kind, Name string } `json:"subjects"`
			}
			if json.Unmarshal([]byte(snap.Record(ref).JSON.String()), &o) != nil {
				return true
			}
			for _, s := range o.Subjects {
				if s.Kind == "User" {
					names[s.Name] = true
				}
			}
			return true
		})
	}
	b.last = &fleetsync.Bound{Version: version, Users: slices.Sorted(maps.Keys(names))}
	return b.last, nil
}
