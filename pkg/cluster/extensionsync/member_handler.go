package extensionsync

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// maxBody bounds what a hub asks, but for charts, in bytes.
	maxBody = 4 << 20
	// maxConfig bounds the values of an agent, in bytes.
	maxConfig = 1 << 20
	keyChart  = "chart.tgz"
)

// Member keeps, in a member, what its hub wants of extensions there. It writes as the hub's user.
type Member struct {
	// Objects reaches the member's kube-apiserver as clusterv1alpha1.HubUser.
	Objects dynamic.Interface
	// Namespace has the charts.
	Namespace string
	// Now is the time; nil for time.Now.
	Now func() time.Time

	// writing is held while something is written: an older change must not follow a newer one.
	writing sync.Mutex
	// asked are the plans whose approval was asked for again, while writing is held.
	asked exchange.Refusals
}

// ServeHTTP answers a request that has come over a link from the hub.
func (m *Member) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	exchange.Answers{
		"POST " + PathState: exchange.To(maxBody, m.state),
		"POST " + PathChart: m.chart,
		"POST " + PathAgent: exchange.Done(maxBody, m.put),
	}.ServeHTTP(w, r)
}

func (a *Agent) check() error {
	if err := chart.CheckName(a.Extension); err != nil {
		return err
	}
	switch name := v1alpha1.ExtensionVersionName(a.Extension, a.Version.Version); {
	case !exchange.IsHub(a.Hub):
		return errors.New("it does not say of which hub it is")
	case a.Version.Version == "" || len(validation.IsDNS1123Subdomain(name)) > 0:
		return fmt.Errorf("%.100q is no version", a.Version.Version)
	case !exchange.IsDigest(a.Version.Digest):
		return errors.New("it does not say which chart it has")
	case a.Parts < 1 || a.Parts > exchange.Parts(chart.MaxArchive):
		return fmt.Errorf("a chart has no %d parts", a.Parts)
	case len(a.Config) > maxConfig:
		return fmt.Errorf("the values have more than %d bytes", maxConfig)
	}
	return nil
}

// chartName returns the name of the ConfigMaps of a chart, but for the number of each.
func chartName(digest string) string { return "fleet-chart-" + digest[:40] }

// chart keeps a chart in ConfigMaps.
func (m *Member) chart(r *http.Request) (any, error) {
	f, err := exchange.ReadFile(r, "chart")
	if err != nil {
		return nil, err
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	return struct{}{}, m.files().Put(r.Context(), f.Hub, chartName(f.Digest), f.Raw)
}

// files are the charts.
func (m *Member) files() exchange.Files {
	return exchange.Files{Objects: m.Objects, Namespace: m.Namespace, Key: keyChart}
}

// state removes what a hub names, and reports what is here.
func (m *Member) state(ctx context.Context, s *State) (*Report, error) {
	if !exchange.IsHub(s.Hub) {
		return nil, status.BadRequestf("it does not say of which hub it is")
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	plans, err := exchange.Kept(ctx, m.Objects.Resource(plansKind), plansKind.Resource, s.Hub)
	if err != nil {
		return nil, err
	}
	out, used := &Report{Agents: map[string]Installed{}}, map[string]bool{}
	asking, cancel := context.WithTimeout(ctx, approvalWait)
	defer cancel()
	for i := range plans {
		p := &v1alpha1.InstallPlan{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(plans[i].Object, p); err != nil {
			return nil, fmt.Errorf("read the InstallPlan %s: %w", plans[i].GetName(), err)
		}
		if slices.Contains(s.Remove, p.Name) && p.DeletionTimestamp.IsZero() {
			if err := exchange.Remove(ctx, m.Objects.Resource(plansKind), &plans[i]); err != nil {
				return nil, err
			}
		} else if asking.Err() == nil {
			m.approvals(s.Hub).ask(asking, &plans[i], p)
		}
		used[v1alpha1.ExtensionVersionName(p.Name, p.Spec.Extension.Version)] = true
		used[v1alpha1.ExtensionVersionName(p.Name, p.Status.Version)] = true
		out.Agents[p.Name] = Installed{Hash: p.Annotations[v1alpha1.AnnotationFleetHash], Leaving: !p.DeletionTimestamp.IsZero(),
			Status: p.Status.InstallationStatus}
	}
	versions, err := exchange.Kept(ctx, m.Objects.Resource(versionsKind), versionsKind.Resource, s.Hub)
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

// approvals returns what asks for approvals of what a hub has brought. writing is held.
func (m *Member) approvals(hub string) approvals {
	if m.asked.Now == nil {
		m.asked.Now = time.Now
		if m.Now != nil {
			m.asked.Now = m.Now
		}
	}
	return approvals{m, hub}
}

// forget deletes a version that no plan names any more, with its chart.
func (m *Member) forget(ctx context.Context, v *unstructured.Unstructured, digest string) error {
	if n, err := strconv.Atoi(v.GetAnnotations()[v1alpha1.AnnotationChartParts]); err == nil && exchange.IsDigest(digest) {
		if err := m.files().Delete(ctx, chartName(digest), 0, min(n, exchange.Parts(chart.MaxArchive))); err != nil {
			return err
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
	if err := a.check(); err != nil {
		return status.BadRequestf("%v", err)
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	version := a.Version
	// What leads elsewhere from the hub leads nowhere from here, and other extensions are the hub's to check.
	version.Repository, version.ChartURL, version.ExternalDependencies, version.Screenshots, version.Icon = "", "", nil, nil, ""
	version.ChartDataRef = &v1alpha1.ConfigMapKeyRef{Namespace: m.Namespace, Name: chartName(version.Digest), Key: keyChart}
	v := &v1alpha1.ExtensionVersion{Spec: version}
	v.Name = v1alpha1.ExtensionVersionName(a.Extension, version.Version)
	v.Labels = map[string]string{v1alpha1.LabelExtension: a.Extension}
	v.Annotations = map[string]string{v1alpha1.AnnotationChartParts: strconv.Itoa(a.Parts)}
	kind := v1alpha1.SchemeGroupVersion.WithKind("ExtensionVersion")
	if err := exchange.Write(ctx, m.Objects.Resource(versionsKind), kind, v, a.Hub); err != nil {
		return err
	}
	p := &v1alpha1.InstallPlan{Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: a.Extension, Version: version.Version},
		Enabled: a.Enabled, UpgradeStrategy: v1alpha1.UpgradeManual, Config: a.Config}}
	p.Name = a.Extension
	p.Annotations = map[string]string{v1alpha1.AnnotationAgentCluster: a.Cluster, v1alpha1.AnnotationFleetHash: a.Hash,
		v1alpha1.AnnotationFleetApprover: a.Approver, v1alpha1.AnnotationRetry: a.Retry, v1alpha1.AnnotationOnFailure: a.OnFailure}
	return exchange.Write(ctx, m.Objects.Resource(plansKind), v1alpha1.SchemeGroupVersion.WithKind("InstallPlan"), p, a.Hub)
}
