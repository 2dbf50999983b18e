package fleet

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/extensionsync"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/releasesync"
	"kapis.dev/ks-apiserver/pkg/cluster/revalidate"
	"kapis.dev/ks-apiserver/pkg/version"
)

// ofHub answers what a hub asks for itself, and leaves the requests of users to next, by whatever path. Nothing else reaches it than what
// came over a link.
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
	names := &bound{caches: o.Caches}
	sync := &fleetsync.Member{Objects: objects, Bound: names.now, BoundNames: names.others, About: about(o, kubernetesVersion),
		Health: kube.now}
	extensions := &extensionsync.Member{Objects: objects, Namespace: o.Namespace}
	releases := &releasesync.Member{Objects: objects}
	unchanged := &revalidate.Member{Next: next, Changes: o.Changes, Drain: o.Drain}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case link.NamesUser(r.Header):
			next.ServeHTTP(w, r)
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
