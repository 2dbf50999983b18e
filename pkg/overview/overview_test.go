package overview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/store/index"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func object(namespace, name string) string {
	return fmt.Sprintf(`{"kind":"X","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":%q}}`, name, namespace, namespace+name)
}

// objects are three pods, two of them in the namespace a, and some of the other kinds.
func objects() map[string][]any {
	return map[string][]any{
		"/api/v1/namespaces":                           {object("", "a"), object("", "b")},
		"/api/v1/pods":                                 {object("a", "p1"), object("a", "p2"), object("b", "p1")},
		"/apis/apps/v1/deployments":                    {object("a", "d"), object("ab", "d")},
		"/apis/networking.k8s.io/v1/ingresses":         {object("b", "i")},
		"/apis/iam.kubesphere.io/v1beta1/clusterroles": {object("", "r1"), object("", "r2"), object("", "r3"), object("", "r4")},
		"/apis/iam.kubesphere.io/v1beta1/roles":        {object("a", "r")},
	}
}

// service counts the objects. All kinds but the broken ones are known when it returns.
func service(t *testing.T, broken ...string) *Service {
	t.Helper()
	st := kapistest.NewStore(t, objects(), broken...)
	all := append(inBoth(), counted{"", core("namespaces")}, counted{"", core("resourcequotas")})
	for _, resource := range []string{"clusterroles", "clusterrolebindings", "roles", "rolebindings"} {
		all = append(all, counted{"", iam(resource)})
	}
	for _, k := range all {
		for !slices.Contains(broken, path(k)) {
			if _, err := st.Snapshot(t.Context(), k.gvr); err == nil {
				break
			} else if t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
	}
	return &Service{Store: st, Now: func() time.Time { return time.Unix(1700000000, 5) }}
}

// path is where kube-apiserver lists a kind.
func path(k counted) string {
	if k.gvr.Group == "" {
		return "/api/v1/" + k.gvr.Resource
	}
	return "/apis/" + k.gvr.GroupVersion().String() + "/" + k.gvr.Resource
}

// values returns the counts by the names of metrics, which must be unique.
func values(t *testing.T, m *Metrics) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, r := range m.Results {
		if _, ok := out[r.Name]; ok || r.Data.Type != "vector" || len(r.Data.Result) != 1 {
			t.Errorf("metric %+v", r)
		}
		out[r.Name] = r.Data.Result[0].Value.Count
	}
	return out
}

func TestTheClusterIsCounted(t *testing.T) {
	m, err := service(t).Cluster(t.Context())
	if err != nil || len(m.Lacks()) > 0 {
		t.Fatal(err, m.Lacks())
	}
	got := values(t, m)
	for name, want := range map[string]int{
		"namespace": 2, "pod": 3, "deployment": 2, "statefulset": 0, "daemonset": 0, "job": 0, "cronjob": 0, "persistentvolumeclaim": 0,
		"service": 0, "ingress": 1, "clusterrolebinding": 0, "clusterrole": 4,
	} {
		if n, ok := got["cluster_"+name+"_count"]; !ok || n != want {
			t.Errorf("%s: %d %v, want %d", name, n, ok, want)
		}
	}
	if len(got) != 12 {
		t.Errorf("%d metrics: %v", len(got), got)
	}
}

func TestANamespaceIsCountedAlone(t *testing.T) {
	m, err := service(t).Namespace(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	got := values(t, m)
	for name, want := range map[string]int{
		"pod": 2, "deployment": 1, "statefulset": 0, "daemonset": 0, "job": 0, "cronjob": 0, "persistentvolumeclaim": 0,
		"service": 0, "ingress": 0, "role": 1, "rolebinding": 0,
	} {
		if n, ok := got["namespace_"+name+"_count"]; !ok || n != want {
			t.Errorf("%s: %d %v, want %d", name, n, ok, want)
		}
	}
	if len(got) != 11 {
		t.Errorf("%d metrics: %v", len(got), got)
	}
}

func TestMetricsHaveTheFormOfAQuery(t *testing.T) {
	m, err := service(t).Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(m)
	const first = `{"results":[{"metric_name":"cluster_namespace_count","data":{"resultType":"vector","result":[{"value":[1700000000,2]}]}},`
	if err != nil || !strings.HasPrefix(string(raw), first) {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestAKindThatIsNotKnownIsLeftOutAndNamed(t *testing.T) {
	s := service(t, "/api/v1/pods", "/apis/apps/v1/deployments")
	m, err := s.Cluster(t.Context())
	if err != nil || !slices.Equal(m.Lacks(), []string{"pods", "deployments.apps"}) {
		t.Fatalf("%v, lacks %v", err, m.Lacks())
	}
	got := values(t, m)
	if _, ok := got["cluster_pod_count"]; ok || got["cluster_namespace_count"] != 2 || len(got) != 10 {
		t.Errorf("%v", got)
	}
	q, err := s.NamespaceQuota(t.Context(), "a")
	if err != nil || !slices.Equal(q.Lacks(), []string{"pods", "deployments.apps"}) || len(q.Data.Used) != 8 {
		t.Errorf("%+v, %v", q, err)
	}
}

// unknown knows no kind: it waits as a store does, and says err then.
type unknown struct{ err error }

func (u unknown) Snapshot(ctx context.Context, _ schema.GroupVersionResource) (*index.Snapshot, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, u.err
}

func TestWhereNothingIsKnownTheAnswerIs503(t *testing.T) {
	for _, failure := range []error{apierrors.NewServiceUnavailable("pods are not ready"), context.DeadlineExceeded} {
		s := &Service{Store: unknown{failure}}
		if _, err := s.Namespace(t.Context(), "a"); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%v", err)
		}
		if _, err := s.NamespaceQuota(t.Context(), "a"); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%v", err)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := s.Namespace(gone, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that is gone: %v", err)
		}
	}
}

func TestQuotasAreCountedBesideTheirLimits(t *testing.T) {
	all := objects()
	all["/api/v1/resourcequotas"] = []any{
		`{"metadata":{"name":"q1","namespace":"a"},"spec":{"hard":{"count/pods":"10","limits.cpu":"4","requests.memory":"1Gi"}},"status":{"used":{"count/pods":"9","limits.cpu":"1500m"}}}`,
		`{"metadata":{"name":"q2","namespace":"a"},"spec":{"hard":{"limits.cpu":"3","count/deployments.apps":"1"}},"status":{"used":{"limits.cpu":"1500m"}}}`,
		`{"metadata":{"name":"scoped","namespace":"a"},"spec":{"hard":{"limits.cpu":"1"},"scopes":["BestEffort"]}}`,
		`{"metadata":{"name":"selected","namespace":"a"},"spec":{"hard":{"pods":"1"},"scopeSelector":{"matchExpressions":[]}}}`,
		`{"metadata":{"name":"other","namespace":"b"},"spec":{"hard":{"limits.cpu":"1"}}}`,
	}
	s := &Service{Store: kapistest.NewStore(t, all)}
	for _, c := range []struct {
		name string
		get  func() (*Quota, error)
		want string
	}{
		{"Limited", func() (*Quota, error) { return s.NamespaceQuota(t.Context(), "a") }, `{"namespace":"a","data":{` +
			`"used":{"count/cronjobs.batch":"0","count/daemonsets.apps":"0","count/deployments.apps":"1","count/ingresses.extensions":"0","count/ingresses.networking.k8s.io":"0","count/jobs.batch":"0","count/pods":"2",` +
			`"count/services":"0","count/statefulsets.apps":"0","limits.cpu":"1500m","persistentvolumeclaims":"0","requests.memory":"0"},` +
			`"hard":{"count/deployments.apps":"1","count/pods":"10","limits.cpu":"3","requests.memory":"1Gi"},` +
			`"left":{"count/deployments.apps":"0","count/pods":"8","limits.cpu":"1500m","requests.memory":"1Gi"}}}`},
		{"Unlimited", func() (*Quota, error) { return s.NamespaceQuota(t.Context(), "none") }, `{"namespace":"none","data":{` +
			`"used":{"count/cronjobs.batch":"0","count/daemonsets.apps":"0","count/deployments.apps":"0","count/ingresses.extensions":"0","count/ingresses.networking.k8s.io":"0","count/jobs.batch":"0","count/pods":"0",` +
			`"count/services":"0","count/statefulsets.apps":"0","persistentvolumeclaims":"0"}}}`},
		{"Cluster", func() (*Quota, error) { return s.ClusterQuota(t.Context()) }, `{"namespace":"\"\"","data":{` +
			`"used":{"count/cronjobs.batch":"0","count/daemonsets.apps":"0","count/deployments.apps":"2","count/ingresses.extensions":"1","count/ingresses.networking.k8s.io":"1","count/jobs.batch":"0","count/pods":"3",` +
			`"count/services":"0","count/statefulsets.apps":"0","persistentvolumeclaims":"0"}}}`},
	} {
		q, err := c.get()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if raw, err := json.Marshal(q); err != nil || string(raw) != c.want {
			t.Errorf("%s: %v\n%s\n%s", c.name, err, raw, c.want)
		}
	}
}

func TestWhatIsAbnormalIsCountedByStatus(t *testing.T) {
	var asked []string
	s := &Service{ByStatus: func(_ context.Context, resource, namespace, status string) (int, error) {
		asked = append(asked, resource+" "+namespace+" "+status)
		if resource == "jobs" {
			return 0, apierrors.NewServiceUnavailable("not yet")
		}
		return len(resource), nil
	}}
	a, err := s.Abnormal(t.Context(), "x")
	if err != nil || !slices.Equal(a.Lacks(), []string{"jobs"}) {
		t.Fatal(err, a.Lacks())
	}
	raw, err := json.Marshal(a)
	if err != nil || string(raw) != `{"namespace":"x","data":{"daemonsets":10,"deployments":11,"persistentvolumeclaims":22,"statefulsets":12}}` {
		t.Errorf("%s, %v", raw, err)
	}
	if want := []string{"deployments x updating", "statefulsets x updating", "daemonsets x updating", "jobs x failed",
		"persistentvolumeclaims x pending|lost"}; !slices.Equal(asked, want) {
		t.Errorf("%v", asked)
	}
	for _, failure := range []error{apierrors.NewServiceUnavailable("not yet"), errors.New("broken")} {
		s.ByStatus = func(context.Context, string, string, string) (int, error) { return 0, failure }
		if _, err := s.Abnormal(t.Context(), ""); !errors.Is(err, failure) {
			t.Errorf("%v", err)
		}
	}
}
