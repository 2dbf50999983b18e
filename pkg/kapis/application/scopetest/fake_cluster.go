// Package scopetest has a small cluster with objects of the application store, for tests of its routes.
package scopetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/store/storetest"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Root is the root path of the routes.
const Root = "/kapis/application.kubesphere.io/v2"

const kubeRoot = "/apis/application.kubesphere.io/v2/"

// Group is the group in which the routes write.
const Group = "kapis:platform:appstore"

// plurals are the kinds of the store.
var plurals = []string{"applications", "applicationversions", "applicationreleases", "categories", "repos"}

var kinds = storetest.Kinds{
	v2.SchemeGroupVersion: storetest.Cluster(plurals...),
	{Version: "v1"}:       append(storetest.Cluster("namespaces"), storetest.Namespaced("events", "configmaps")...),
	{Group: "apiextensions.k8s.io", Version: "v1"}: storetest.Cluster("customresourcedefinitions"),
}

// Rights are the rights of one user.
type Rights struct {
	// Platform are rights everywhere, as "verb resource" or "*".
	Platform []string
	// Workspaces are rights in workspaces, by their names; the user is a member of each.
	Workspaces map[string][]string
	// Namespaces are rights in namespaces, by their names.
	Namespaces map[string][]string
}

// World is a cluster with objects, as the caches and as kube-apiserver have them. What is written shows in the latter only.
type World struct {
	t *testing.T
	// Store is for the routes under test.
	Store *scope.Store
	// Users are the rights of users.
	Users map[string]Rights

	mu sync.Mutex
	// live has the objects of kube-apiserver, by plural/name.
	live map[string]map[string]any
	// Writes are the writes that kube-apiserver got: "METHOD path".
	writes    []string
	version   int
	container *restful.Container
}

// Object returns an object of the store.
func Object(plural, name, workspace, state string, labels map[string]string) map[string]any {
	all := map[string]any{}
	if workspace != "" {
		all[scope.LabelWorkspace] = workspace
	}
	for k, v := range labels {
		all[k] = v
	}
	o := map[string]any{"apiVersion": v2.SchemeGroupVersion.String(), "kind": plural, "metadata": map[string]any{
		"name": name, "uid": "u-" + name, "resourceVersion": "5", "labels": all, "creationTimestamp": "2026-01-01T00:00:00Z",
	}, "spec": map[string]any{}}
	if state != "" {
		o["status"] = map[string]any{"state": state}
	}
	return o
}

// New returns a world with objects by their plural, or by their path at kube-apiserver, before the routes that mount adds.
func New(t *testing.T, objects map[string][]map[string]any, mount func(*scope.Store, *restful.WebService)) *World {
	t.Helper()
	w := &World{t: t, Users: map[string]Rights{}, live: map[string]map[string]any{}, version: 10}
	cached := map[string][]string{}
	for plural, all := range objects {
		for _, o := range all {
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			path := kubeRoot + plural
			if strings.HasPrefix(plural, "/") {
				path = plural
			}
			cached[path] = append(cached[path], string(text))
			var copied map[string]any
			if err := json.Unmarshal(text, &copied); err != nil {
				t.Fatal(err)
			}
			w.live[plural+"/"+copied["metadata"].(map[string]any)["name"].(string)] = copied
		}
	}
	st := kapistest.NewStoreOf(t, kinds, cached)
	w.Store = &scope.Store{Resources: resource.New(st, resource.Options{}), Host: "host",
		AsCaller: caller.Client{May: authz.Func(w.may), Kube: w}}
	ws := new(restful.WebService).Path(Root).Produces(restful.MIME_JSON)
	mount(w.Store, ws)
	w.container = kapistest.Container(ws)
	return w
}

func has(rights []string, i *request.Info) bool {
	resource := i.Resource
	if i.Subresource != "" {
		resource += "/" + i.Subresource
	}
	for _, r := range rights {
		verb, of, _ := strings.Cut(r, " ")
		if (verb == "*" || verb == i.Verb) && (of == "" || of == resource) {
			return true
		}
	}
	return false
}

// may decides as roles would.
func (w *World) may(_ context.Context, u user.Info, i *request.Info) (authz.Decision, error) {
	rights := w.Users[u.GetName()]
	if has(rights.Platform, i) {
		return authz.Allow("", "kapis:global:x"), nil
	}
	if i.Workspace != "" && has(rights.Workspaces[i.Workspace], i) {
		return authz.Allow("", "kapis:workspace:"+i.Workspace+":x"), nil
	}
	if i.Namespace != "" && has(rights.Namespaces[i.Namespace], i) {
		return authz.Allow("", "kapis:namespace:x"), nil
	}
	if i.OfCluster() {
		var in []string
		for name, own := range rights.Workspaces {
			if i.APIGroup == "tenant.kubesphere.io" && i.Resource == "workspaces" || has(own, i) {
				in = append(in, name)
			}
		}
		return authz.AllowPartial(authz.NewPartialList(nil, in), ""), nil
	}
	return authz.Decision{}, nil
}

// RoundTrip answers as kube-apiserver.
func (w *World) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := authz.DecisionFrom(r.Context()).Group; got != Group {
		w.t.Errorf("%s %s in the group %q", r.Method, r.URL, got)
	}
	rec := httptest.NewRecorder()
	body := []byte(nil)
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	if r.Method != http.MethodGet {
		w.writes = append(w.writes, r.Method+" "+strings.TrimPrefix(r.URL.Path, kubeRoot))
	}
	answer, err := w.answer(r.Method, strings.Split(strings.TrimPrefix(r.URL.Path, kubeRoot), "/"), body)
	web.Write(rec, r, answer, err)
	return rec.Result(), nil
}

func (w *World) answer(method string, at []string, body []byte) (any, error) {
	gr := schema.GroupResource{Group: v2.GroupName, Resource: at[0]}
	given := map[string]any{}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &given); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	meta, _ := given["metadata"].(map[string]any)
	w.version++
	if method == http.MethodPost {
		key := at[0] + "/" + meta["name"].(string)
		if w.live[key] != nil {
			return nil, apierrors.NewAlreadyExists(gr, meta["name"].(string))
		}
		meta["uid"], meta["resourceVersion"] = fmt.Sprintf("u-%d", w.version), fmt.Sprint(w.version)
		delete(given, "status")
		w.live[key] = given
		return given, nil
	}
	key := at[0] + "/" + at[1]
	now := w.live[key]
	if now == nil {
		return nil, apierrors.NewNotFound(gr, at[1])
	}
	version := now["metadata"].(map[string]any)["resourceVersion"]
	switch method {
	case http.MethodGet:
		return now, nil
	case http.MethodDelete:
		p := given["preconditions"].(map[string]any)
		if bound, is := p["resourceVersion"]; is && bound != version || p["uid"] != now["metadata"].(map[string]any)["uid"] {
			return nil, apierrors.NewConflict(gr, at[1], fmt.Errorf("it is %v", version))
		}
		delete(w.live, key)
		return metav1.Status{Status: metav1.StatusSuccess}, nil
	}
	if v := meta["resourceVersion"]; v != version {
		return nil, apierrors.NewConflict(gr, at[1], fmt.Errorf("it is %v", version))
	}
	if len(at) > 2 {
		given = map[string]any{at[2]: given[at[2]]}
	} else {
		delete(given, "status")
		delete(meta, "resourceVersion")
	}
	before, _ := json.Marshal(now)
	patch, _ := json.Marshal(given)
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return nil, err
	}
	next := map[string]any{}
	if err := json.Unmarshal(after, &next); err != nil {
		return nil, err
	}
	next["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(w.version)
	w.live[key] = next
	return next, nil
}

// Live returns an object as kube-apiserver has it, nil for none.
func (w *World) Live(plural, name string) map[string]any {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live[plural+"/"+name]
}

// Set gives an object at kube-apiserver another state, as somebody else would.
func (w *World) Set(plural, name, state string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	o := w.live[plural+"/"+name]
	o["status"] = map[string]any{"state": state}
	o["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(w.version)
}

// Remove removes an object at kube-apiserver, as somebody else would.
func (w *World) Remove(plural, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.live, plural+"/"+name)
}

// Writes returns the writes that kube-apiserver got since the last call: "METHOD plural/name".
func (w *World) Writes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.writes
	w.writes = nil
	return out
}

// Send sends a request of a user, as the filters let it pass, and returns its code and the body of the answer. headers are "Name: value".
func (w *World) Send(who, method, path, body string, headers ...string) (code int, answer string) {
	w.t.Helper()
	r, rec := httptest.NewRequestWithContext(w.t.Context(), method, Root+path, strings.NewReader(body)), httptest.NewRecorder()
	r.Header.Set("Content-Type", restful.MIME_JSON)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	info, err := request.Parse(r)
	if err != nil {
		w.t.Fatal(err)
	}
	u := &user.DefaultInfo{Name: who, Groups: []string{user.AllAuthenticated}}
	d, err := w.may(r.Context(), u, info)
	if err != nil {
		w.t.Fatal(err)
	}
	w.container.ServeHTTP(rec, r.WithContext(authz.WithDecision(request.WithUser(request.WithInfo(r.Context(), info), u), d)))
	return rec.Code, rec.Body.String()
}

// Expect sends a request as Send does, and returns the body of the answer, which must have the code.
func (w *World) Expect(code int, who, method, path, body string, headers ...string) string {
	w.t.Helper()
	got, answer := w.Send(who, method, path, body, headers...)
	if got != code {
		w.t.Errorf("%s: %s %s: %d %s, want %d", who, method, path, got, answer, code)
	}
	return answer
}

// Names returns the names of a list's items in their order.
func Names(t *testing.T, body string) []string {
	t.Helper()
	var list struct {
		Items []struct{ Metadata metav1.ObjectMeta }
		Total int `json:"totalItems"`
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err, body)
	}
	out := []string{}
	for _, o := range list.Items {
		out = append(out, o.Metadata.Name)
	}
	if list.Total < len(out) {
		t.Errorf("%d are more than the total %d", len(out), list.Total)
	}
	return out
}
