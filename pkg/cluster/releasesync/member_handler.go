package releasesync

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/appstore"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
	"kapis.dev/ks-apiserver/pkg/status"
)

// maxBody bounds what a hub asks, but for packages, in bytes.
const maxBody = 4 << 20

// Member keeps, in a member, the releases that its hub wants there. It writes as the hub's user.
type Member struct {
	// Objects reaches the member's kube-apiserver as clusterv1alpha1.HubUser.
	Objects dynamic.Interface

	// writing is held while something is written: an older change must not follow a newer one.
	writing sync.Mutex
}

// ServeHTTP answers a request that has come over a link from the hub.
func (m *Member) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	exchange.Answers{
		"POST " + PathState:   exchange.To(maxBody, m.state),
		"POST " + PathPackage: m.keep,
		"POST " + PathRelease: exchange.Done(maxBody, m.put),
		"POST " + PathRemove:  exchange.Done(maxBody, m.remove),
	}.ServeHTTP(w, r)
}

func (m *Member) releases() dynamic.ResourceInterface { return m.Objects.Resource(releasesKind) }

func (m *Member) files() exchange.Files {
	return exchange.Files{Objects: m.Objects, Namespace: release.InventoryNamespace, Key: release.SentKey}
}

// state reports what is here of a hub's.
func (m *Member) state(ctx context.Context, s *State) (*Report, error) {
	if !exchange.IsHub(s.Hub) {
		return nil, status.BadRequestf("it does not say of which hub it is")
	}
	all, err := exchange.Kept(ctx, m.releases(), releasesKind.Resource, s.Hub)
	if err != nil {
		return nil, err
	}
	out := &Report{Releases: map[string]Installed{}}
	for i := range all {
		rel := &v2.ApplicationRelease{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all[i].Object, rel); err != nil {
			return nil, fmt.Errorf("read the ApplicationRelease %s: %w", all[i].GetName(), err)
		}
		out.Releases[rel.Name] = Installed{Hash: rel.Annotations[v2.AnnotationFleetHash], Leaving: !rel.DeletionTimestamp.IsZero(),
			Done: release.IsDone(rel), State: rel.Status.State, Message: rel.Status.Message, LastUpdate: rel.Status.LastUpdate}
	}
	return out, nil
}

func isName(s string) bool {
	return len(s) <= release.MaxName && len(validation.IsDNS1123Label(s)) == 0
}

// keep keeps the package of a release in ConfigMaps.
func (m *Member) keep(r *http.Request) (any, error) {
	name := r.URL.Query().Get("release")
	if !isName(name) {
		return nil, status.BadRequestf("the query has to have the release")
	}
	f, err := exchange.ReadFile(r, "package")
	if err != nil {
		return nil, err
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	if _, err := m.of(r.Context(), f.Hub, name); err != nil { // before anything is written
		return nil, err
	}
	return struct{}{}, m.files().Put(r.Context(), f.Hub, release.SentFile(f.Hub, name), f.Raw)
}

// of returns the release of a name here; nil for none. One that is not the hub's is an error.
func (m *Member) of(ctx context.Context, hub, name string) (*unstructured.Unstructured, error) {
	now, err := m.releases().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // nil is none
	case err != nil:
		return nil, err
	case now.GetLabels()[clusterv1alpha1.LabelFleet] != hub:
		return nil, status.Errorf(http.StatusConflict, "this cluster has a release %q that is not this hub's: choose another name", name)
	}
	return now, nil
}

// object returns the object that a release is here, or what is wrong with it.
func (in *Release) object() (*v2.ApplicationRelease, error) {
	o := &v2.ApplicationRelease{Spec: in.Spec}
	o.Name = in.Name
	o.Labels = map[string]string{v2.LabelApp: in.Spec.AppID, v2.LabelVersion: appstore.LabelValue(in.Spec.AppVersionID),
		v2.LabelCluster: in.Cluster, v2.LabelWorkspace: in.Workspace, v2.LabelNamespace: in.Namespace}
	if err := release.Check(o); err != nil {
		return nil, err
	}
	for _, key := range []string{v2.LabelApp, v2.LabelVersion, v2.LabelCluster, v2.LabelWorkspace} {
		if len(validation.IsValidLabelValue(o.Labels[key])) > 0 {
			return nil, status.BadRequestf("%.100q can't be the label %s", o.Labels[key], key)
		}
	}
	err := in.check()
	if err != nil {
		return nil, status.BadRequestf("%v", err)
	}
	sent := &release.Sent{Type: in.Type, Digest: in.Digest, File: release.SentFile(in.Hub, in.Name), Parts: in.Parts}
	o.Annotations = map[string]string{v2.AnnotationUser: in.Author, v2.AnnotationCreator: in.Author, v2.AnnotationRetry: in.Retry,
		v2.AnnotationFleetHash: in.Hash, v2.AnnotationAdopt: ""}
	if in.Adopt {
		o.Annotations[v2.AnnotationAdopt] = "true"
		o.Finalizers = []string{v2.FinalizerRelease} // from the beginning, so that a removal finds what is there
	}
	if in.onlyAdopts() {
		o.Annotations[v2.AnnotationUser] = release.Nobody
		return o, nil
	}
	o.Annotations[v2.AnnotationFleetPackage], err = sent.Annotation()
	return o, err
}

// onlyAdopts reports whether nothing is to be done for a release but to note what an earlier installation has installed.
func (in *Release) onlyAdopts() bool { return in.Adopt && in.Author == "" }

func (in *Release) check() error {
	switch {
	case !exchange.IsHub(in.Hub):
		return errors.New("it does not say of which hub it is")
	case !in.onlyAdopts() && in.Author == "" || strings.HasPrefix(in.Author, "system:") || strings.HasPrefix(in.Author, "kapis:"):
		return fmt.Errorf("%.100q is no user of the fleet", in.Author)
	case in.Hash == "" || len(in.Hash) > 100:
		return errors.New("it does not say what it is")
	case in.Type != v2.TypeHelm && in.Type != v2.TypeYAML && in.Type != v2.TypeEdge:
		return fmt.Errorf("%.100q is no type of a version", in.Type)
	case in.onlyAdopts() && in.Digest == "" && in.Parts == 0:
	case !exchange.IsDigest(in.Digest):
		return errors.New("it does not say which package it has")
	case in.Parts < 1 || in.Parts > exchange.Parts(chart.MaxArchive):
		return fmt.Errorf("a package has no %d parts", in.Parts)
	}
	return nil
}

// parts returns in how many parts the package of a release is here.
func parts(o *unstructured.Unstructured) int {
	if o == nil {
		return 0
	}
	sent, err := release.SentOf(&v2.ApplicationRelease{ObjectMeta: metav1.ObjectMeta{Annotations: o.GetAnnotations()}})
	if err != nil {
		return 0
	}
	return min(sent.Parts, exchange.Parts(chart.MaxArchive))
}

// put writes a release, and deletes what its former package had more.
func (m *Member) put(ctx context.Context, in *Release) error {
	o, err := in.object()
	if err != nil {
		return err
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	before, err := m.of(ctx, in.Hub, in.Name)
	if err != nil {
		return err
	}
	if err := exchange.Write(ctx, m.releases(), v2.SchemeGroupVersion.WithKind("ApplicationRelease"), o, in.Hub); err != nil {
		return err
	}
	return m.files().Delete(ctx, release.SentFile(in.Hub, in.Name), in.Parts, parts(before))
}

// remove deletes a release, whose controller then removes what it installed, and its package, which that does not need.
func (m *Member) remove(ctx context.Context, in *Removal) error {
	if !exchange.IsHub(in.Hub) || !isName(in.Name) {
		return status.BadRequestf("it does not say which release of which hub it is")
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	now, err := m.of(ctx, in.Hub, in.Name)
	if err != nil || now == nil {
		return err
	}
	if err := m.files().Delete(ctx, release.SentFile(in.Hub, in.Name), 0, parts(now)); err != nil {
		return err
	}
	return exchange.Remove(ctx, m.releases(), now)
}
