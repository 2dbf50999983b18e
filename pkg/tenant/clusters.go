package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

var (
	clustersKind   = clusterv1alpha1.SchemeGroupVersion.WithResource(clusters)
	usersKind      = iamv1beta1.SchemeGroupVersion.WithResource("users")
	namespacesKind = schema.GroupResource{Resource: namespaces}
)

// Snapshots returns the objects of a kind. store.Store is one.
type Snapshots interface {
	Snapshot(ctx context.Context, gvr schema.GroupVersionResource) (*index.Snapshot, error)
}

// Clusters reads the clusters. There are few: its methods take time linear in their number.
type Clusters struct {
	Store Snapshots
	// Host is the name of the cluster that this server runs in.
	Host string
}

// seen returns the names of the clusters that u may see without the right to list them all: those granted to u, those that are open to
// every workspace, and this server's own if u is bound anywhere in it.
func (f *Clusters) seen(ctx context.Context, u user.Info, bound bool) ([]string, error) {
	names, err := f.granted(ctx, u, bound)
	if err != nil {
		return nil, err
	}
	all, err := f.snapshot(ctx, clustersKind)
	if err != nil {
		return nil, err
	}
	if all != nil {
		all.ByCreated(index.HasLabel(clusterv1alpha1.LabelVisibility, clusterv1alpha1.VisibilityPublic)).
			Walk(0, false, func(ref *index.Ref) bool {
				names = append(names, ref.Name)
				return true
			})
	}
	return names, nil
}

// granted returns the names of the clusters in which u has a role: this server's own as host says, since its bindings are known here, and
// the others that the annotation of the User names.
func (f *Clusters) granted(ctx context.Context, u user.Info, host bool) ([]string, error) {
	var names []string
	users, err := f.snapshot(ctx, usersKind)
	if err != nil {
		return nil, err
	}
	if users != nil {
		if r, ok := users.Get("", u.GetName()); ok {
			granted, _ := r.Annotations.Get(iamv1beta1.AnnotationGrantedClusters)
			for name := range strings.SplitSeq(granted, ",") {
				if name = strings.TrimSpace(name); name != "" && name != f.Host {
					names = append(names, name)
				}
			}
		}
	}
	if host {
		names = append(names, f.Host)
	}
	return names, nil
}

// snapshot returns nil for a kind that the cluster does not have.
func (f *Clusters) snapshot(ctx context.Context, gvr schema.GroupVersionResource) (*index.Snapshot, error) {
	snap, err := f.Store.Snapshot(ctx, gvr)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return snap, err
}

// IsPublic reports whether every workspace may be placed in a cluster.
func (f *Clusters) IsPublic(ctx context.Context, name string) (bool, error) {
	all, err := f.snapshot(ctx, clustersKind)
	if err != nil || all == nil {
		return false, err
	}
	r, ok := all.Get("", name)
	if !ok {
		return false, nil
	}
	visibility, _ := r.Labels.Get(clusterv1alpha1.LabelVisibility)
	return visibility == clusterv1alpha1.VisibilityPublic, nil
}

// Placed returns the names of the clusters that a WorkspaceTemplate, in JSON, is placed in: those that it names, or else those that its
// selector finds.
func (f *Clusters) Placed(ctx context.Context, template string) ([]string, error) {
	var t struct {
		Spec struct {
			Placement tenantv1beta1.Placement `json:"placement"`
		} `json:"spec"`
	}
	if err := json.Unmarshal([]byte(template), &t); err != nil {
		return nil, fmt.Errorf("read the placement of a workspace: %w", err)
	}
	p := &t.Spec.Placement
	names := make([]string, 0, len(p.Clusters))
	for _, c := range p.Clusters {
		names = append(names, c.Name)
	}
	if len(names) > 0 || p.ClusterSelector == nil {
		return names, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(p.ClusterSelector)
	if err != nil {
		return nil, fmt.Errorf("read the selector of clusters of a workspace: %w", err)
	}
	all, err := f.snapshot(ctx, clustersKind)
	if err != nil || all == nil {
		return nil, err
	}
	all.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
		if selector.Matches(labelsOf{all.Record(ref)}) {
			names = append(names, ref.Name)
		}
		return true
	})
	return names, nil
}

// labelsOf are the labels of an object as a labels.Labels.
type labelsOf struct{ record *index.Record }

var _ labels.Labels = labelsOf{}

// Has implements labels.Labels.
func (l labelsOf) Has(key string) bool {
	_, ok := l.record.Labels.Get(key)
	return ok
}

// Get implements labels.Labels.
func (l labelsOf) Get(key string) string {
	v, _ := l.record.Labels.Get(key)
	return v
}

// Lookup implements labels.Labels.
func (l labelsOf) Lookup(key string) (string, bool) { return l.record.Labels.Get(key) }
