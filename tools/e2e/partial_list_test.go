package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const partial = "X-Kapis-Partial"

// clusterWide are the lists of the whole cluster that a viewer is answered in part, on both generations of routes.
var clusterWide = []string{
	kapis + "/pods", "/kapi/v1/pods", "/clusters/host/kapi/v1/pods", kapis + "/deployments", "/kapis/apps/v1/deployments",
}

// parted is a cluster with pods and deployments in three namespaces, and somebody who sees two of them.
type parted struct {
	kube     *kubernetes.Clientset
	a, b, c  string
	pods     map[string][]string // namespace -> names; those in c have "foreign" in theirs
	user     caller
	name     string
	bindingB string
}

// canView may do in a namespace what a viewer does; what is of the cluster is none of a namespace's.
var canView = []rule{
	{[]string{""}, []string{"pods", "namespaces", "nodes"}, []string{"get", "list", "watch"}},
	{[]string{"apps"}, []string{"deployments"}, []string{"get", "list", "watch"}},
}

func newParted(t *testing.T) *parted {
	t.Helper()
	p := &parted{kube: kubeClient(t), a: newNamespace(t), b: newNamespace(t), c: newNamespace(t), pods: map[string][]string{}, name: unique("viewer")}
	for i, ns := range []string{p.a, p.b, p.c} {
		for n := range 4 + i {
			p.pod(t, ns, fmt.Sprintf("%s-%d", map[string]string{p.a: "own-a", p.b: "own-b", p.c: "foreign"}[ns], n))
		}
		d := deployment(map[string]string{p.a: "own-a", p.b: "own-b", p.c: "foreign"}[ns], 0)
		admin(t).create(t, "/apis/apps/v1/namespaces/"+ns+"/deployments", d)
		eventually(t, "its controller has seen the deployment", // and changes it no more, so that an answer keeps its tag
			admin(t).has("/kapis/apps/v1/namespaces/"+ns+"/deployments", `"observedGeneration":1`))
	}
	p.user = newUser(t, p.name)
	for _, ns := range []string{p.a, p.b, p.c} {
		role(t, ns, "viewer", canView...)
	}
	p.bind(t, p.a)
	p.bindingB = p.bind(t, p.b)
	want := append(slices.Clone(p.pods[p.a]), p.pods[p.b]...)
	for _, path := range clusterWide[:2] {
		eventually(t, "both roles count, and the pods are in the cache", p.user.shows(path, want))
	}
	eventually(t, "the deployments are in the cache", p.user.shows(clusterWide[4], []string{p.a + "/own-a", p.b + "/own-b"}))
	eventually(t, "the admin sees all pods", admin(t).has("/kapi/v1/namespaces/"+p.c+"/pods", `"name":"foreign-5"`))
	return p
}

func (p *parted) bind(t *testing.T, ns string) string {
	t.Helper()
	return bind(t, ns, "viewer", map[string]any{"kind": "User", "name": p.name})
}

// pod creates a pod that nobody schedules, so that it changes only when a test says so.
func (p *parted) pod(t *testing.T, ns, name string) {
	t.Helper()
	eventually(t, "the service account of "+ns, func(ctx context.Context) error {
		_, err := p.kube.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	object := modelPod(1)
	object.Name, object.Labels = name, map[string]string{"in": ns, "parts": "true"}
	if _, err := p.kube.CoreV1().Pods(ns).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.remove(ns, name) })
	p.pods[ns] = append(p.pods[ns], ns+"/"+name)
}

func (p *parted) remove(ns, name string) {
	now := int64(0)
	_ = p.kube.CoreV1().Pods(ns).Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

// keys are the namespaces and names of a list, sorted.
func (l list) keys() []string {
	keys := make([]string, 0, len(l.Items))
	for _, i := range l.Items {
		keys = append(keys, i.Metadata.Namespace+"/"+i.Metadata.Name)
	}
	slices.Sort(keys)
	return keys
}

// shows returns a condition: a list has exactly these objects.
func (c caller) shows(path string, want []string) func(context.Context) error {
	want = slices.Sorted(slices.Values(want))
	return func(ctx context.Context) error {
		r, err := c.do(ctx, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		var l list
		if err := json.Unmarshal([]byte(r.body), &l); err != nil || r.code != http.StatusOK || !slices.Equal(l.keys(), want) || *l.TotalItems != len(want) {
			return fmt.Errorf("GET %s = %d, %v of %v, want %v", path, r.code, l.keys(), l.TotalItems, want)
		}
		return nil
	}
}

// clean fails the test where a text knows of what is not the viewer's.
func (p *parted) clean(t *testing.T, what, text string) {
	t.Helper()
	for _, foreign := range []string{"foreign", `"` + p.c + `"`} {
		if strings.Contains(text, foreign) {
			t.Errorf("%s tells of %s: %s", what, foreign, clip(text))
		}
	}
}

func TestPartsOfListsAreAnsweredToWhoMayNotSeeAll(t *testing.T) { // S1, S2, U19
	proves(t, "S1", "S2")
	p := newParted(t)
	for _, path := range clusterWide {
		want := []string{p.a + "/own-a", p.b + "/own-b"}
		facets := fmt.Sprintf(`"facets":{".metadata.namespace":{%q:1,%q:1}}`, p.a, p.b)
		if strings.HasSuffix(path, "pods") {
			want = append(slices.Clone(p.pods[p.a]), p.pods[p.b]...)
			facets = fmt.Sprintf(`"facets":{".metadata.namespace":{%q:5,%q:4}}`, p.b, p.a)
		}
		slices.Sort(want)
		t.Run(path, func(t *testing.T) {
			r := p.user.must(t, http.StatusOK, http.MethodGet, path+"?facets=.metadata.namespace", nil)
			l := decode[list](t, r.body)
			if !slices.Equal(l.keys(), want) || *l.TotalItems != len(want) || r.header.Get(partial) != "true" || !strings.Contains(r.body, facets) {
				t.Errorf("%v of %d, %s %q, want %v and %s in %s", l.keys(), *l.TotalItems, partial, r.header.Get(partial), want, facets, clip(r.body))
			}
			if l.Metadata.ResourceVersion == "" {
				t.Error("no resource version to watch from")
			}
			if all := admin(t).must(t, http.StatusOK, http.MethodGet, path, nil); all.header.Get(partial) != "" || *decode[list](t, all.body).TotalItems <= len(want) {
				t.Errorf("the admin's list: %v", all.header)
			}
			p.pages(t, path, want)
			p.tags(t, path)
			p.aimed(t, path)
		})
	}
	p.refused(t)
}

// pages asks for a list page by page: they partition it, in both directions.
func (p *parted) pages(t *testing.T, path string, want []string) {
	t.Helper()
	for _, sort := range []string{"sortBy=namespace,name&ascending=true", "sortBy=.metadata.uid", "sortBy=creationTimestamp"} {
		var all []string
		for page := 1; page <= (len(want)+1)/2; page++ {
			l := p.user.list(t, fmt.Sprintf("%s?%s&limit=2&page=%d", path, sort, page))
			if *l.TotalItems != len(want) || len(l.Items) != min(2, len(want)-2*(page-1)) {
				t.Errorf("%s, page %d: %v of %d, want 2 of %d", sort, page, l.keys(), *l.TotalItems, len(want))
			}
			all = append(all, l.keys()...)
		}
		if slices.Sort(all); !slices.Equal(all, want) {
			t.Errorf("%s: the pages have %v, want %v", sort, all, want)
		}
	}
}

// tags asks with the tag of the admin's answer to the same question.
func (p *parted) tags(t *testing.T, path string) {
	t.Helper()
	for _, query := range []string{"?limit=-1", "?limit=0", "?limit=2", "?limit=2&page=1000", "?limit=0&facets=.metadata.namespace", "?fields=.kind", "?name=none",
		"?namespace=" + p.a, "?namespace=" + p.c} {
		theirs := admin(t).must(t, http.StatusOK, http.MethodGet, path+query, nil)
		mine := p.user.must(t, http.StatusOK, http.MethodGet, path+query, nil)
		r, err := p.user.do(t.Context(), http.MethodGet, path+query, nil, "If-None-Match: "+theirs.header.Get("ETag"))
		if err != nil {
			t.Fatal(err)
		}
		if equal := content(t, theirs.body) == content(t, mine.body); (r.code == http.StatusNotModified) != equal ||
			(theirs.header.Get("ETag") == mine.header.Get("ETag")) != equal {
			t.Errorf("%s with the admin's tag: %d, tags %s and %s, contents equal: %v", query, r.code, theirs.header.Get("ETag"), mine.header.Get("ETag"), equal)
		}
		again := p.user.must(t, http.StatusNotModified, http.MethodGet, path+query, nil, "If-None-Match: "+mine.header.Get("ETag"))
		if again.header.Get(partial) != "true" || again.body != "" {
			t.Errorf("%s, not modified: %v %q", query, again.header, again.body)
		}
	}
}

// content is an answer without its resource version, which other objects move too.
func content(t *testing.T, body string) string {
	t.Helper()
	l := decode[map[string]any](t, body)
	delete(l["metadata"].(map[string]any), "resourceVersion")
	return encode(t, l)
}

// aimed asks for what is in the third namespace, in every way that a query has.
func (p *parted) aimed(t *testing.T, path string) {
	t.Helper()
	for _, q := range []url.Values{
		{"namespace": {p.c}}, {"name": {"foreign"}}, {"names": {"foreign,foreign-1"}}, {"labelSelector": {"in=" + p.c}}, {"label": {"app=foreign"}},
		{"q": {"foreign"}},
		{"fieldSelector": {"metadata.namespace=" + p.c}}, {"fieldSelector": {"metadata.name=foreign"}}, {"cel": {`object.metadata.name.startsWith("foreign")`}},
		{"fieldSelector": {"metadata.namespace!=" + p.a + ",metadata.namespace!=" + p.b}},
	} {
		q.Set("facets", ".metadata.name,.metadata.namespace")
		r := p.user.must(t, http.StatusOK, http.MethodGet, path+"?"+q.Encode(), nil)
		p.clean(t, q.Encode(), r.body)
		if l := decode[list](t, r.body); len(l.Items) != 0 || *l.TotalItems != 0 {
			t.Errorf("%s: %v of %d", q.Encode(), l.keys(), *l.TotalItems)
		}
	}
	r := p.user.must(
		t,
		http.StatusOK,
		http.MethodGet,
		path+"?sortBy=name&facets=.metadata.name,.metadata.labels.in,.metadata.labels.app",
		nil,
		"Accept-Encoding: identity",
	)
	p.clean(t, "the whole list", r.body)
}

// refused asks for what has no part that would be the viewer's.
func (p *parted) refused(t *testing.T) {
	t.Helper()
	nobody := newUser(t, unique("nobody"))
	for _, path := range append(slices.Clone(clusterWide), kapis+"/namespaces", "/kapi/v1/pods?watch=true", kapis+"/pods?view=live&limit=5") {
		nobody.must(t, http.StatusForbidden, http.MethodGet, path, nil)
	}
	for _, path := range []string{
		kapis + "/nodes", "/kapi/v1/nodes", "/kapi/v1/nodes?watch=true", kapis + "/nodes?view=live&limit=5",
		// a role in a namespace says nothing of the cluster's nodes
		kapis + "/secrets", "/kapi/v1/secrets", kapis + "/persistentvolumes", kapis + "/users",
		"/api/v1/pods", "/apis/apps/v1/deployments", "/api/v1/namespaces", "/api/v1/pods?watch=true", "/clusters/host/api/v1/pods",
		"/kapi/v1/namespaces/" + p.c + "/pods", kapis + "/namespaces/" + p.c + "/pods", "/kapi/v1/namespaces/" + p.c + "/pods/foreign-1",
		"/kapi/v1/watch/namespaces/" + p.c + "/pods/foreign-1", "/kapi/v1/pods/foreign-1", kapis + "/pods/foreign-1", "/kapi/v1/watch/pods/foreign-1",
		kapis + "/metrics", older + "/metrics", older + "/namespaces/" + p.c + "/quotas", older + "/abnormalworkloads",
	} {
		r, err := p.user.do(t.Context(), http.MethodGet, path, nil)
		if err != nil || r.code != http.StatusForbidden {
			t.Errorf("GET %s = %d %s %v, want 403", path, r.code, clip(r.body), err)
		}
		if !strings.Contains(path, "/pods/") { // but for what was asked for
			p.clean(t, path, strings.ReplaceAll(r.body, `"`+p.c+`"`, ""))
		}
	}
	p.user.must(t, http.StatusForbidden, http.MethodDelete, "/kapi/v1/pods", nil)
	p.user.must(t, http.StatusForbidden, http.MethodPost, "/kapi/v1/pods", map[string]any{"metadata": map[string]any{"name": "x"}})
	for _, path := range []string{kapis + "/namespaces", "/kapi/v1/namespaces"} {
		if err := p.user.shows(path, []string{"/" + p.a, "/" + p.b})(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestPartsOfAWorkspacesMemberAreTheWorkspaces(t *testing.T) { // S7, S13
	proves(t, "S7")
	a, mine, theirs, name := admin(t), unique("mine"), unique("theirs"), unique("wsmember")
	version, root := newWidgets(t, "Cluster")
	inMine, inTheirs := newNamespace(t), newNamespace(t)
	owner := map[string]string{inMine: mine, inTheirs: theirs}
	for ns, w := range owner {
		a.create(
			t,
			"/apis/tenant.kubesphere.io/v1beta1/workspaces",
			obj{"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": "Workspace", "metadata": obj{"name": w}},
		)
		a.must(t, http.StatusOK, http.MethodPatch, "/api/v1/namespaces/"+ns, `{"metadata":{"labels":{"kubesphere.io/workspace":"`+w+`"}}}`, asMerge)
		a.create(t, "/apis"+root+"/widgets", obj{"apiVersion": version, "kind": "Widget", "metadata": obj{"name": "of-" + w, "labels": obj{workspaceLabel: w}}})
		for _, label := range slices.Sorted(maps.Values(owner)) { // a label in a namespace of another workspace moves nothing
			a.create(
				t,
				"/api/v1/namespaces/"+ns+"/configmaps",
				obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "in-" + w + "-as-" + label, "labels": obj{workspaceLabel: label, "parts": "true"}}},
			)
		}
	}
	a.create(t, "/apis"+root+"/widgets", obj{"apiVersion": version, "kind": "Widget", "metadata": obj{"name": "nobodys"}})
	u := newUser(t, name)
	u.must(t, http.StatusForbidden, http.MethodGet, "/kapis"+root+"/widgets", nil)
	a.create(t, iamAPI+"/workspaceroles", obj{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRole", "metadata": obj{"name": mine + "-watcher", "labels": obj{workspaceLabel: mine}},
		"rules": []rule{{[]string{"", strings.TrimSuffix(version, "/v1")}, []string{"namespaces", "configmaps", "widgets"}, []string{"get", "list", "watch"}}},
	})
	a.create(t, iamAPI+"/workspacerolebindings", obj{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRoleBinding", "metadata": obj{"name": unique("wrb"), "labels": obj{workspaceLabel: mine}},
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "WorkspaceRole", "name": mine + "-watcher"},
		"subjects": []any{obj{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}},
	})
	own := "/configmaps?labelSelector=parts%3Dtrue"
	for path, want := range map[string][]string{
		"/kapis" + root + "/widgets": {"/of-" + mine}, "/kapis" + root + "/workspaces/" + mine + "/widgets": {"/of-" + mine},
		kapis + "/namespaces": {"/" + inMine}, "/kapi/v1/namespaces": {"/" + inMine},
		kapis + own:      {inMine + "/in-" + mine + "-as-" + mine, inMine + "/in-" + mine + "-as-" + theirs},
		"/kapi/v1" + own: {inMine + "/in-" + mine + "-as-" + mine, inMine + "/in-" + mine + "-as-" + theirs},
		"/kapi/v1" + own + "&namespace=" + inTheirs: nil,
	} {
		eventually(t, path, u.shows(path, want))
		r := u.must(t, http.StatusOK, http.MethodGet, path, nil)
		if r.header.Get(partial) == "" && !strings.Contains(path, "/workspaces/") || strings.Contains(r.body, "of-"+theirs) || strings.Contains(r.body, "nobodys") {
			t.Errorf("%s: %v %s", path, r.header, clip(r.body))
		}
	}
	for _, path := range []string{
		"/kapis" + root + "/workspaces/" + theirs + "/widgets", "/kapis" + root + "/widgets/of-" + theirs, "/kapi/v1/namespaces/" + inTheirs + "/configmaps",
		"/apis" + root + "/widgets", "/api/v1/configmaps", kapis + "/nodes", kapis + "/secrets",
	} {
		u.must(t, http.StatusForbidden, http.MethodGet, path, nil)
	}
	t.Run("a namespace that leaves the workspace leaves the list, and ends its streams", func(t *testing.T) {
		lines, ended := u.lines(t, "/kapi/v1"+own+"&watch=true")
		until(t, "the watch begins", lines, func(l string) bool { return strings.Contains(l, inMine) })
		a.must(t, http.StatusOK, http.MethodPatch, "/api/v1/namespaces/"+inMine, `{"metadata":{"labels":{"kubesphere.io/workspace":"`+theirs+`"}}}`, asMerge)
		late := after(t, revocation)
		within(t, revocation, "it has left", func(ctx context.Context) error {
			return errors.Join(u.shows("/kapi/v1"+own, nil)(ctx), u.shows(kapis+"/namespaces", nil)(ctx))
		})
		if !endsBy(ended, late) {
			t.Errorf("the watch goes on %v later", revocation)
		}
	})
}
