package lite_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	served "kapis.dev/ks-apiserver/pkg/apiserver/lite"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/cluster/lite"
)

const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"

// cluster is one without our programs, whose RBAC lets users read pods in one namespace.
type cluster struct {
	mu      sync.Mutex
	asked   []string // reviews: "user groups verb resource namespace name"
	reached []http.Header
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case path == "/api":
		_, _ = io.WriteString(w, `{"kind":"APIVersions","versions":["v1"]}`)
	case path == "/apis":
		_, _ = io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	case path == "/api/v1":
		_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod",`+
			`"namespaced":true,"kind":"Pod","verbs":["get","list","watch","create","update","patch","delete"]}]}`)
	case strings.HasSuffix(path, "/subjectaccessreviews"):
		c.review(w, r)
	case r.Header.Get("Impersonate-User") != "":
		c.mu.Lock()
		c.reached = append(c.reached, r.Header.Clone())
		c.mu.Unlock()
		_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[]}`)
	case r.URL.Query().Get("watch") != "":
		if path == "/api/v1/pods" {
			for _, at := range []string{"a", "b"} {
				_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p-%[1]s","namespace":%[1]q,"uid":"u-%[1]s",`+
					`"resourceVersion":"5"}}}`+"\n", at)
			}
		}
		if strings.HasSuffix(path, "/rolebindings") {
			_, _ = io.WriteString(w, `{"type":"ADDED","object":{"metadata":{"name":"b","namespace":"a","uid":"u-b","resourceVersion":"5"},"subjects":[`+
				`{"kind":"User","name":"ann"},{"kind":"User","name":"system:kube-scheduler"},{"kind":"Group","name":"ops"}]}}`+"\n"+
				`{"type":"ADDED","object":{"metadata":{"name":"b","namespace":"kube-system","uid":"u-s","resourceVersion":"5"},"subjects":[`+
				`{"kind":"User","name":"sam"}]}}`+"\n")
		}
		if strings.HasSuffix(path, "/clusterrolebindings") {
			_, _ = io.WriteString(w, `{"type":"ADDED","object":{"metadata":{"name":"b","uid":"u-c","resourceVersion":"5"},"subjects":[`+
				`{"kind":"User","name":"cleo"}]}}`+"\n")
		}
		_, _ = io.WriteString(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		http.NotFound(w, r)
	}
}

// review lets ann, or a member of ops, read pods in the namespace a.
func (c *cluster) review(w http.ResponseWriter, r *http.Request) {
	var o authorizationv1.SubjectAccessReview
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &o)
	a := o.Spec.ResourceAttributes
	c.mu.Lock()
	c.asked = append(c.asked, fmt.Sprint(o.Spec.User, o.Spec.Groups, a.Verb, a.Group, a.Resource, a.Namespace, a.Name))
	c.mu.Unlock()
	o.Status.Allowed = (o.Spec.User == "ann" || slices.Contains(o.Spec.Groups, "ops")) && a.Group == "" && a.Resource == "pods" && a.Namespace == "a" &&
		slices.Contains([]string{"get", "list", "watch"}, a.Verb)
	o.Kind, o.APIVersion = "SubjectAccessReview", "authorization.k8s.io/v1"
	_ = json.NewEncoder(w).Encode(o)
}

// hub is what asks a lite member over its link.
func hub(t *testing.T, c *cluster, groups ...string) (do func(path string, header ...string) (int, string), s *lite.Served) {
	t.Helper()
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	all := &served.Clusters{MaxItems: 100}
	s, err := all.Serve(t.Context(), lite.Terms{Name: "edge", Groups: groups,
		Config:            &rest.Config{Host: srv.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		KubernetesVersion: "v1.37.1"})
	if err != nil {
		t.Fatal(err)
	}
	by := linktest.NewAuthority(t)
	one, other := linktest.Pair(t)
	go func() {
		_ = (&link.Handler{Identity: by.Member(t, uid), Handler: s.Handler}).Serve(t.Context(), other, 0)
	}()
	l, err := link.Open(t.Context(), one, uid, by.Hub(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return func(path string, header ...string) (int, string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://member"+path, nil)
		r.RequestURI, r.Header = "", http.Header{}
		for _, h := range header {
			k, v, _ := strings.Cut(h, ": ")
			r.Header.Add(k, v)
		}
		resp, err := l.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(raw)
	}, s
}

// F41: the cluster's own RBAC decides on lists from the cache and on what kube-apiserver answers; what only our programs have is said to be missing.
func TestTheClusterDecides(t *testing.T) {
	c := &cluster{}
	do, s := hub(t, c, "ops")
	ann, bob := []string{"X-Remote-User: ann", "X-Remote-Uid: u-ann"}, []string{"X-Remote-User: bob", "X-Remote-Uid: u-bob"}
	ops := append(slices.Clone(bob), "X-Remote-Group: ops")
	for _, x := range []struct {
		who  []string
		path string
		code int
		want string
	}{
		{ann, "/api/v1/namespaces/a/pods", 200, "PodList"},
		{ann, "/api/v1/namespaces/b/pods", 403, "the cluster's own RBAC"},
		{bob, "/api/v1/namespaces/a/pods", 403, "the cluster's own RBAC"},
		{ops, "/api/v1/namespaces/a/pods", 200, "PodList"},
		{ann, "/kapis/resources.kubesphere.io/v1alpha3/namespaces/a/pods", 200, `"name":"p-a"`},
		{ann, "/kapis/resources.kubesphere.io/v1alpha3/namespaces/a/pods/p-a", 200, `"name":"p-a"`},
		{ann, "/kapis/resources.kubesphere.io/v1alpha3/pods", 403, `RBAC decide, and none allows to list pods of the API group \"\"`},
		{ann, "/kapi/v1/namespaces/a/pods", 200, `"name":"p-a"`},
		{ann, "/kapi/v1/namespaces/b/pods", 403, "RBAC"},
		{bob, "/kapi/v1/namespaces/a/pods", 403, "RBAC"},
		{ann, "/kapi/v1/namespaces/a/secrets", 403, "RBAC"},
		{ann, "/kapis/resources.kubesphere.io/v1alpha3/namespaces/a/nonsense", 501, "no program of ours"},
		{ann, "/kapis/iam.kubesphere.io/v1beta1/users", 501, "no program of ours"},
		{ann, "/kapis/tenant.kubesphere.io/v1beta1/workspaces/w/namespaces", 501, "no program of ours"},
		{ann, "/oauth/token", 501, "no program of ours"},
		{ann, "/metrics", 501, "no program of ours"},
		{ann, "/clusters/other/api/v1/namespaces/a/pods", 400, "does not exist"},
		{ann, "/version", 200, "v1.37.1"},
		{ann, "/kapis", 200, "APIGroupList"},
		{append(slices.Clone(ann), "X-Remote-Extra-Scope: read"), "/api/v1/namespaces/a/pods", 200, ""},
		{append(slices.Clone(ann), "X-Remote-Extra-Scope: unknown"), "/api/v1/namespaces/a/pods", 403, "API key"},
	} {
		if code, text := do(x.path, x.who...); code != x.code || !strings.Contains(text, x.want) {
			t.Errorf("%v asks for %s: %d %.300s, want %d %s", x.who, x.path, code, text, x.code, x.want)
		}
	}
	if bound, wide, err := s.Bound(t.Context()); err != nil || strings.Join(bound, " ") != "ann cleo sam" || strings.Join(wide, " ") != "cleo sam" {
		t.Errorf("it binds %v, and in the whole cluster %v, %v", bound, wide, err)
	}
}

// F41: nothing is answered to nobody, nor to who is no user of the fleet.
func TestOnlyUsersAreServed(t *testing.T) {
	for _, who := range [][]string{nil, {"X-Remote-User: ann"},
		{"X-Remote-User: system:admin", "X-Remote-Uid: u"}, {"X-Remote-User: kapis:hub", "X-Remote-Uid: u"},
		{"X-Remote-User: ann", "X-Remote-User: bob", "X-Remote-Uid: u"}, {"Authorization: Bearer x"}} {
		for _, path := range []string{"/api/v1/namespaces/a/pods", "/version"} {
			c := &cluster{}
			do, _ := hub(t, c) // a refusal ends the connection
			if code, text := do(path, who...); code != http.StatusUnauthorized || len(c.reached)+len(c.asked) > 0 {
				t.Errorf("%v asks for %s: %d %s", who, path, code, text)
			}
		}
	}
}

// F16, F41: kube-apiserver is told the user's name, and of their groups those alone that its administrator lets count.
func TestUsersAreImpersonatedWithinBounds(t *testing.T) {
	c := &cluster{}
	do, _ := hub(t, c, "ops")
	if code, text := do("/api/v1/namespaces/a/pods", "X-Remote-User: ann", "X-Remote-Uid: u-ann", "X-Remote-Group: dev", "X-Remote-Group: ops",
		"X-Remote-Group: system:masters", "X-Remote-Group: kapis:global:admin", "Authorization: Bearer canary", "Cookie: token=canary"); code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.reached[0]
	if h.Get("Impersonate-User") != "ann" || h.Get("Impersonate-Uid") != "u-ann" ||
		strings.Join(slices.Sorted(slices.Values(h["Impersonate-Group"])), " ") != "ops system:authenticated" {
		t.Errorf("it is told %v", h)
	}
	for _, key := range slices.Sorted(maps.Keys(h)) {
		if strings.Contains(strings.Join(h[key], " "), "canary") || strings.HasPrefix(key, "X-Remote-") {
			t.Errorf("%s: %v", key, h[key])
		}
	}
	if len(c.asked) != 1 || !strings.HasPrefix(c.asked[0], "ann[ops system:authenticated]list") {
		t.Errorf("it is asked %v", c.asked)
	}
}
