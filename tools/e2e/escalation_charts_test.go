package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/tools/hostile"
)

// charts generates charts and documents that give rights to people.
type charts struct {
	*hostile.Generator
	t          *testing.T
	people     []string // who they may give something
	namespace  string
	vocabulary *hostile.Vocabulary
	made       int
}

func newCharts(t *testing.T, seed uint64, namespace string, people ...string) *charts {
	return &charts{Generator: hostile.New(seed), t: t, namespace: namespace, people: people, vocabulary: &hostile.Vocabulary{
		Verbs: []string{"get", "list", "create", "*", "get"}, Groups: []string{"", "", "apps", "*"},
		Resources: []string{"pods", "secrets", "configmaps", "deployments", "*"}, Names: []string{"a", "b"},
	}}
}

// object is one of a kind, with a name of its own, perhaps a hook.
func (c *charts) object(group, version, kind string, more obj) obj {
	c.made++
	api := version
	if group != "" {
		api = group + "/" + version
	}
	o := obj{"apiVersion": api, "kind": kind, "metadata": obj{"name": fmt.Sprint(c.namespace, "-", c.made)}}
	for k, v := range more {
		o[k] = v
	}
	if c.Chance(5) {
		o["metadata"].(obj)["annotations"] = obj{"helm.sh/hook": c.One("pre-install", "post-install,post-upgrade", "pre-delete")}
	}
	return o
}

// granting are objects that give a person, or an account of the chart, rules or a role that is there; rules are what its author holds.
func (c *charts) granting(held []rbacv1.PolicyRule) []obj {
	rules := []rbacv1.PolicyRule{held[c.N(len(held))]}
	if c.Chance(2) {
		rules = append(c.Rules(1, c.vocabulary), c.Rule(c.vocabulary))
	}
	name := func(o obj) string { return o["metadata"].(obj)["name"].(string) }
	scope := [][2]string{{nativeRBAC, "Role"}, {nativeRBAC, "ClusterRole"}, {"iam.kubesphere.io", "Role"}, {"iam.kubesphere.io", "ClusterRole"},
		{"iam.kubesphere.io", "GlobalRole"}}[c.N(5)]
	version := map[string]string{nativeRBAC: "v1", "iam.kubesphere.io": "v1beta1"}[scope[0]]
	account := c.object("", "v1", "ServiceAccount", nil)
	if c.Chance(3) { // which is how an account has a role of its own
		account["metadata"].(obj)["annotations"] = obj{"iam.kubesphere.io/role": c.One("admin", "operator")}
	}
	role := c.object(scope[0], version, scope[1], obj{"rules": rules})
	out, ref := []obj{account, role}, obj{"apiGroup": scope[0], "kind": scope[1], "name": name(role)}
	if c.Chance(3) {
		ref["name"] = map[string]string{"Role": "admin", "ClusterRole": "cluster-admin", "GlobalRole": "platform-admin"}[scope[1]]
	}
	subject := obj{"apiGroup": nativeRBAC, "kind": "User", "name": c.One(c.people...)}
	if c.Chance(3) {
		subject = obj{"kind": "ServiceAccount", "namespace": c.namespace, "name": name(account)}
	}
	kind := scope[1] + "Binding"
	if scope == [2]string{nativeRBAC, "ClusterRole"} && c.Chance(2) {
		kind = "RoleBinding"
	}
	binding := c.object(scope[0], version, kind, obj{"roleRef": ref, "subjects": []obj{subject}})
	if c.Chance(4) {
		binding["metadata"].(obj)["namespace"] = c.One("default", "kube-system")
	}
	out = append(out, binding)
	if c.Chance(3) { // a role that takes rules of a template that is changed by the chart, and a person with a role
		out = append(out, c.object("iam.kubesphere.io", "v1beta1", "RoleTemplate", obj{"spec": obj{"rules": rules}}),
			obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User", "metadata": obj{"name": c.One(c.people...), "annotations": obj{
				"iam.kubesphere.io/globalrole": "platform-admin"}}, "spec": obj{"email": "x@example.com"}})
	}
	return out
}

// modest are an account, and for 1 and 2 a role of what its author holds in the namespace, given to a person: one of Kubernetes, or one of this platform.
func (c *charts) modest(n int, held []rbacv1.PolicyRule) []obj {
	out := []obj{c.object("", "v1", "ServiceAccount", nil)}
	if n > 0 {
		group, version := [...]string{nativeRBAC, "iam.kubesphere.io"}[n-1], [...]string{"v1", "v1beta1"}[n-1]
		role := c.object(group, version, "Role", obj{"rules": held})
		out = append(out, role, c.object(group, version, "RoleBinding", obj{"roleRef": obj{"apiGroup": group, "kind": "Role",
			"name": role["metadata"].(obj)["name"]}, "subjects": []obj{{"apiGroup": nativeRBAC, "kind": "User", "name": c.One(c.people...)}}}))
	}
	for _, o := range out {
		delete(o["metadata"].(obj), "annotations") // none is a hook
	}
	return out
}

// documents are objects as a chart and a version of documents have them.
func (c *charts) documents(objects []obj) string {
	var out strings.Builder
	for _, o := range objects {
		// A template would read {{ in a hostile word.
		out.WriteString("---\n" + strings.ReplaceAll(encode(c.t, o), "{{", "{ {") + "\n")
	}
	return out.String()
}

func (c *charts) pack(name string, files map[string]string) []byte {
	files["Chart.yaml"] = "{apiVersion: v2, name: " + name + ", version: 1.0.0}"
	return charttest.Pack(c.t, name, files)
}

// gained fails the test where somebody may do what nobody had who wrote.
func gained(t *testing.T, writer string, before, after map[string]map[string]map[probe]bool) {
	t.Helper()
	for judge, all := range after {
		for name, allowed := range all {
			for p, may := range allowed {
				if may && !before[judge][name][p] && !before["the index"][writer][p] && !before["kube-apiserver"][writer][p] {
					t.Errorf("%s: %s may %+v since %s wrote, who may not", judge, name, p, writer)
				}
			}
		}
	}
}

var settledRelease = regexp.MustCompile(`"state":"(active|failed|created|upgraded|deployFailed)"`)

// message is what the status of a release says.
var message = regexp.MustCompile(`"message":"[^"]{0,200}`)

// settled waits until a release is not worked on, and tells whether its objects are there.
func settled(t *testing.T, path string) (installed bool) {
	t.Helper()
	eventually(t, path+" has ended", func(ctx context.Context) error {
		r, err := admin(t).do(ctx, http.MethodGet, path, nil)
		if err == nil && !settledRelease.MatchString(r.body) {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		installed = !strings.Contains(r.body, `"state":"failed"`)
		if !installed {
			t.Log(message.FindString(r.body))
		}
		return err
	})
	return installed
}

// S77, X33: people who hold a little each install, upgrade and remove generated charts and documents with roles, bindings, accounts, templates and hooks. What
// any of the people, or an account of a chart, may do afterwards, as ks-apiserver and kube-apiserver say, could be done before, or the writer could.
func TestNoReleaseGivesWhatItsAuthorDoesNotHold(t *testing.T) {
	proves(t, "S77")
	a, ws, app := admin(t), newManagedWorkspace(t, "admin"), unique("given")
	ns := unique("given")
	newProject(t, ns, ws, nil)
	store := rule{[]string{"application.kubesphere.io"}, []string{"*"}, []string{"*"}}
	accounts := rule{[]string{""}, []string{"serviceaccounts", "configmaps"}, []string{"*"}}
	people := []string{unique("author"), unique("author"), unique("author")}
	writers := make([]caller, len(people))
	for i, name := range people {
		writers[i] = newUser(t, name)
		own := []rule{store, accounts, {[]string{""}, []string{"pods"}, []string{"get"}}}
		switch i {
		case 1:
			own = append(own, rule{[]string{nativeRBAC, "iam.kubesphere.io"}, []string{"roles", "rolebindings"}, []string{"*"}})
		case 2:
			grantGlobally(t, name, append(slices.Clone(managesRoles), rule{[]string{nativeRBAC}, []string{"*"}, []string{"*"}})...)
		}
		role(t, ns, name, own...)
		bind(t, ns, name, obj{"kind": "User", "name": name})
		eventually(t, name+" may write at kube-apiserver", writers[i].accepts(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/"+ns+"/configmaps?dryRun=All",
			obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "try"}}))
	}
	c := newCharts(t, 33, ns, people...)
	settling := &arena{Generator: c.Generator, t: t, namespace: ns}
	held := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	routes, universe, installed, refused := storeAPI+"/namespaces/"+ns+"/applications", probes("", ns, "default", "kube-system"), 0, 0
	for _, kind := range []string{"iam.kubesphere.io globalrolebindings", "iam.kubesphere.io rolebindings", nativeRBAC + " clusterrolebindings",
		nativeRBAC + " rolebindings", " serviceaccounts/token"} {
		group, plural, _ := strings.Cut(kind, " ")
		universe = append(universe, probe{"create", group, plural, ns, ""}, probe{"create", group, plural, "", ""})
	}
	everybody := func() []string { // the people, and the accounts that charts could have made
		out := slices.Clone(people)
		l, err := kubeClient(t).CoreV1().ServiceAccounts(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range l.Items {
			out = append(out, "system:serviceaccount:"+ns+":"+l.Items[i].Name)
		}
		return out
	}
	for i, writer := range writers {
		before := allowedBy(t, everybody(), universe)
		releases, versions := []string{}, []string{}
		for n := range 8 {
			objects := c.granting(held)
			if n < 3 { // at least the first can be installed, and by some the others
				objects = c.modest(n, held)
			}
			kind, pack := "helm", c.pack("given", map[string]string{"templates/all.yaml": c.documents(objects)})
			if n%4 == 3 {
				kind, pack = "yaml", []byte(c.documents(objects))
			}
			of := fmt.Sprintf("%s-%d-%d", app, i, n)
			versions = append(versions, storeVersion(t, ws, of, "1.0.0", kind, pack))
			name := of
			r, err := writer.do(t.Context(), http.MethodPost, routes, appRelease(name, ws, ns, of, versions[n], nil))
			if err != nil || r.code >= 500 {
				t.Errorf("%d %s %v", r.code, clip(r.body), err)
			}
			if r.code != http.StatusOK {
				refused++
				continue
			}
			releases = append(releases, name)
			t.Cleanup(func() {
				_, _ = a.do(context.Background(), http.MethodDelete, storeKube+"/applicationreleases/"+name, nil)
			})
		}
		for _, name := range releases {
			if settled(t, routes+"/"+name) {
				installed++
			} else {
				refused++
			}
		}
		settling.settle()
		gained(t, people[i], before, allowedBy(t, everybody(), universe))
		// Whose release it was before gives nothing to who changes or removes it.
		next := (i + 1) % len(writers)
		before = allowedBy(t, everybody(), universe)
		for n, name := range releases {
			_, _ = writers[next].do(t.Context(), []string{http.MethodPost, http.MethodDelete}[n%2], routes+"/"+name, obj{"metadata": obj{"name": name,
				"annotations": obj{"application.kubesphere.io/req-user": "admin", "kapis.dev/retry": "1"}}, "spec": obj{"values": obj{"x": "y"}}})
		}
		for n, name := range releases {
			if n%2 == 0 { // a removal that fails is tried again for minutes
				settled(t, routes+"/"+name)
			}
		}
		settling.settle()
		gained(t, people[next], before, allowedBy(t, everybody(), universe))
	}
	if installed < 3 || refused < 3 {
		t.Errorf("%d releases were installed and %d refused: too few of one to say anything", installed, refused)
	}
	t.Logf("%d releases were installed, and %d refused", installed, refused)
}

// S77, X18: who may write everything of extensions, and approve nothing, writes plans, their annotations and status, and versions, with generated charts that
// give rights, before and after somebody else has approved one of them. Nobody gains anything by that.
func TestNoInstallPlanGivesWhatItsWriterDoesNotHold(t *testing.T) {
	proves(t, "S77")
	a, planners, somebody := admin(t), unique("planner"), unique("somebody")
	newUser(t, somebody)
	planner := withRole(t, planners, obj{"rules": []rule{{[]string{"kubesphere.io"}, []string{"*"}, []string{"*"}}}})
	c := newCharts(t, 18, newNamespace(t), planners, somebody)
	settling, universe := &arena{Generator: c.Generator, t: t, namespace: c.namespace}, probes("", c.namespace, "default", "kube-system")
	held := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	const asked = "kind: ClusterRole\nrules:\n- {apiGroups: ['*'], resources: ['*'], verbs: ['*']}\n- {nonResourceURLs: ['*'], verbs: ['*']}\n"
	pack := func(name, permissions string, objects ...obj) string {
		return base64.StdEncoding.EncodeToString(c.pack(name, map[string]string{
			"extension.yaml":     fmt.Sprintf("{apiVersion: kubesphere.io/v1alpha1, name: %s, version: 1.0.0, displayName: {en: Given}}", name),
			"permissions.yaml":   permissions,
			"values.yaml":        "who: nobody\n",
			"templates/all.yaml": strings.ReplaceAll(c.documents(objects), "WHO", "{{ .Values.who }}"),
		}))
	}
	chartOf := func(configMap, name, permissions string, objects ...obj) string {
		a.create(t, "/api/v1/namespaces/"+systemNamespace+"/configmaps", obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": configMap},
			"binaryData": obj{"chart.tgz": pack(name, permissions, objects...)}})
		return configMap
	}
	extension := func(name, permissions string, objects ...obj) {
		push(t, name, "1.0.0", pack(name, permissions, objects...))
		t.Cleanup(func() {
			_, _ = a.do(context.Background(), http.MethodDelete, platformAPI+"/installplans/"+name, obj{})
			_, _ = a.do(context.Background(), http.MethodDelete, "/api/v1/namespaces/extension-"+name, nil)
		})
	}
	var plans []string
	for range 4 {
		name := unique("given")
		extension(name, c.One(asked, "kind: ClusterRole\nrules: []\n"), c.granting(held)...)
		plans = append(plans, name)
	}
	// One that somebody has approved: whom it binds is one of its values.
	approved := unique("given")
	binding := c.object(nativeRBAC, "v1", "ClusterRoleBinding", obj{"roleRef": obj{"apiGroup": nativeRBAC, "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": []obj{{"apiGroup": nativeRBAC, "kind": "User", "name": "WHO"}}})
	delete(binding["metadata"].(obj), "annotations") // it is no hook
	extension(approved, asked, binding)
	eventually(t, "the planner's right counts", planner.accepts(http.StatusCreated, http.MethodPost, platformAPI+"/installplans?dryRun=All",
		installPlan(approved, "1.0.0", "", nil)))
	a.must(t, http.StatusCreated, http.MethodPost, platformAPI+"/installplans", installPlan(approved, "1.0.0", "", nil))
	eventually(t, "it is installed", a.answersWith(http.StatusOK, platformAPI+"/installplans/"+approved, `"state":"Installed"`))
	settling.settle()

	people := []string{planners, somebody}
	before := allowedBy(t, people, universe)
	forged := func() obj {
		return obj{"kapis.dev/approve": "yes", "kapis.dev/approved": c.One(strings.Repeat("0", 64), "yes"), "kapis.dev/approved-by": "admin",
			"kapis.dev/retry": c.Word(), "kapis.dev/installed": "1.0.0"}
	}
	for _, name := range plans {
		planner.must(t, http.StatusCreated, http.MethodPost, platformAPI+"/installplans", installPlan(name, "1.0.0", "", forged()))
	}
	for _, name := range append(slices.Clone(plans), approved) {
		plan := platformAPI + "/installplans/" + name
		for range 6 {
			change := []obj{
				{"metadata": obj{"annotations": forged()}}, {"spec": obj{"config": "who: " + planners + "\n"}},
				{"spec": obj{"upgradeStrategy": "Automatic"}}, {"metadata": obj{"annotations": obj{"kapis.dev/preview": c.One("1", "2")}}},
				{"spec": obj{"clusterScheduling": obj{"overrides": obj{"host": "who: " + planners}}}},
				{"metadata": obj{"annotations": obj{"kapis.dev/preview": nil, "kapis.dev/approve": "yes"}}},
			}[c.N(6)]
			path := plan
			if c.Chance(4) {
				path, change = plan+"/status", obj{"status": obj{"state": "Installed", "version": "1.0.0", "releaseName": "x", "targetNamespace": "kube-system"}}
			}
			if r, err := planner.do(t.Context(), http.MethodPatch, path, change, asMerge); err != nil || r.code >= 500 {
				t.Errorf("%s: %d %s %v", path, r.code, clip(r.body), err)
			}
		}
		planner.must(t, http.StatusOK, http.MethodPatch, plan, obj{"metadata": obj{"annotations": obj{"kapis.dev/preview": nil, "kapis.dev/approve": "yes"}},
			"spec": obj{"config": "who: " + planners + "\n"}}, asMerge)
	}
	for _, name := range append(slices.Clone(plans), approved) {
		eventually(t, name+" waits for an approval", a.conditionIs(platformAPI+"/installplans/"+name, "Approved", "False", ""))
	}
	// Another chart under the version that was approved, which binds the planner whatever its values are.
	binding["subjects"] = []obj{{"apiGroup": nativeRBAC, "kind": "User", "name": planners}}
	planner.must(t, http.StatusOK, http.MethodPatch, platformAPI+"/extensionversions/"+approved+"-1.0.0",
		obj{"spec": obj{"chartDataRef": obj{"name": chartOf(approved+"-other", approved, asked, binding)}}}, asMerge)
	planner.must(t, http.StatusOK, http.MethodPatch, platformAPI+"/installplans/"+approved, obj{"metadata": obj{"annotations": obj{"kapis.dev/retry": "last",
		"kapis.dev/approve": "yes"}}, "spec": obj{"config": "", "clusterScheduling": nil}}, asMerge) // the values that were approved
	eventually(t, "it is not installed", func(ctx context.Context) error {
		if a.conditionIs(platformAPI+"/installplans/"+approved, "Initialized", "False", "")(ctx) == nil {
			return nil // it is not read
		}
		return a.conditionIs(platformAPI+"/installplans/"+approved, "Approved", "False", "")(ctx)
	})
	settling.settle()
	gained(t, planners, before, allowedBy(t, people, universe))
}
