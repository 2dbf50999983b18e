package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// grantGlobally gives somebody a role of the platform with these rules.
func grantGlobally(t *testing.T, user string, rules ...rule) (role string) {
	t.Helper()
	a := admin(t)
	role = unique("granted")
	a.create(t, iamAPI+"/globalroles", iamObject("GlobalRole", role, obj{"rules": rules}))
	a.create(t, iamAPI+"/globalrolebindings", globalBinding(role, role, user))
	return role
}

// Deployments and namespaces of other API groups have nothing to do with those of Kubernetes, at any place a role may stand.
func TestARoleOfAnotherAPIGroupCountsThereOnly(t *testing.T) {
	proves(t, "S4", "S5")
	a, name, ns := admin(t), unique("confused"), newNamespace(t)
	u := newUser(t, name)
	foreign := []rule{
		{[]string{"x.example.com"}, []string{"deployments"}, []string{"*"}},
		{[]string{"foo.example.com"}, []string{"namespaces"}, []string{"*"}},
		{[]string{""}, []string{"configmaps"}, []string{"list"}}, // by which one sees that the role counts
	}
	grantGlobally(t, name, foreign...)
	role(t, ns, "foreign", foreign...)
	bind(t, ns, "foreign", obj{"kind": "User", "name": name})
	eventually(t, "the role counts", u.is(http.StatusOK, http.MethodGet, "/kapi/v1/configmaps"))
	eventually(t, "at kube-apiserver too", u.is(http.StatusOK, http.MethodGet, "/api/v1/configmaps"))
	kube := directly(t, name)
	eventually(t, "and past us", func(ctx context.Context) error {
		_, err := kube.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
		return err
	})
	for _, path := range []string{
		"/apis/apps/v1/deployments", "/apis/apps/v1/namespaces/" + ns + "/deployments", "/clusters/host/apis/apps/v1/namespaces/" + ns + "/deployments",
		"/kapis/apps/v1/deployments", "/kapis/apps/v1/namespaces/" + ns + "/deployments", kapis + "/deployments", kapis + "/namespaces/" + ns + "/deployments",
		"/api/v1/namespaces", "/kapi/v1/namespaces", kapis + "/namespaces", "/api/v1/namespaces/" + ns, "/kapi/v1/namespaces/" + ns,
	} {
		u.must(t, http.StatusForbidden, http.MethodGet, path, nil)
	}
	for _, root := range []string{"/api/v1", "/kapi/v1", "/clusters/host/api/v1"} {
		for method, body := range map[string]string{http.MethodDelete: "", http.MethodPut: `{"metadata":{"name":"` + ns + `"}}`,
			http.MethodPatch: `{"metadata":{"labels":{"a":"b"}}}`} {
			u.must(t, http.StatusForbidden, method, root+"/namespaces/"+ns, body, asMerge)
		}
		u.must(t, http.StatusForbidden, http.MethodPost, root+"/namespaces", `{"metadata":{"name":"`+unique("made")+`"}}`)
	}
	u.must(t, http.StatusForbidden, http.MethodPost, "/apis/apps/v1/namespaces/"+ns+"/deployments", deployment("his", 1))
	if err := kube.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err == nil {
		t.Error("deleted past us")
	}
	if r := a.must(t, http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+ns, nil); strings.Contains(r.body, "deletionTimestamp") ||
		strings.Contains(r.body, `"a":"b"`) {
		t.Errorf("the namespace is %s", r.body)
	}
}

// Who may read clusters, providers, users, extensions and repositories sees that they are there, and never what they log in with: in no form of the
// answer and at no depth of the object.
func TestTheRightToReadIsNoneToSecrets(t *testing.T) {
	proves(t, "S3")
	a, name, marker := admin(t), unique("reader"), unique("kept")
	u := newUser(t, name)
	secret := canary + "-" + unique("x")
	// kubectl apply leaves all of it in an annotation, once more.
	object := func(group, kind string, spec obj) obj {
		o := obj{"apiVersion": group, "kind": kind, "metadata": obj{"name": marker}, "spec": spec}
		applied := encode(t, o)
		o["metadata"] = obj{"name": marker, "annotations": obj{"kubectl.kubernetes.io/last-applied-configuration": applied}}
		return o
	}
	a.create(t, "/apis/cluster.kubesphere.io/v1alpha1/clusters", object("cluster.kubesphere.io/v1alpha1", "Cluster",
		obj{"connection": obj{"type": "direct", "kubeconfig": encoded(secret), "token": secret}}))
	a.create(t, "/apis/kubesphere.io/v1alpha1/repositories", object("kubesphere.io/v1alpha1", "Repository",
		obj{"url": "https://charts.example.com", "basicAuth": obj{"username": "x", "password": secret}}))
	a.create(
		t,
		secretsPath,
		providerSecret(
			marker,
			"name: "+marker+"\ntype: GitHubIdentityProvider\nmappingMethod: auto\nprovider:\n  clientID: x\n  clientSecret: "+secret+"\n  redirectURL: https://localhost/oauth/callback/"+marker+"\n",
		),
	)
	newUser(t, marker)
	grantGlobally(
		t,
		name,
		rule{
			[]string{
				"cluster.kubesphere.io",
				"kubesphere.io",
				"iam.kubesphere.io",
				"config.kubesphere.io",
				"session.kapis.dev",
				"tenant.kubesphere.io",
				"extensions.kubesphere.io",
			},
			[]string{"*"},
			[]string{"get", "list", "watch"},
		},
	)
	var looks sync.WaitGroup // at once: a watch takes a second to end
	look := func(path string, headers ...string) {
		looks.Go(func() {
			ask := func() (reply, error) { return u.do(t.Context(), http.MethodGet, path, nil, headers...) }
			if strings.Contains(path, "?watch=") {
				ask = func() (reply, error) { return u.watched(t.Context(), path, marker) }
			}
			r, err := ask()
			if err != nil || r.code != http.StatusOK || !strings.Contains(r.body, marker) {
				t.Errorf("%s: %d %s %v", path, r.code, clip(r.body), err)
			}
			for _, s := range []string{canary, encoded(secret), encoded(canary), "$2a$", "$2b$"} {
				if strings.Contains(r.body, s) {
					t.Errorf("%s has %s: %s", path, s, clip(r.body))
				}
			}
		})
	}
	for group, kind := range map[string]string{"cluster.kubesphere.io/v1alpha1": "clusters", "kubesphere.io/v1alpha1": "repositories",
		"iam.kubesphere.io/v1beta1": "users"} {
		eventually(t, "he may read "+kind, u.has("/kapis/"+group+"/"+kind, marker))
		eventually(t, "at kube-apiserver too", u.has("/apis/"+group+"/"+kind, marker))
		for _, root := range []string{"/apis/", "/kapis/", "/clusters/host/apis/", "/clusters/host/kapis/"} {
			look(root + group + "/" + kind)
			look(root + group + "/" + kind + "/" + marker)
			watch := root + group + "/" + kind + "?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3D" + marker
			if strings.Contains(root, "/apis/") {
				watch += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
			}
			look(watch)
		}
		for _, accept := range []string{"application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io",
			"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"} {
			look("/apis/"+group+"/"+kind+"?includeObject=Object", "Accept: "+accept)
		}
		look(kapis + "/" + kind)
		look(kapis + "/" + kind + "?fields=.metadata,.spec")
	}
	eventually(t, "the provider is known", u.has(configAPI+"/identityproviders", marker))
	look(configAPI + "/identityproviders")
	look(configAPI + "/identityproviders/" + marker)
	looks.Wait()
	if r := u.must(t, http.StatusOK, http.MethodGet, configAPI+"/configs/oauth", nil); strings.Contains(r.body, canary) {
		t.Errorf("the configuration: %s", clip(r.body))
	}
	u.must(t, http.StatusForbidden, http.MethodGet, secretsPath+"/"+marker, nil)
}

// everywhere are the ways by which a right shows: our lists, what is passed on, and kube-apiserver past us with the user's own certificate.
func everywhere(t *testing.T, u caller, name, ns string) map[string]func(context.Context) (allowed bool, err error) {
	t.Helper()
	kube := directly(t, name)
	ask := func(path string) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			r, err := u.do(ctx, http.MethodGet, path, nil)
			return r.code == http.StatusOK, err
		}
	}
	return map[string]func(context.Context) (bool, error){
		"our lists": ask(
			"/kapi/v1/namespaces/" + ns + "/configmaps",
		),
		"the older lists": ask(kapis + "/namespaces/" + ns + "/configmaps"),
		"passed on":       ask("/api/v1/namespaces/" + ns + "/configmaps"),
		"past us": func(ctx context.Context) (bool, error) {
			_, err := kube.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
			return err == nil, nil
		},
	}
}

// Whatever gave a right, the right is gone five seconds after it, everywhere.
func TestARightEndsWithWhatGaveIt(t *testing.T) {
	proves(t, "S9")
	a := admin(t)
	reads := rule{[]string{""}, []string{"configmaps"}, []string{"get", "list"}}
	for _, c := range []struct {
		name string
		give func(t *testing.T, user, ns string) (take string) // the path of what is deleted
		not  string                                            // a way that never had it
	}{
		{"ABinding", func(t *testing.T, user, ns string) string {
			role(t, ns, "reader", reads)
			return iamAPI + "/namespaces/" + ns + "/rolebindings/" + bind(t, ns, "reader", obj{"kind": "User", "name": user})
		}, ""},
		{"ARole", func(t *testing.T, user, ns string) string {
			role(t, ns, "reader", reads)
			bind(t, ns, "reader", obj{"kind": "User", "name": user})
			return iamAPI + "/namespaces/" + ns + "/roles/reader"
		}, ""},
		{"ARoleOfThePlatform", func(t *testing.T, user, _ string) string {
			return iamAPI + "/globalroles/" + grantGlobally(t, user, reads)
		}, ""},
		{"AMembershipOfAGroup", func(t *testing.T, user, ns string) string {
			group := unique("group")
			a.create(t, iamAPI+"/groups", iamObject("Group", group, nil))
			role(t, ns, "reader", reads)
			bind(t, ns, "reader", obj{"kind": "Group", "name": group})
			a.must(t, http.StatusCreated, http.MethodPost, iamAPI+"/groupbindings",
				iamObject("GroupBinding", group, obj{"groupRef": obj{"apiGroup": "iam.kubesphere.io", "kind": "Group", "name": group}, "users": []string{user}}))
			return iamAPI + "/groupbindings/" + group
		}, "past us"}, // the groups in a certificate are what it was signed with
		{"AWorkspace", func(t *testing.T, user, ns string) string {
			ws := newManagedWorkspace(t, user)
			a.must(t, http.StatusOK, http.MethodPatch, "/api/v1/namespaces/"+ns, `{"metadata":{"labels":{"`+workspaceLabel+`":"`+ws+`"}}}`, asMerge)
			return tenantAPI + "/workspacetemplates/" + ws
		}, ""},
		{"AUser", func(t *testing.T, user, ns string) string {
			role(t, ns, "reader", reads)
			bind(t, ns, "reader", obj{"kind": "User", "name": user})
			return iamAPI + "/users/" + user
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ns, name := newNamespace(t), unique("leaver")
			u := newUser(t, name)
			take := c.give(t, name, ns)
			ways := everywhere(t, u, name, ns)
			delete(ways, c.not)
			await := func(want bool) func(context.Context) error {
				return func(ctx context.Context) error {
					var differ []string
					for way, may := range ways {
						if got, err := may(ctx); err != nil || got != want {
							differ = append(differ, way)
						}
					}
					if slices.Sort(differ); len(differ) > 0 {
						return fmt.Errorf("allowed is not %v: %s", want, strings.Join(differ, ", "))
					}
					return nil
				}
			}
			eventually(t, "the right counts", await(true))
			a.must(t, http.StatusOK, http.MethodDelete, take, nil)
			within(t, revocation, "it is gone", await(false))
		})
	}
}

// A shell, and a file, is had by who may create pods/exec there, and makes no pod; those on nodes and those for kubectl are off here.
func TestNoShellIsMoreThanItsUser(t *testing.T) {
	proves(t, "S11")
	a, name := admin(t), unique("shell")
	u, ns := newUser(t, name), newNamespace(t)
	bare := func() (names []string) { // of Pods without a controller: what other tests had may be making some, or going
		l := decode[metav1.PartialObjectMetadataList](t, a.must(t, http.StatusOK, http.MethodGet, "/api/v1/pods", nil).body)
		for i := range l.Items {
			if metav1.GetControllerOf(&l.Items[i]) == nil {
				names = append(names, l.Items[i].Namespace+"/"+l.Items[i].Name)
			}
		}
		return names
	}
	before := bare()
	// Shells on nodes are off: TestAShellOnANodeIsItsUsersAlone has them on.
	a.must(t, http.StatusNotImplemented, http.MethodGet, terminalRoutes+"/nodes/x/exec", nil)
	for _, c := range []caller{u, anonymous()} {
		c.must(t, http.StatusForbidden, http.MethodGet, terminalRoutes+"/nodes/x/exec", nil)
	}
	// Those for kubectl are, too, and they are nobody's but their user's: TestAKubectlShellIsItsUsersOwn has them on.
	for _, routes := range []string{terminalRoutes, "/kapis/resources.kubesphere.io/v1alpha2"} {
		for path, off := range map[string]caller{"/users/" + name + "/kubectl": u, "/users/admin/kubectl": a} {
			for _, c := range []caller{u, a, anonymous()} {
				want := http.StatusForbidden
				if c == off {
					want = http.StatusNotImplemented
				}
				c.must(t, want, http.MethodGet, routes+path, nil)
			}
		}
	}
	for _, path := range []string{"/namespaces/" + ns + "/pods/x/file", "/namespaces/" + ns + "/pods/x/exec", "/namespaces/kubesphere-system/pods/x/exec"} {
		path = terminalRoutes + path
		a.must(t, http.StatusBadRequest, http.MethodGet, path, nil) // no WebSocket, and no path of a file
		u.must(t, http.StatusForbidden, http.MethodGet, path, nil)
		for _, c := range []caller{u, a} {
			if r, err := c.do(t.Context(), http.MethodPost, path, obj{}); err != nil || r.code < 400 {
				t.Errorf("POST %s: %d %s %v", path, r.code, clip(r.body), err)
			}
		}
	}
	u.must(t, http.StatusForbidden, http.MethodPost, "/api/v1/namespaces/"+ns+"/pods/x/exec?command=sh", nil)
	u.must(t, http.StatusForbidden, http.MethodPost, "/clusters/host/api/v1/namespaces/kubesphere-system/pods/x/exec?command=sh", nil)
	for _, pod := range bare() {
		if !slices.Contains(before, pod) {
			t.Errorf("the Pod %s is new", pod)
		}
	}
}
