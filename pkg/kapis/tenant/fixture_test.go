package tenant_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	kapistenant "kapis.dev/ks-apiserver/pkg/kapis/tenant"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/store/storetest"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/tenant"
)

const root = "/kapis/tenant.kubesphere.io/v1beta1"

// canary is in what no user may see (S3).
const canary = "canary-4711"

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

var kindsOfTests = storetest.Kinds{
	{Version: "v1"}: storetest.Cluster("namespaces Namespace"),
	{Group: "tenant.kubesphere.io", Version: "v1beta1"}:   storetest.Cluster("workspaces Workspace", "workspacetemplates WorkspaceTemplate"),
	{Group: "cluster.kubesphere.io", Version: "v1alpha1"}: storetest.Cluster("clusters Cluster"),
	{Group: "quota.kubesphere.io", Version: "v1alpha2"}:   storetest.Cluster("resourcequotas ResourceQuota"),
	{Group: "iam.kubesphere.io", Version: "v1beta1"}: storetest.Cluster("users User", "workspaceroles WorkspaceRole",
		"workspacerolebindings WorkspaceRoleBinding"),
}

// objects are what the cluster holds, by the path of the kind.
func objects() map[string][]string {
	labelled := func(kind, name, workspace, rest string) string {
		return fmt.Sprintf(`{"kind":%q,"apiVersion":"v1","metadata":{"name":%q,"uid":"uid-%s","resourceVersion":"5","labels":{"kubesphere.io/workspace":%q}}%s}`,
			kind, name, name, workspace, rest)
	}
	plain := func(kind, name, metadata, rest string) string {
		return fmt.Sprintf(`{"kind":%q,"apiVersion":"v1","metadata":{"name":%q,"uid":"uid-%s","resourceVersion":"5"%s}%s}`, kind, name, name, metadata, rest)
	}
	const spec = `,"spec":{"template":{"spec":{"manager":"boss"}},"placement":{"clusters":[{"name":"host"}]}}`
	const connection = `,"spec":{"connection":{"type":"direct","kubeconfig":"` + canary + `","token":"` + canary + `"}}`
	return map[string][]string{
		"/api/v1/namespaces": {
			labelled("Namespace", "a1", "a", ""), labelled("Namespace", "a2", "a", ""), labelled("Namespace", "b1", "b", ""),
			plain("Namespace", "free", "", ""), plain("Namespace", "kube-system", "", ""), labelled("Namespace", "kubesphere-x", "a", ""),
			plain("Namespace", "held", `,"labels":{"kubesphere.io/workspace":"a","kubesphere.io/protected-resource":"true"}`, ""),
		},
		"/apis/tenant.kubesphere.io/v1beta1/workspaces": {
			plain("Workspace", "a", "", ""), plain("Workspace", "b", "", ""), plain("Workspace", "ending", `,"deletionTimestamp":"2026-11-21T11:00:00Z"`, ""),
		},
		"/apis/tenant.kubesphere.io/v1beta1/workspacetemplates": {
			plain("WorkspaceTemplate", "a", "", spec), plain("WorkspaceTemplate", "b", "", spec),
			plain("WorkspaceTemplate", "system", `,"labels":{"kubesphere.io/protected-resource":"true"}`, spec),
		},
		"/apis/cluster.kubesphere.io/v1alpha1/clusters": {
			plain("Cluster", "host", "", connection), plain("Cluster", "open", `,"labels":{"cluster.kubesphere.io/visibility":"public"}`, connection),
			plain("Cluster", "other", "", connection),
		},
		"/apis/iam.kubesphere.io/v1beta1/users":                 {plain("User", "alice", "", ""), plain("User", "bob", "", "")},
		"/apis/iam.kubesphere.io/v1beta1/workspaceroles":        {labelled("WorkspaceRole", "a-admin", "a", ""), labelled("WorkspaceRole", "b-admin", "b", "")},
		"/apis/iam.kubesphere.io/v1beta1/workspacerolebindings": {labelled("WorkspaceRoleBinding", "x", "a", "")},
		"/apis/quota.kubesphere.io/v1alpha2/resourcequotas":     {labelled("ResourceQuota", "a", "a", `,"spec":{"quota":{"hard":{"pods":"1"}}}`)},
	}
}

// world is the routes with a fake cluster: a cache of it, and kube-apiserver, which records what was sent.
type world struct {
	t         testing.TB
	container *restful.Container
	may       authz.Authorizer
	kube      *kube
	rights    map[string][]string // user -> what they may do
	members   map[string]*authz.PartialList
}

func newWorld(t testing.TB) *world {
	t.Helper()
	held := objects()
	st := kapistest.NewStoreOf(t, kindsOfTests, held)
	w := &world{t: t, kube: newKube(t, held), rights: map[string][]string{}, members: map[string]*authz.PartialList{}}
	fleet := &tenant.Clusters{Store: st, Host: "host"}
	rights := authz.Func(w.decide)
	members := &tenant.Members{Rights: rights, Bound: w, Fleet: fleet}
	w.may = &authz.Order{
		Authorizers: authz.Union{rights}, Members: members,
		Aliases: authz.Aliases{GroupOf: func(string) (gr schema.GroupResource, ok bool) { return gr, false }},
	}
	h := &kapistenant.Handler{
		Resources: resource.New(st, resource.Options{}), AsCaller: caller.Client{May: w.may, Kube: w.kube}, Fleet: fleet, Labelled: w, Now: noon,
		Granted: members.Granted, Streams: stream.New(stream.Options{}),
		UserOf: func(name string) user.Info {
			if name != "alice" {
				return nil
			}
			return &user.DefaultInfo{Name: name, Groups: []string{"team", user.AllAuthenticated}}
		},
	}
	w.container = kapistest.Container(h.WebService(kapistenant.V1beta1), h.WebService(kapistenant.V1alpha3), h.WebService(kapistenant.V1alpha2))
	return w
}

// allow gives a user rights, each "verb resource scope", where the scope is "platform", "cluster" or the name of a workspace; "* *
// platform" is everything.
func (w *world) allow(who string, rights ...string) { w.rights[who] = append(w.rights[who], rights...) }

// decide knows rights on the platform, in the cluster and in workspaces.
func (w *world) decide(_ context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
	for _, one := range w.rights[u.GetName()] {
		f := strings.Fields(one)
		fits := func(want, is string) bool { return want == "*" || want == is }
		if !fits(f[0], r.Verb) || !fits(f[1], r.Resource) {
			continue
		}
		switch f[2] {
		case "platform":
		case "cluster":
			if r.Scope == request.Global {
				continue
			}
		default:
			workspace := r.Workspace
			if r.Namespace != "" { // as the label of the namespace says
				workspace = w.kube.workspaceOf(r.Namespace)
			}
			if workspace != f[2] || r.Scope != request.Workspace && r.Scope != request.Namespace {
				continue
			}
		}
		return authz.Allow("", "kapis:"+f[2]), nil
	}
	return authz.Decision{Reason: "no right of " + u.GetName()}, nil
}

// Leftovers implements Labelled: the deleted workspace lost still has namespaces and a binding.
func (w *world) Leftovers(workspace string) (namespaces, bindings bool) {
	return workspace == "lost", workspace == "bound"
}

// Memberships implements tenant.Memberships.
func (w *world) Memberships(u user.Info) (*authz.PartialList, bool) {
	p := w.members[u.GetName()]
	for _, g := range u.GetGroups() {
		p = p.Or(w.members[g])
	}
	return p, u.GetName() == "operator"
}

// do sends a request through authorization and the routes, as the filters do.
func (w *world) do(who, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	if strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "/kapis/") {
		path = root + path
	}
	r, rec := httptest.NewRequestWithContext(w.t.Context(), method, path, strings.NewReader(body)), httptest.NewRecorder()
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	info, err := request.Parse(r)
	if err != nil {
		w.t.Fatal(err)
	}
	u := &user.DefaultInfo{Name: who, Groups: []string{user.AllAuthenticated}}
	d, err := w.may.Authorize(r.Context(), u, info)
	if err != nil {
		w.t.Fatal(err)
	}
	if !d.Permits(true) {
		rec.WriteHeader(http.StatusForbidden)
		return rec
	}
	w.container.ServeHTTP(rec, r.WithContext(authz.WithDecision(request.WithUser(request.WithInfo(r.Context(), info), u), d)))
	if strings.Contains(rec.Body.String(), canary) {
		w.t.Errorf("%s %s shows how a cluster is reached", method, path)
	}
	return rec
}

// must is do, and checks the code.
func (w *world) must(code int, who, method, path, body string, headers ...string) string {
	w.t.Helper()
	rec := w.do(who, method, path, body, headers...)
	if rec.Code != code {
		w.t.Fatalf("%s %s as %s: %d %s; want %d", method, path, who, rec.Code, rec.Body, code)
	}
	return rec.Body.String()
}

// names are those of a list's items.
func (w *world) names(who, path string) string {
	w.t.Helper()
	var l struct {
		Items      []metav1.PartialObjectMetadata `json:"items"`
		TotalItems int                            `json:"totalItems"`
	}
	if err := json.Unmarshal([]byte(w.must(http.StatusOK, who, http.MethodGet, path, "")), &l); err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, o := range l.Items {
		out = append(out, o.Name)
	}
	slices.Sort(out)
	if !strings.Contains(path, "limit=") && l.TotalItems != len(out) {
		w.t.Errorf("%s: totalItems %d of %v", path, l.TotalItems, out)
	}
	return strings.Join(out, " ")
}
