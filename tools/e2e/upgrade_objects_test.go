package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// makeObjects makes an object of each kind of the platform, as the console and kubectl do, and returns once the controllers have done their part.
func (w *upgradeWorld) makeObjects(t *testing.T, a caller, name string) {
	t.Helper()
	const role = "iam.kubesphere.io"
	member := []any{obj{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}}
	bound := func(kind, to string) obj {
		return obj{"roleRef": obj{"apiGroup": role, "kind": kind, "name": to}, "subjects": member}
	}
	reads := obj{"rules": []any{obj{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"get", "list"}}}}
	secret := func(name, kind, text string) obj {
		return obj{"apiVersion": "v1", "kind": "Secret", "metadata": obj{"name": name, "namespace": "kubesphere-system",
			"labels": obj{"config.kubesphere.io/type": kind}}, "type": "config.kubesphere.io/" + kind, "stringData": obj{"configuration.yaml": text}}
	}
	post := func(path string, o obj) {
		t.Helper()
		a.must(t, http.StatusCreated, http.MethodPost, path, o)
	}
	post(iamAPI+"/users", iamObject("User", name, obj{"spec": obj{"email": name + "@example.com", "password": password, "lang": "zh"}}))
	postUser(t, a, name+"-guarded")
	post(iamAPI+"/categories", iamObject("Category", name, obj{"spec": obj{"displayName": obj{"en": "Own"}, "icon": "star"}}))
	post(iamAPI+"/roletemplates", iamObject("RoleTemplate", name, obj{"metadata": obj{"name": name, "labels": obj{"iam.kubesphere.io/scope": "global"}},
		"spec": obj{"displayName": obj{"en": "Own"}, "rules": reads["rules"]}}))
	post(iamAPI+"/globalroles", iamObject("GlobalRole", name, obj{"rules": []any{}, "aggregationRoleTemplates": obj{"templateNames": []any{name}}}))
	post(iamAPI+"/globalrolebindings", iamObject("GlobalRoleBinding", name, bound("GlobalRole", name)))
	post(iamAPI+"/clusterroles", iamObject("ClusterRole", name, reads))
	post(iamAPI+"/clusterrolebindings", iamObject("ClusterRoleBinding", name, bound("ClusterRole", name)))
	post(iamAPI+"/groups", iamObject("Group", name, obj{"metadata": obj{"name": name, "annotations": obj{"kubesphere.io/alias-name": "Own"}}}))
	post(iamAPI+"/groupbindings", iamObject("GroupBinding", name, obj{"groupRef": obj{"apiGroup": role, "kind": "Group", "name": name}, "users": []any{name}}))
	post(iamAPI+"/builtinroles", iamObject("BuiltinRole", name, obj{"targetSelector": obj{"matchLabels": obj{"example.com/none": "such"}},
		"role": iamObject("Role", name, reads)}))
	post("/apis/cluster.kubesphere.io/v1alpha1/labels", obj{"apiVersion": "cluster.kubesphere.io/v1alpha1", "kind": "Label", "metadata": obj{"name": name},
		"spec": obj{"key": "stage", "value": name}})
	post("/apis/cluster.kubesphere.io/v1alpha1/clusters", obj{"apiVersion": "cluster.kubesphere.io/v1alpha1", "kind": "Cluster", "metadata": obj{"name": name},
		"spec": obj{"provider": "own", "connection": obj{"type": "proxy"}}})
	post("/api/v1/namespaces/kubesphere-system/secrets", secret("oauthclient-"+name, "oauthclient",
		"name: "+name+"\nsecret: "+strings.Repeat("s", 43)+"\ngrantMethod: prompt\nredirectURIs: [https://"+name+".example.com/callback]\n"))
	a.must(t, http.StatusOK, http.MethodPost, tenants+"/workspacetemplates", obj{"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": "WorkspaceTemplate",
		"metadata": obj{"name": name, "annotations": obj{"kubesphere.io/alias-name": "Own"}},
		"spec":     obj{"template": obj{"spec": obj{"manager": name}}, "placement": obj{"clusters": []any{obj{"name": "host"}}}}})
	in := "/workspaces/" + name
	eventually(t, "the workspace is there", a.is(http.StatusOK, http.MethodGet, tenants+in))
	eventually(t, "its roles are there", a.is(http.StatusOK, http.MethodGet, iamRoutes+in+"/workspaceroles/"+name+"-viewer"))
	a.must(t, http.StatusOK, http.MethodPost, iamRoutes+in+"/workspaceroles", iamObject("WorkspaceRole", name+"-own", obj{"rules": []any{},
		"aggregationRoleTemplates": obj{"templateNames": []any{"workspace-view-projects"}}}))
	a.must(t, http.StatusOK, http.MethodPost, tenants+in+"/resourcequotas", obj{"apiVersion": "quota.kubesphere.io/v1alpha2", "kind": "ResourceQuota",
		"metadata": obj{"name": name}, "spec": obj{"quota": obj{"hard": obj{"limits.cpu": "4", "count/configmaps": "50"}}}})
	a.must(t, http.StatusOK, http.MethodPost, tenants+in+"/namespaces", obj{"apiVersion": "v1", "kind": "Namespace",
		"metadata": obj{"name": name, "labels": obj{workspaceLabel: name, "kubesphere.io/managed": "true"},
			"annotations": obj{"kubesphere.io/description": "Own"}}})
	ns := "/namespaces/" + name
	eventually(t, "the roles of the namespace are there", a.is(http.StatusOK, http.MethodGet, iamRoutes+ns+"/roles/viewer"))
	post(iamAPI+ns+"/roles", iamObject("Role", "own", reads))
	post(iamAPI+ns+"/rolebindings", iamObject("RoleBinding", "own", bound("Role", "own")))
	post("/apis/kubesphere.io/v1alpha1"+ns+"/serviceaccounts", obj{"apiVersion": "kubesphere.io/v1alpha1", "kind": "ServiceAccount",
		"metadata": obj{"name": "robot"}})
	eventually(t, "what is used of the quota is known", a.accepts(http.StatusCreated, http.MethodPost, "/api/v1"+ns+"/configmaps",
		obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "own"}, "data": obj{"a": "b"}}))
	// A second factor is made on a page; the one here is for a user who does not log in.
	_, err := w.root.Resource(schema.GroupVersionResource{Group: "session.kapis.dev", Version: "v1alpha1", Resource: "factors"}).Create(t.Context(),
		&unstructured.Unstructured{Object: obj{"apiVersion": "session.kapis.dev/v1alpha1", "kind": "Factor", "metadata": obj{"name": name + "-guarded"},
			"spec": obj{"user": name + "-guarded", "recovery": []any{strings.Repeat("0", 64)}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the user may log in", logsIn(w.base, name))
	eventually(t, "the service account has a token", func(ctx context.Context) error {
		_, err := w.robot(ctx, name)
		return err
	})
	eventually(t, "the native role is there", mirrored(w.root, name))
}

// postUser makes a user, and returns once they may log in.
func postUser(t *testing.T, a caller, name string) {
	t.Helper()
	a.must(t, http.StatusCreated, http.MethodPost, iamAPI+"/users", iamObject("User", name,
		obj{"spec": obj{"email": name + "@example.com", "password": password}}))
	eventually(t, name+" may log in", logsIn(a.base, name))
}

// logsIn returns a condition: the password of the tests opens a session.
func logsIn(base, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := passwordGrant(ctx, base, name, password)
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	}
}

// robot returns the token of the service account of the platform in a namespace.
func (w *upgradeWorld) robot(ctx context.Context, namespace string) (string, error) {
	account, err := w.root.Resource(schema.GroupVersionResource{Group: "kubesphere.io", Version: "v1alpha1", Resource: "serviceaccounts"}).
		Namespace(namespace).Get(ctx, "robot", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	secrets, _, _ := unstructured.NestedSlice(account.Object, "secrets")
	if len(secrets) == 0 {
		return "", fmt.Errorf("service account robot of %s has no Secret yet", namespace)
	}
	name, _ := secrets[0].(obj)["name"].(string)
	secret, err := w.root.Resource(secretsOfCluster).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	raw, _, _ := unstructured.NestedString(secret.Object, "data", "token")
	var token []byte
	if err := json.Unmarshal([]byte(`"`+raw+`"`), &token); err != nil || len(token) == 0 {
		return "", fmt.Errorf("the Secret of service account robot of %s has no token yet (%w)", namespace, err)
	}
	return string(token), nil
}

var secretsOfCluster = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// storedObjects are objects as kube-apiserver has them, by kind, namespace and name: the uid, so that none is one made again, and what people
// have written in it.
type storedObjects map[string]string

// comesAndGoes are the kinds whose objects change by themselves, and end.
var comesAndGoes = []string{"Session", "LoginRecord", "Lockout"}

// objects returns all objects of the platform: of the kinds that it defines, namespaces, and its settings.
func (w *upgradeWorld) objects(t *testing.T) storedObjects {
	t.Helper()
	kinds := []schema.GroupVersionResource{{Version: "v1", Resource: "namespaces"}}
	for _, d := range w.list(t, w.root.Resource(definitions)) {
		group, _, _ := unstructured.NestedString(d.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(d.Object, "spec", "names", "plural")
		versions, _, _ := unstructured.NestedStringSlice(d.Object, "status", "storedVersions")
		if len(versions) > 0 && (strings.HasSuffix(group, "kubesphere.io") || strings.HasSuffix(group, "kapis.dev")) {
			kinds = append(kinds, schema.GroupVersionResource{Group: group, Version: versions[len(versions)-1], Resource: plural})
		}
	}
	out := storedObjects{}
	for _, kind := range kinds {
		for _, o := range w.list(t, w.root.Resource(kind)) {
			out.add(t, o)
		}
	}
	for _, o := range w.list(t, w.root.Resource(secretsOfCluster).Namespace("kubesphere-system")) {
		if strings.HasPrefix(fmt.Sprint(o.Object["type"]), "config.kubesphere.io/") {
			out.add(t, o)
		}
	}
	return out
}

func (w *upgradeWorld) list(t *testing.T, of dynamic.ResourceInterface) []unstructured.Unstructured {
	t.Helper()
	l, err := of.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l.Items
}

// add leaves out what servers and controllers write, and what an installation brings with it, which another version may have otherwise.
func (s storedObjects) add(t *testing.T, o unstructured.Unstructured) {
	t.Helper()
	key, uid := strings.Join([]string{o.GetKind(), o.GetNamespace(), o.GetName()}, " "), string(o.GetUID())
	installed := o.GetLabels()["app.kubernetes.io/part-of"] == "ks-apiserver" || o.GetKind() == "Namespace" && isOfTheSystem(o.GetName())
	_, builtIn, _ := unstructured.NestedMap(o.Object, "aggregationRoleTemplates", "roleSelector")
	if installed || builtIn || slices.Contains(comesAndGoes, o.GetKind()) {
		s[key] = uid
		return
	}
	annotations := o.GetAnnotations()
	maps.DeleteFunc(annotations, func(name, _ string) bool {
		return strings.Contains(name, "kapis.dev/") || name == "iam.kubesphere.io/granted-clusters"
	})
	kept := obj{"uid": uid, "labels": o.GetLabels(), "annotations": annotations}
	for field, value := range o.Object {
		if !slices.Contains([]string{"metadata", "status", "lastUsedAt"}, field) {
			kept[field] = value
		}
	}
	if _, ok := kept["aggregationRoleTemplates"]; ok {
		delete(kept, "rules") // of the templates
	}
	s[key] = encode(t, kept)
}

func isOfTheSystem(namespace string) bool {
	return namespace == "default" || strings.HasPrefix(namespace, "kube")
}

// lostIn says what of the objects is gone or another one later, but for those of the users who log in all the time.
func (s storedObjects) lostIn(later storedObjects, except string) []string {
	var lost []string
	for _, key := range slices.Sorted(maps.Keys(s)) {
		kind, _, _ := strings.Cut(key, " ")
		switch now, ok := later[key]; {
		case strings.Contains(key, except), kind == "Session" || kind == "Lockout":
		case !ok:
			lost = append(lost, key+" is gone")
		case now != s[key]:
			lost = append(lost, fmt.Sprintf("%s was\n%s\nand is\n%s", key, s[key], now))
		}
	}
	return lost
}
