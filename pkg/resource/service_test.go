package resource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func object(kind, apiVersion, namespace, name, more string) string {
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace, UID: "u", ResourceVersion: "7"}
	text, _ := json.Marshal(meta)
	return `{"kind":"` + kind + `","apiVersion":"` + apiVersion + `","metadata":` + string(text) + more + `}`
}

func pod(namespace, name, labels string) string {
	return `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"` + name + `","namespace":"` + namespace +
		`","uid":"u-` + name + `","resourceVersion":"7","labels":{` + labels + `}},"status":{"phase":"Running"}}`
}

func (w *world) list(t testing.TB, k *store.Kind, scope plan.Scope, raw string) (*page.Page, error) {
	t.Helper()
	v, err := url.ParseQuery(raw)
	if err != nil {
		t.Fatal(err)
	}
	q, err := query.Parse(v)
	if err != nil {
		return nil, err
	}
	return w.List(context.Background(), k, scope, q)
}

func (w *world) keys(t testing.TB, k *store.Kind, scope plan.Scope, raw string) string {
	t.Helper()
	p, err := w.list(t, k, scope, raw)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(keysOf(t, p), " ")
}

func code(err error) int32 {
	var s apierrors.APIStatus
	if errors.As(err, &s) {
		return s.Status().Code
	}
	return 0
}

func TestSecretsOfOthersAreNeverInMemory(t *testing.T) {
	w := newWorld(t, map[string][]string{
		"/api/v1/secrets":    {object("Secret", "v1", "a", "s", `,"type":"Opaque","data":{"p":"c2VjcmV0"},"stringData":{"p":"secret"}`)},
		"/api/v1/configmaps": {object("ConfigMap", "v1", "a", "c", `,"data":{"p":"secret"},"binaryData":{"p":"c2VjcmV0"}`)},
		"/apis/iam.kubesphere.io/v1beta1/users": {object("User", "iam.kubesphere.io/v1beta1", "", "bob",
			`,"spec":{"email":"bob@example.com","password":"secret"}`)},
	}, Options{})
	for _, c := range []struct{ group, resource, namespace, name, keeps string }{
		{"", "secrets", "a", "s", `"type":"Opaque"`}, {"", "configmaps", "a", "c", `"name":"c"`},
		{"iam.kubesphere.io", "users", "", "bob", `"email":"bob@example.com"`},
	} {
		o, err := w.Get(context.Background(), w.resolve(t, c.group, c.resource), plan.Scope{Namespace: c.namespace}, c.name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(o.JSON.String(), "secret\"") || strings.Contains(o.JSON.String(), "c2VjcmV0") || !strings.Contains(o.JSON.String(), c.keeps) {
			t.Errorf("%s", o.JSON)
		}
	}
	users := w.resolve(t, "iam.kubesphere.io", "users")
	for raw, want := range map[string]string{ // as the console asks whether an address is taken
		"fieldSelector=spec.email%3Dbob@example.com": "/bob", "fieldSelector=spec.email%3Dnobody@example.com": "", "email=bob@example.com": "/bob",
		"fieldSelector=spec.password%3Dsecret": "",
	} {
		if got := w.keys(t, users, plan.Scope{}, raw); got != want {
			t.Errorf("%s: %q", raw, got)
		}
	}
}

func TestScopesHoldUnderAnyFilter(t *testing.T) {
	w := newWorld(t, map[string][]string{"/api/v1/pods": {
		pod("a", "p1", `"kubesphere.io/workspace":"w1"`), pod("a", "p2", `"kubesphere.io/workspace":"w2"`), pod("b", "p3", `"kubesphere.io/workspace":"w1"`),
	}}, Options{})
	pods := w.resolve(t, "", "pods")
	for _, c := range []struct {
		scope     plan.Scope
		raw, want string
	}{
		{plan.Scope{Namespace: "a"}, "namespace=b", ""},
		{plan.Scope{Namespace: "a"}, "names=p3", ""},
		{plan.Scope{Namespace: "a"}, "fieldSelector=metadata.namespace%3Db", ""},
		{plan.Scope{Namespace: "a"}, "labelSelector=kubesphere.io/workspace%3Dw1", "a/p1"},
		{plan.Scope{Workspace: "w1"}, "labelSelector=kubesphere.io/workspace%3Dw2", ""},
		{plan.Scope{Workspace: "w1"}, "labelSelector=kubesphere.io/workspace%3Dw2%7Ckubesphere.io/workspace", "a/p1 b/p3"},
		{plan.Scope{Workspace: "w1", Namespace: "b"}, "", "b/p3"},
		{plan.Scope{Namespace: "absent"}, "", ""},
	} {
		if got := w.keys(t, pods, c.scope, c.raw+"&ascending=true"); got != c.want {
			t.Errorf("%+v %s: %q, want %q", c.scope, c.raw, got, c.want)
		}
	}
	if _, err := w.Get(context.Background(), pods, plan.Scope{Namespace: "a", Workspace: "w2"}, "p1"); code(err) != http.StatusNotFound {
		t.Errorf("an object of another workspace: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t, map[string][]string{"/api/v1/pods": {pod("a", "p1", ""), pod("a", "p2", ""), pod("a", "p3", "")}}, Options{MaxItems: 2})
	pods, nodes := w.resolve(t, "", "pods"), w.resolve(t, "", "nodes")
	ask := func(k *store.Kind, scope plan.Scope, raw string) error {
		_, err := w.list(t, k, scope, raw)
		return err
	}
	get := func(k *store.Kind, scope plan.Scope, name string) error {
		_, err := w.Get(context.Background(), k, scope, name)
		return err
	}
	for _, c := range []struct {
		name string
		err  error
		code int32
		says string
	}{
		{"TooManyAtOnce", ask(pods, plan.Scope{}, ""), 413, "limit"},
		{"TooLongAPage", ask(pods, plan.Scope{}, "limit=3"), 413, "limit"},
		{"APageIsFine", ask(pods, plan.Scope{}, "limit=2"), 0, ""},
		{"UnknownSortKey", ask(pods, plan.Scope{}, "sortBy=colour"), 400, "startTime"},
		{"BadSelector", ask(pods, plan.Scope{}, "labelSelector=%3D"), 400, "labelSelector"},
		{"MissingObject", get(pods, plan.Scope{Namespace: "a"}, "absent"), 404, "absent"},
		{"ObjectWithoutItsNamespace", get(pods, plan.Scope{}, "p1"), 400, "namespaces"},
		{"ClusterKindInANamespace", ask(nodes, plan.Scope{Namespace: "a"}, ""), 404, "namespaces"},
		{"KindWithoutLists", ask(&store.Kind{GVR: pods.GVR}, plan.Scope{}, ""), 405, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if code(c.err) != c.code || c.err != nil && !strings.Contains(c.err.Error(), c.says) {
				t.Errorf("got %v", c.err)
			}
		})
	}
}

func TestServiceNameSelectsPods(t *testing.T) {
	w := newWorld(t, map[string][]string{
		"/api/v1/pods": {pod("a", "p1", `"app":"x"`), pod("a", "p2", `"app":"y"`), pod("b", "p3", `"app":"x"`)},
		"/api/v1/services": {object("Service", "v1", "a", "web", `,"spec":{"selector":{"app":"x"}}`),
			object("Service", "v1", "a", "external", `,"spec":{}`)},
	}, Options{})
	pods := w.resolve(t, "", "pods")
	for raw, want := range map[string]string{"serviceName=web": "a/p1", "serviceName=external": "", "serviceName=absent": ""} {
		if got := w.keys(t, pods, plan.Scope{Namespace: "a"}, raw); got != want {
			t.Errorf("%s: %q", raw, got)
		}
	}
}

func TestAnswersAreWhatTheirFormSays(t *testing.T) {
	var pods []string
	for i := range 300 { // over 64 KiB in all, so that several writes are needed
		pods = append(pods, pod("a", fmt.Sprintf("p%03d", i), `"pad":"`+strings.Repeat("x", 300)+`"`))
	}
	w := newWorld(t, map[string][]string{"/api/v1/pods": pods}, Options{})
	kind := w.resolve(t, "", "pods")
	for _, raw := range []string{"", "limit=7&page=3&sortBy=name", "limit=0", "limit=1", "page=99&limit=5"} {
		p, err := w.list(t, kind, plan.Scope{}, raw)
		if err != nil {
			t.Fatal(err)
		}
		for form, answer := range map[string]*page.Answer{"items": p.Items(), "list": p.List()} {
			rec := httptest.NewRecorder()
			answer.Respond(rec, httptest.NewRequest(http.MethodGet, "/", nil))
			if n := rec.Header().Get("Content-Length"); n != strconv.Itoa(rec.Body.Len()) {
				t.Errorf("%s %s: Content-Length %s of %d", form, raw, n, rec.Body.Len())
			}
			var got struct {
				Kind, APIVersion string
				Metadata         struct {
					ResourceVersion, Continue string
					RemainingItemCount        int
				}
				Items      []map[string]any
				TotalItems int
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
				t.Fatalf("%s %s: %v", form, raw, err)
			}
			if got.TotalItems != 300 || got.Items == nil || len(got.Items) != p.Len() || got.Metadata.ResourceVersion != p.ResourceVersion {
				t.Errorf("%s %s: %d of %d items", form, raw, len(got.Items), got.TotalItems)
			}
			if form == "list" && (got.Kind != "PodList" || got.APIVersion != "v1" || got.Metadata.Continue != "300" || got.Metadata.RemainingItemCount != p.Remaining) {
				t.Errorf("%s: %+v", raw, got.Metadata)
			}
			head := httptest.NewRecorder()
			answer.Respond(head, httptest.NewRequest(http.MethodHead, "/", nil))
			if head.Body.Len() != 0 || head.Header().Get("Content-Length") != rec.Header().Get("Content-Length") {
				t.Errorf("%s %s: HEAD is not GET without its body", form, raw)
			}
		}
	}
}

// Items and totals of one answer are of one moment, and filters find what changed, under churn.
func TestAnswersUnderChurnAreOfOneMoment(t *testing.T) {
	const path, n = "/api/v1/pods", 60
	var pods []string
	for i := range n {
		pods = append(pods, pod("a", fmt.Sprintf("p%02d", i), `"v":"0"`))
	}
	w := newWorld(t, map[string][]string{path: pods}, Options{})
	kind := w.resolve(t, "", "pods")
	if got := w.keys(t, kind, plan.Scope{}, "names=p00"); got != "a/p00" {
		t.Fatal(got)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 3000 {
			w.send(path, "MODIFIED", pod("a", fmt.Sprintf("p%02d", i%n), fmt.Sprintf(`"v":"%d"`, i%3)))
		}
		w.send(path, "MODIFIED", pod("a", "p00", `"v":"last"`))
	}()
	for i := 0; ; i++ {
		v := strconv.Itoa(i % 3)
		p, err := w.list(t, kind, plan.Scope{}, "label=v%3D"+v+"&name=p&sortBy=name")
		if err != nil {
			t.Fatal(err)
		}
		if p.Len() != p.Total {
			t.Fatalf("%d items, %d in all", p.Len(), p.Total)
		}
		for i := range p.Len() {
			if !strings.Contains(itemOf(p, i), `"v":"`+v+`"`) {
				t.Fatalf("an item does not match: %s", itemOf(p, i))
			}
		}
		if w.keys(t, kind, plan.Scope{Namespace: "a"}, "label=v%3Dlast") == "a/p00" {
			break
		}
	}
	<-done
}

func TestValuesAreOrderedByWhatTheyAre(t *testing.T) {
	ordered := []string{``, `-3`, `"0"`, `"500m"`, `1`, `"1.5"`, `"10Mi"`, `"2Gi"`, `"2025-12-01T00:00:00Z"`, `"2026-01-01T00:00:00+09:00"`,
		`"2026-01-01T00:00:00Z"`, `""`, `"10.0.0.1"`, `"9z"`, `"a"`, `"b"`, `true`}
	values := make([]plan.SortValue, len(ordered))
	for i, o := range ordered {
		values[i] = plan.ValueOf(o)
	}
	if !slices.IsSortedFunc(values, plan.SortValue.Compare) {
		t.Errorf("%+v", values)
	}
	for i := 1; i < len(values); i++ {
		if values[i-1].Compare(values[i]) >= 0 {
			t.Errorf("%s is not before %s", ordered[i-1], ordered[i])
		}
	}
}
