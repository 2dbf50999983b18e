package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/cluster"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
)

// kube is kube-apiserver with Labels; it records the writes.
type kube struct {
	labels map[string]map[string]any
	writes []string
	// conflict makes the next write a conflict.
	conflict bool
}

func (k *kube) RoundTrip(r *http.Request) (*http.Response, error) {
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, path), "/")
	body, _ := io.ReadAll(r.Body)
	rec := httptest.NewRecorder()
	fail := func(code int, reason string) {
		rec.WriteHeader(code)
		_, _ = fmt.Fprintf(rec, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"no"}`, reason, code)
	}
	if r.Method != http.MethodGet {
		k.writes = append(k.writes, r.Method+" "+name+" "+r.URL.RawQuery)
	}
	o, found := k.labels[name]
	switch {
	case r.Method != http.MethodPost && !found:
		fail(http.StatusNotFound, "NotFound")
	case r.Method == http.MethodGet:
		_ = json.NewEncoder(rec).Encode(o)
	case k.conflict:
		k.conflict = false
		fail(http.StatusConflict, "Conflict")
	case r.Method == http.MethodDelete:
		delete(k.labels, name)
		_, _ = rec.WriteString(`{"kind":"Status","status":"Success"}`)
	default:
		var in map[string]any
		_ = json.Unmarshal(body, &in)
		if r.Method == http.MethodPost {
			name = in["metadata"].(map[string]any)["name"].(string)
			rec.Code = http.StatusCreated
		}
		k.labels[name] = map[string]any{"apiVersion": "cluster.kubesphere.io/v1alpha1", "kind": "Label", "metadata": map[string]any{"name": name, "resourceVersion": "6"}, "spec": in["spec"]}
		_ = json.NewEncoder(rec).Encode(k.labels[name])
	}
	return rec.Result(), nil
}

type world struct {
	t *testing.T
	*kube
	container *restful.Container
	// may are the rights of users to Labels at kube-apiserver: "user verb name", where * is any name.
	may []string
}

func newWorld(t *testing.T, may ...string) *world {
	t.Helper()
	w := &world{t: t, may: may, kube: &kube{labels: map[string]map[string]any{
		"a": {"kind": "Label", "metadata": map[string]any{"name": "a", "resourceVersion": "5"}, "spec": map[string]any{"key": "env", "value": "test", "clusters": []any{"host"}}},
		"b": {"kind": "Label", "metadata": map[string]any{"name": "b", "resourceVersion": "5"}, "spec": map[string]any{"key": "env", "value": "dev"}},
	}}}
	decide := authz.Func(func(_ context.Context, u user.Info, i *request.Info) (authz.Decision, error) {
		for _, name := range []string{i.Name, "*"} {
			if i.Resource == "labels" && i.IsKubernetes && slices.Contains(w.may, u.GetName()+" "+i.Verb+" "+name) {
				return authz.Allow("", ""), nil
			}
		}
		return authz.Decision{}, nil
	})
	h := &cluster.V1alpha1{
		Caches: kapistest.NewAccounts(t, map[string][]any{
			path: {label("a", "2026-01-02T00:00:00Z", "env", "test"), label("b", "2026-01-03T00:00:00Z", "env", "dev")},
			"/apis/cluster.kubesphere.io/v1alpha1/clusters": {`{"metadata":{"name":"host","resourceVersion":"5"}}`, `{"metadata":{"name":"edge","resourceVersion":"5"}}`},
		}),
		AsCaller: caller.Client{May: decide, Kube: w.kube},
		Objects: func(r *restful.Request) (any, error) {
			body, err := io.ReadAll(r.Request.Body)
			return map[string]string{"object": string(body)}, err
		},
	}
	w.container = kapistest.Container(h.WebService())
	return w
}

// do sends a request that the filters have allowed: what it takes besides is decided by its handler.
func (w *world) do(who, method, target, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	r, rec := httptest.NewRequestWithContext(w.t.Context(), method, root+target, strings.NewReader(body)), httptest.NewRecorder()
	r.Header.Set("Content-Type", "application/json")
	info, err := request.Parse(r)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx := request.WithUser(request.WithInfo(r.Context(), info), &user.DefaultInfo{Name: who})
	w.container.ServeHTTP(rec, r.WithContext(ctx))
	return rec
}

func (w *world) spec(name string) string {
	w.t.Helper()
	b, err := json.Marshal(w.labels[name]["spec"])
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

var all = []string{"ops create *", "ops create ", "ops get *", "ops patch *", "ops delete *"}

// D4: the requests of the page of clusters' labels.
func TestD4LabelsAreWrittenAsPagesWriteThem(t *testing.T) {
	w := newWorld(t, all...)
	rec := w.do("ops", http.MethodPost, "/labels", `[{"key":"env","value":"live","cluster":"host"},{"key":"region","value":"eu 1"}]`)
	var made []struct {
		Metadata struct{ Name string }
		Spec     struct{ Key, Value string }
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &made); err != nil || rec.Code != http.StatusOK || len(made) != 2 || made[0].Spec.Key != "env" ||
		made[1].Spec.Value != "eu 1" || made[0].Metadata.Name == made[1].Metadata.Name {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	w.conflict = true
	for _, c := range []struct{ method, target, body, label, want string }{
		{http.MethodPut, "/labels/a", `{"key":"stage","value":"test","cluster":"host"}`, "a", `{"clusters":["host"],"key":"stage","value":"test"}`},
		{http.MethodPost, "/labelbindings", `{"labels":["a","b"],"cluster":"x","clusters":["host","edge"]}`, "a",
			`{"clusters":["host","edge"],"key":"stage","value":"test"}`},
		{http.MethodGet, "", "", "b", `{"clusters":["host","edge"],"key":"env","value":"dev"}`},
		{http.MethodPut, "/labels/a?action=unbind", `{"cluster":"edge","clusters":["host","gone"]}`, "a",
			`{"clusters":["edge"],"key":"stage","value":"test"}`},
		{http.MethodDelete, "/labels", `["a","b","gone"]`, "a", "null"},
	} {
		if c.target != "" {
			if rec := w.do("ops", c.method, c.target, c.body); rec.Code != http.StatusOK {
				t.Fatalf("%s %s: %d %s", c.method, c.target, rec.Code, rec.Body)
			}
		}
		if got := w.spec(c.label); got != c.want {
			t.Errorf("%s %s: %s is %s, want %s", c.method, c.target, c.label, got, c.want)
		}
	}
}

// A Label itself is written as every object is.
func TestAnObjectIsPassedOnWhole(t *testing.T) {
	w := newWorld(t)
	for _, c := range [][3]string{
		{http.MethodPost, "/labels", `{"kind":"Label"}`},
		{http.MethodPut, "/labels/a", `{"kind":"Label","metadata":{"name":"a"}}`},
		{http.MethodPut, "/labels/a", `{"metadata":{"name":"a"}}`},
		{http.MethodDelete, "/labels", ``},
		{http.MethodDelete, "/labels", `{"propagationPolicy":"Background"}`},
	} {
		want, _ := json.Marshal(map[string]string{"object": c[2]})
		if rec := w.do("ops", c[0], c[1], c[2]); rec.Code != http.StatusOK || rec.Body.String() != string(want) {
			t.Errorf("%v: %d %s", c, rec.Code, rec.Body)
		}
	}
}

// S7: the right to the route is none to the Labels: each is written by the caller's right to that one.
func TestD4EachLabelIsAuthorized(t *testing.T) {
	w := newWorld(t, "eve create x", "eve get b", "eve patch b", "eve get a", "eve delete b")
	for _, c := range [][3]string{
		{http.MethodPost, "/labels", `[{"key":"env","value":"live"}]`},
		{http.MethodPut, "/labels/a", `{"key":"env","value":"live"}`},
		{http.MethodPut, "/labels/a?action=unbind", `{"clusters":["host"]}`},
		{http.MethodPost, "/labelbindings", `{"labels":["b","a"],"clusters":["host"]}`},
		{http.MethodDelete, "/labels", `["b","a"]`},
		{http.MethodDelete, "/labels", `["a"]`},
	} {
		if rec := w.do("eve", c[0], c[1], c[2]); rec.Code != http.StatusForbidden {
			t.Errorf("%v: %d %s", c, rec.Code, rec.Body)
		}
		if got := w.spec("a"); got != `{"clusters":["host"],"key":"env","value":"test"}` || len(w.labels) > 2 {
			t.Errorf("%v: a is %s", c, got)
		}
	}
	if !strings.Contains(w.do("eve", http.MethodPost, "/labelbindings", `{"labels":["a"],"clusters":["host"]}`).Body.String(), `the label \"a\" was not put`) {
		t.Error("nobody says which label it was")
	}
}

func TestD4BadBodiesChangeNothing(t *testing.T) {
	w := newWorld(t, all...)
	long := strings.Repeat("k", 317)
	for _, c := range [][4]string{
		{http.MethodPost, "/labels", `[]`, "name 1 to 100"},
		{http.MethodPost, "/labels", `[` + strings.Repeat(`{"key":"a"},`, 100) + `{"key":"a"}]`, "name 1 to 100"},
		{http.MethodPost, "/labels", `["env"]`, "must have the form"},
		{http.MethodPost, "/labels", `[{"key":"env"}] {}`, "must have the form"},
		{http.MethodPost, "/labels", `[{"key":"new","key":"newer"}]`, "must have the form"},
		{http.MethodPost, "/labels", `[{"Key":"new"}]`, "no key"},
		{http.MethodPut, "/labels/a?action=unbind", `{"clusters":["host"],"clusters":["member"]}`, "must have the form"},
		{http.MethodPost, "/labelbindings", `{"labels":["a"],"clusters":["host"],"labels":["b"]}`, "must have the form"},
		{http.MethodPost, "/labels", `[{"key":"new"},{"key":" "}]`, "no key"},
		{http.MethodPost, "/labels", `[{"key":"new"},{"key":"` + long + `"}]`, "too long"},
		{http.MethodPost, "/labels", `[{"key":"new\u0000"}]`, "control characters"},
		{http.MethodPost, "/labels", `[{"key":"new"},{"key":"env","value":"test"}]`, "already"},
		{http.MethodPost, "/labels", `[{"key":"new"},{"key":"new"}]`, "twice"},
		{http.MethodPost, "/labels?dryrun=All", `[{"key":"new"}]`, "dryRun"},
		{http.MethodPost, "/labels", `[{"key":"` + strings.Repeat("k", 64<<10) + `"}]`, "at most"},
		{http.MethodPut, "/labels/a", `[]`, ""},
		{http.MethodPut, "/labels/a", `{"key":"env","value":"dev"}`, "already"},
		{http.MethodPut, "/labels/a?action=bind", `{"clusters":["host"]}`, "no action"},
		{http.MethodPut, "/labels/a?action=unbind", `{}`, "name 1 to 100"},
		{http.MethodPut, "/labels/a?action=unbind", `{"clusters":["../x"]}`, "can't be the name"},
		{http.MethodPut, "/labels/a?action=unbind", `{"labels":["b"],"clusters":["host"]}`, "in the path"},
		{http.MethodDelete, "/labels", `["a/../../secrets"]`, "can't be the name"},
		{http.MethodDelete, "/labels", `[{"name":"a"}]`, "must have the form"},
		{http.MethodPost, "/labelbindings", `[{"labels":["a"],"clusters":["host"]}]`, "must have the form"},
		{http.MethodPost, "/labelbindings", `{"labels":["a"],"clusters":["none"]}`, "no cluster"},
		{http.MethodPost, "/labelbindings", `{"labels":[],"clusters":["host"]}`, "name 1 to 100"},
	} {
		rec := w.do("ops", c[0], c[1], c[2])
		if c[3] == "" { // an object, or nothing that is one
			continue
		}
		if rec.Code/100 != 4 || !strings.Contains(rec.Body.String(), c[3]) {
			t.Errorf("%.120v: %d %s", c, rec.Code, rec.Body)
		}
	}
	if len(w.writes) > 0 {
		t.Errorf("written: %v", w.writes)
	}
}
