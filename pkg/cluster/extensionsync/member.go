package extensionsync

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// maxBody bounds what a hub sends of one agent, in bytes, and maxConfig its values.
	maxBody   = 4 << 20
	maxConfig = 1 << 20
	// partSize is how much of a chart one ConfigMap has, in bytes.
	partSize = 700 << 10
	keyChart = "chart.tgz"
)

// Member keeps, in a member, what its hub wants of extensions there. It writes as the hub's user.
type Member struct {
	// Objects reaches the member's kube-apiserver as clusterv1alpha1.HubUser.
	Objects dynamic.Interface
	// Namespace has the charts.
	Namespace string

	// one is held while something is written: an older change must not follow a newer one.
	one sync.Mutex
}

// ServeHTTP answers a request that has come over a link from the hub.
func (m *Member) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := m.answer(r)
	web.Write(w, r, answer, err)
}

func (m *Member) answer(r *http.Request) (any, error) {
	if r.Method != http.MethodPost {
		return nil, status.Errorf(http.StatusMethodNotAllowed, "a hub asks this by POST")
	}
	switch r.URL.Path {
	case PathState:
		s := &State{}
		if err := read(r, s); err != nil {
			return nil, err
		}
		m.one.Lock()
		defer m.one.Unlock()
		return m.state(r.Context(), s)
	case PathChart:
		return m.chart(r)
	case PathAgent:
		a := &Agent{}
		if err := read(r, a); err != nil {
			return nil, err
		}
		if err := a.check(); err != nil {
			return nil, status.BadRequestf("%v", err)
		}
		m.one.Lock()
		defer m.one.Unlock()
		return struct{}{}, m.put(r.Context(), a)
	}
	return nil, status.Errorf(http.StatusNotFound, "a hub does not ask for %.100q", r.URL.Path)
}

func readAll(r *http.Request, most int) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > most {
		return nil, status.Errorf(http.StatusRequestEntityTooLarge, "the body may have %d bytes at most", most)
	}
	return raw, nil
}

func read(r *http.Request, into any) error {
	raw, err := readAll(r, maxBody)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return status.BadRequestf("the body can't be read")
	}
	return nil
}

var isDigest = regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString

func (a *Agent) check() error {
	if err := chart.CheckName(a.Extension); err != nil {
		return err
	}
	switch name := v1alpha1.ExtensionVersionName(a.Extension, a.Version.Version); {
	case !isLabel(a.Hub):
		return errors.New("it does not say of which hub it is")
	case a.Version.Version == "" || len(validation.IsDNS1123Subdomain(name)) > 0:
		return fmt.Errorf("%.100q is no version", a.Version.Version)
	case !isDigest(a.Version.Digest):
		return errors.New("it does not say which chart it has")
	case a.Parts < 1 || a.Parts > parts(chart.MaxArchive):
		return fmt.Errorf("a chart has no %d parts", a.Parts)
	case len(a.Config) > maxConfig:
		return fmt.Errorf("the values have more than %d bytes", maxConfig)
	}
	return nil
}

func isLabel(s string) bool { return s != "" && len(validation.IsValidLabelValue(s)) == 0 }

// chartName returns the name of the ConfigMaps of a chart, but for the number of each.
func chartName(digest string) string { return "fleet-chart-" + digest[:40] }

// chart keeps a chart in ConfigMaps.
func (m *Member) chart(r *http.Request) (any, error) {
	hub, digest := r.URL.Query().Get("hub"), r.URL.Query().Get("digest")
	if !isLabel(hub) || !isDigest(digest) {
		return nil, status.BadRequestf("the query has to have the hub and the digest of the chart")
	}
	raw, err := readAll(r, chart.MaxArchive)
	if err != nil {
		return nil, err
	}
	if chart.Digest(raw) != digest {
		return nil, status.BadRequestf("the chart is another one than its digest says")
	}
	m.one.Lock()
	defer m.one.Unlock()
	maps := m.Objects.Resource(chartsKind).Namespace(m.Namespace)
	i := 0
	for part := range slices.Chunk(raw, partSize) {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"binaryData": map[string]any{keyChart: base64.StdEncoding.EncodeToString(part)}}}
		o.SetName(chartName(digest) + "-" + strconv.Itoa(i))
		o.SetLabels(map[string]string{clusterv1alpha1.LabelFleet: hub})
		_, err := maps.Create(r.Context(), o, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = maps.Update(r.Context(), o, metav1.UpdateOptions{})
		}
		if err != nil {
			return nil, err
		}
		i++
	}
	return struct{}{}, nil
}

func parts(size int) int { return (size + partSize - 1) / partSize }

// kept returns what the hub keeps here of a kind.
func (m *Member) kept(ctx context.Context, k schema.GroupVersionResource, hub string) ([]unstructured.Unstructured, error) {
	list, err := m.Objects.Resource(k).List(ctx, metav1.ListOptions{LabelSelector: clusterv1alpha1.LabelFleet + "=" + hub})
	if err != nil {
		return nil, fmt.Errorf("list %s of the fleet: %w", k.Resource, err)
	}
	return list.Items, nil
}

// state removes what a hub names, and reports what is here.
func (m *Member) state(ctx context.Context, s *State) (*Report, error) {
	if !isLabel(s.Hub) {
		return nil, status.BadRequestf("it does not say of which hub it is")
	}
	plans, err := m.kept(ctx, plansKind, s.Hub)
	if err != nil {
		return nil, err
	}
	out, used := &Report{Agents: map[string]Installed{}}, map[string]bool{}
	for i := range plans {
		p := &v1alpha1.InstallPlan{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(plans[i].Object, p); err != nil {
			return nil, fmt.Errorf("read the InstallPlan %s: %w", plans[i].GetName(), err)
		}
		if slices.Contains(s.Remove, p.Name) && p.DeletionTimestamp.IsZero() {
			if err := m.remove(ctx, &plans[i]); err != nil {
				return nil, err
			}
		}
		used[v1alpha1.ExtensionVersionName(p.Name, p.Spec.Extension.Version)] = true
		used[v1alpha1.ExtensionVersionName(p.Name, p.Status.Version)] = true
		out.Agents[p.Name] = Installed{Hash: p.Annotations[v1alpha1.AnnotationFleetHash], Leaving: !p.DeletionTimestamp.IsZero(),
			Status: p.Status.InstallationStatus}
	}
	versions, err := m.kept(ctx, versionsKind, s.Hub)
	if err != nil {
		return nil, err
	}
	for i := range versions {
		v := &versions[i]
		digest, _, _ := unstructured.NestedString(v.Object, "spec", "digest")
		if !used[v.GetName()] {
			if err := m.forget(ctx, v, digest); err != nil {
				return nil, err
			}
			continue
		}
		out.Charts = append(out.Charts, digest)
	}
	return out, nil
}

// remove deletes a plan, whose controller then removes what it installed.
func (m *Member) remove(ctx context.Context, p *unstructured.Unstructured) error {
	uid := p.GetUID()
	err := m.Objects.Resource(plansKind).Delete(ctx, p.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// forget deletes a version that no plan names any more, with its chart.
func (m *Member) forget(ctx context.Context, v *unstructured.Unstructured, digest string) error {
	if n, err := strconv.Atoi(v.GetAnnotations()[v1alpha1.AnnotationChartParts]); err == nil && isDigest(digest) {
		for i := range min(n, parts(chart.MaxArchive)) {
			name := chartName(digest) + "-" + strconv.Itoa(i)
			err := m.Objects.Resource(chartsKind).Namespace(m.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	err := m.Objects.Resource(versionsKind).Delete(ctx, v.GetName(), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// put writes the version and the plan of an agent.
func (m *Member) put(ctx context.Context, a *Agent) error {
	version := a.Version
	// What leads elsewhere from the hub leads nowhere from here, and other extensions are the hub's to check.
	version.Repository, version.ChartURL, version.ExternalDependencies, version.Screenshots, version.Icon = "", "", nil, nil, ""
	version.ChartDataRef = &v1alpha1.ConfigMapKeyRef{Namespace: m.Namespace, Name: chartName(version.Digest), Key: keyChart}
	v := &v1alpha1.ExtensionVersion{Spec: version}
	v.Name = v1alpha1.ExtensionVersionName(a.Extension, version.Version)
	v.Labels = map[string]string{v1alpha1.LabelExtension: a.Extension}
	v.Annotations = map[string]string{v1alpha1.AnnotationChartParts: strconv.Itoa(a.Parts)}
	if err := m.write(ctx, versionsKind, "ExtensionVersion", v, a.Hub); err != nil {
		return err
	}
	p := &v1alpha1.InstallPlan{Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: a.Extension, Version: version.Version},
		Enabled: a.Enabled, UpgradeStrategy: v1alpha1.UpgradeManual, Config: a.Config}}
	p.Name = a.Extension
	p.Annotations = map[string]string{v1alpha1.AnnotationAgentCluster: a.Cluster, v1alpha1.AnnotationFleetHash: a.Hash,
		v1alpha1.AnnotationFleetApprover: a.Approver, v1alpha1.AnnotationRetry: a.Retry, v1alpha1.AnnotationOnFailure: a.OnFailure}
	return m.write(ctx, plansKind, "InstallPlan", p, a.Hub)
}

// object is what is written of a version or a plan.
type object interface {
	runtime.Object
	metav1.Object
}

// write creates an object with the hub's label, or gives the one that is here its spec and its annotations. An annotation with no text is
// left out.
func (m *Member) write(ctx context.Context, k schema.GroupVersionResource, kind string, o object, hub string) error {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Errorf("encode the %s %s: %w", kind, o.GetName(), err)
	}
	next := &unstructured.Unstructured{Object: raw}
	next.SetAPIVersion(k.GroupVersion().String())
	next.SetKind(kind)
	delete(next.Object, "status")
	of := m.Objects.Resource(k)
	now, err := of.Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		now = nil
	case err != nil:
		return err
	case now.GetLabels()[clusterv1alpha1.LabelFleet] == "":
		return status.Errorf(http.StatusConflict, "this cluster has a %s %s of its own: remove it there", kind, o.GetName())
	case now.GetLabels()[clusterv1alpha1.LabelFleet] != hub:
		return status.Errorf(http.StatusConflict, "another hub keeps the %s %s in this cluster", kind, o.GetName())
	case now.GetDeletionTimestamp() != nil:
		return status.Errorf(http.StatusConflict, "the %s %s is still being removed in this cluster", kind, o.GetName())
	}
	labels, annotations := map[string]string{}, map[string]string{}
	if now != nil {
		labels, annotations = filled(now.GetLabels()), filled(now.GetAnnotations())
	}
	for key, value := range o.GetLabels() {
		labels[key] = value
	}
	labels[clusterv1alpha1.LabelFleet] = hub
	for key, value := range o.GetAnnotations() {
		if annotations[key] = value; value == "" {
			delete(annotations, key)
		}
	}
	if now == nil {
		next.SetLabels(labels)
		next.SetAnnotations(annotations)
		_, err = of.Create(ctx, next, metav1.CreateOptions{})
		return err
	}
	before := now.DeepCopy()
	now.SetLabels(labels)
	now.SetAnnotations(annotations)
	now.Object["spec"] = next.Object["spec"]
	if equalJSON(before.Object, now.Object) {
		return nil
	}
	_, err = of.Update(ctx, now, metav1.UpdateOptions{})
	return err
}

func filled(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func equalJSON(a, b any) bool {
	one, err := json.Marshal(a)
	other, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(one, other)
}

// clip bounds a text.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
