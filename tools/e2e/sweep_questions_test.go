package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

// kind is a kind that the cluster serves.
type kind struct {
	schema.GroupVersionResource
	namespaced, listed bool
	subresources       []string
}

// sweep is what there is to ask about.
type sweep struct {
	people  []visitor
	tenants []string
	kinds   []kind
	// routes are the methods by path, as the OpenAPI document has them.
	routes map[string][]string
	// names are one existing object of each kind of the cluster.
	names  map[string]string
	client dynamic.Interface
}

// question is one request, and what the allow-list calls its path.
type question struct{ method, path, route string }

func newSweep(t *testing.T) *sweep {
	t.Helper()
	a := admin(t)
	own, other := newTenant(t, unique("sweep")), newTenant(t, unique(foreignMark))
	nobody, node := unique("nobody"), readyNode(t)
	at := func(w tenant) map[string]string {
		ids := map[string]string{
			"namespace":        w.namespace,
			"workspace":        w.workspace,
			"pod":              w.pod,
			"node":             node,
			"secret":           w.secret,
			"workloadtemplate": w.secret, // which is none
			"version":          "v1",
			"cluster":          "host",
			"config":           "theme",
			"resourcequota":    w.workspace,
			"gateway":          "kubesphere-router-" + w.namespace,
			"application":      w.workspace + sweptRelease,
		}
		for _, p := range []string{"user", "username", "member", "workspacemember"} {
			ids[p] = w.user
		}
		for _, p := range []string{"app", "attachment", "category", "crname", "repo", "job", "deployment", "daemonset", "statefulset", "revision", "component",
			"provider", "file", "name", "subpath", "label", "extensionversion"} {
			ids[p] = "none"
		}
		return ids
	}
	w := &sweep{routes: map[string][]string{}, names: map[string]string{}, tenants: []string{own.workspace, other.workspace}}
	w.people = []visitor{
		{anonymous(), "anonymous", "anonymous", at(other), foreignMark},
		{newUser(t, nobody), "user", "nobody", at(other), foreignMark},
		{own.caller, "member", "the member of A", at(other), foreignMark},
		{other.caller, "member", "the member of B", at(own), own.workspace},
		{a, "", "the admin", at(other), ""},
	}
	w.readRoutes(t)
	w.discover(t)
	return w
}

// readRoutes reads the live table of routes.
func (w *sweep) readRoutes(t *testing.T) {
	t.Helper()
	document := decode[struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}](t, admin(t).must(t, http.StatusOK, http.MethodGet, "/openapi/v2", nil).body)
	for path, operations := range document.Paths {
		if strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/apis/") || path == "/api" {
			continue // kube-apiserver's: below, kind by kind
		}
		for method := range operations {
			if method != "parameters" {
				w.routes[path] = append(w.routes[path], strings.ToUpper(method))
			}
		}
	}
	if len(w.routes) < 100 {
		t.Fatalf("%d routes: the document is not that of the live table", len(w.routes))
	}
}

// discover finds the kinds of the cluster in all their versions, their sub-resources, and one object of each.
func (w *sweep) discover(t *testing.T) {
	t.Helper()
	config, err := product.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if w.client, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	var lists []*metav1.APIResourceList
	eventually(t, "all groups are discovered", func(context.Context) (err error) { // one of an earlier test may be going
		_, lists, err = client.ServerGroupsAndResources()
		return err
	})
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		subresources := map[string][]string{}
		for i := range l.APIResources {
			if name, sub, ok := strings.Cut(l.APIResources[i].Name, "/"); ok {
				subresources[name] = append(subresources[name], sub)
			}
		}
		for i := range l.APIResources {
			if r := &l.APIResources[i]; !strings.Contains(r.Name, "/") {
				w.kinds = append(w.kinds, kind{gv.WithResource(r.Name), r.Namespaced, slices.Contains(r.Verbs, "list"), append(subresources[r.Name], "none")})
			}
		}
	}
	if len(w.kinds) < 60 {
		t.Fatalf("%d kinds", len(w.kinds))
	}
	for _, k := range w.kinds {
		w.names[k.GroupResource().String()] = "none"
		if !k.listed || k.namespaced {
			continue
		}
		if items := w.objectsOf(t, k, metav1.ListOptions{Limit: 1}); len(items) == 1 {
			w.names[k.GroupResource().String()] = items[0].GetName()
		}
	}
	w.names["users.iam.kubesphere.io"] = "admin"
}

// objectsOf lists the objects of a kind. There are none where its definition, of an earlier test, has gone since the kinds were discovered.
func (w *sweep) objectsOf(t *testing.T, k kind, o metav1.ListOptions) []unstructured.Unstructured {
	t.Helper()
	l, err := w.client.Resource(k.GroupVersionResource).List(t.Context(), o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatalf("list %s: %v", k.Resource, err)
	}
	return l.Items
}

// path is where a kind is served below a root: /apis or /kapis.
func (k kind) path(root, within string) string {
	if k.Group == "" {
		return strings.TrimSuffix(root, "s") + "/" + k.Version + within + "/" + k.Resource
	}
	return root + "/" + k.Group + "/" + k.Version + within + "/" + k.Resource
}

var (
	parameter  = regexp.MustCompile(`\{([a-z]+)\}`)
	allMethods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
)

// questions returns everything that v is asked as.
func (w *sweep) questions(t *testing.T, v visitor) []question {
	t.Helper()
	var all []question
	for path, methods := range w.routes {
		switch {
		case path == "/oauth/logout": // it ends the login
		case strings.Contains(path, "/{resources}"):
			for _, k := range w.kinds {
				all = append(all, w.routed(v, methods, path, k)...)
			}
		default:
			all = append(all, route(t, v, methods, path)...)
		}
	}
	for _, k := range w.kinds {
		all = append(all, w.passedOn(v, k)...)
	}
	for _, path := range []string{
		"/", "/metrics", "/debug/pprof/", "/logs/", "/api", "/apis", "/apis/apps", "/apis/none.example.com/v1/x", "/kapis/none.example.com/v1/x", "/openapi/v2",
		"/openapi/v3", "/healthz", "/livez", "/readyz",
		"/proxy/x", "/dist/x", "/clusters/none/api/v1/pods", "/clusters/host/metrics", "/kapis/terminal.kubesphere.io/v1alpha2/users/admin/kubectl",
	} {
		for _, method := range allMethods {
			all = append(all, question{method, path, path})
		}
	}
	return all
}

// route asks a route, with ids that exist, by every method, also in the cluster by its name.
func route(t *testing.T, v visitor, methods []string, path string) []question {
	t.Helper()
	full := parameter.ReplaceAllStringFunc(path, func(p string) string {
		id, ok := v.ids[strings.Trim(p, "{}")]
		if !ok {
			t.Fatalf("%s: the sweep does not know the parameter %s", path, p)
		}
		return id
	})
	var out []question
	for _, method := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(allMethods, methods)))) {
		out = append(out, question{method, full, path})
		if strings.HasPrefix(path, "/kapi") {
			out = append(out, question{method, "/clusters/host" + full, path})
		}
	}
	return out
}

// routed asks a route for any kind for one that can be meant.
func (w *sweep) routed(v visitor, methods []string, path string, k kind) []question {
	switch {
	case !k.listed, strings.HasPrefix(path, "/kapi/") && k.Group != "", strings.HasPrefix(path, "/kapis/{group}") && k.Group == "",
		slices.ContainsFunc([]string{"iam", "tenant", "cluster", "gateway", "application"}, func(own string) bool {
			return strings.HasPrefix(path, "/kapis/"+own+".") && k.Group != own+".kubesphere.io"
		}),
		strings.Contains(path, "/namespaces/{namespace}") && !k.namespaced:
		return nil
	}
	subs := []string{""}
	if strings.Contains(path, "{subresource}") {
		subs = k.subresources
	}
	query := ""
	if strings.Contains(path, "/watch/") {
		query = "?timeoutSeconds=1"
	}
	var out []question
	for _, sub := range subs {
		called := strings.NewReplacer("{group}", k.Group, "{version}", k.Version, "{resources}", k.Resource, "{subresource}", sub).Replace(path)
		full := strings.NewReplacer("{name}", w.nameOf(v, k), "{namespace}", v.ids["namespace"], "{workspace}", v.ids["workspace"]).Replace(called) + query
		for _, method := range methods {
			out = append(out, question{method, full, called})
		}
		if sub == "" {
			out = append(out, question{http.MethodGet, "/clusters/host" + full, called}, question{http.MethodHead, full, called})
		}
		if query == "" && sub == "" && !strings.Contains(path, "{name}") { // a watch of the list, and of one object
			out = append(out, question{http.MethodGet, full + "?watch=true&timeoutSeconds=1", called},
				question{http.MethodGet, full + "?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3D" + w.nameOf(v, k), called})
		}
	}
	return out
}

func (w *sweep) nameOf(v visitor, k kind) string {
	switch k.Resource {
	case "pods":
		return v.ids["pod"]
	case "secrets":
		return v.ids["secret"]
	case "namespaces":
		return v.ids["namespace"]
	case "workspaces", "workspacetemplates":
		return v.ids["workspace"]
	case "workspaceroles", "workspacerolebindings":
		return v.ids["workspace"] + "-admin"
	}
	return w.names[k.GroupResource().String()]
}

// passedOn asks for a kind at kube-apiserver's own paths.
func (w *sweep) passedOn(v visitor, k kind) []question {
	within, called := "", ""
	if k.namespaced {
		within, called = "/namespaces/"+v.ids["namespace"], "/namespaces/{namespace}"
	}
	name := w.nameOf(v, k)
	one := "fieldSelector=metadata.name%3D" + name
	here, calledHere := k.path("/apis", within), k.path("/apis", called)
	everywhere := k.path("/apis", "")
	older := strings.Replace(here, "/"+k.Version+"/", "/"+k.Version+"/watch/", 1)
	out := []question{
		{
			http.MethodGet,
			here,
			calledHere,
		},
		{http.MethodGet, "/clusters/host" + here, calledHere},
		{http.MethodPost, here, calledHere},
		{http.MethodDelete, here + "?" + one, calledHere},
		{http.MethodGet, everywhere, everywhere},
		{http.MethodPost, everywhere, everywhere},
		{http.MethodGet, older + "/" + name + "?timeoutSeconds=1", calledHere},
		{http.MethodGet, older + "?timeoutSeconds=1", calledHere},
	}
	for _, query := range []string{"?watch=true&timeoutSeconds=1", "?watch=true&timeoutSeconds=1&" + one} { // S2
		out = append(out, question{http.MethodGet, here + query, calledHere}, question{http.MethodGet, everywhere + query, everywhere})
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		out = append(out, question{method, here + "/" + name, calledHere + "/{name}"})
	}
	for _, sub := range append(k.subresources, "proxy/none") {
		for _, method := range allMethods {
			out = append(out, question{method, here + "/" + name + "/" + sub, calledHere + "/{name}/" + sub})
		}
	}
	return out
}

// busy are kinds that change by themselves.
var busy = []string{"events", "leases", "sessions", "loginrecords", "lockouts", "endpoints", "endpointslices"}

// digests are what all objects say, their status aside.
func (w *sweep) digests(t *testing.T) map[string][sha256.Size]byte {
	t.Helper()
	out, tenants := map[string][sha256.Size]byte{}, 0
	for _, k := range w.kinds {
		if !k.listed || slices.Contains(busy, k.Resource) {
			continue
		}
		items := w.objectsOf(t, k, metav1.ListOptions{})
		for i := range items {
			o := &items[i]
			if len(o.GetOwnerReferences()) > 0 { // what a controller makes of something else
				continue
			}
			key := k.Resource + "." + k.Group + "/" + k.Version + " " + o.GetNamespace() + "/" + o.GetName()
			unstructured.RemoveNestedField(o.Object, "status")
			o.SetResourceVersion("")
			o.SetManagedFields(nil)
			out[key] = sha256.Sum256([]byte(encode(t, o.Object)))
			if w.ofTenants(key) {
				tenants++
			}
		}
	}
	if tenants < 20 { // their workspaces, roles, bindings, namespaces, people, Pods and Secrets
		t.Fatalf("%d objects of the tenants", tenants)
	}
	return out
}

// ofTenants tells the objects of the two tenants.
func (w *sweep) ofTenants(key string) bool {
	return slices.ContainsFunc(w.tenants, func(tenant string) bool { return strings.Contains(key, tenant) })
}

// changes are the objects that are new, and those of the two tenants that are others or gone: what other tests had is still going.
func (w *sweep) changes(before, after map[string][sha256.Size]byte) []string {
	var out []string
	for key := range after {
		if _, ok := before[key]; !ok {
			out = append(out, key+" is new")
		}
	}
	for key, was := range before {
		is, there := after[key]
		if (!there || is != was) && w.ofTenants(key) {
			out = append(out, key+" has changed or is gone")
		}
	}
	slices.Sort(out)
	return out
}
