package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kapis.dev/ks-apiserver/tools/stack"
)

// spare is a product of a test's own, which may lose whatever it has.
type spare struct {
	*stack.Stack
	kube  *kubernetes.Clientset
	admin caller
}

func newSpare(t *testing.T) *spare {
	t.Helper()
	o := options
	o.Dir = filepath.Join(t.TempDir(), "dev")
	s, err := stack.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	kube, err := s.KubeClient()
	if err != nil {
		t.Fatal(err)
	}
	return &spare{s, kube, loginAt(t, s.URL, "admin", s.AdminPassword)}
}

// kubectl runs it as the cluster's admin, who needs none of our roles.
func (s *spare) kubectl(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.Program("kubectl"), append([]string{"--kubeconfig", filepath.Join(s.Dir, "kubeconfig")}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

func (s *spare) apply(t *testing.T, objects ...obj) {
	t.Helper()
	items := make([]any, len(objects))
	for i, o := range objects {
		items[i] = o
	}
	if out, err := s.kubectl(t.Context(), encode(t, obj{"apiVersion": "v1", "kind": "List", "items": items}), "apply", "-f", "-"); err != nil {
		t.Fatal(out, err)
	}
}

// drop deletes definitions, and waits until they are gone with all their objects.
func (s *spare) drop(t *testing.T, names ...string) {
	t.Helper()
	if _, err := s.kubectl(t.Context(), "", append([]string{"delete", "crd", "--wait=true", "--timeout=300s"}, names...)...); err != nil {
		t.Fatal(err)
	}
}

// granted names the native bindings of the mirror that one of the roles of the kinds is bound by, "" for all kinds: what people have by them.
func (s *spare) granted(ctx context.Context, keep func(source string, subjects []rbacv1.Subject) bool) ([]string, error) {
	o := metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=ks-controller-manager"}
	cluster, err := s.kube.RbacV1().ClusterRoleBindings().List(ctx, o)
	if err != nil {
		return nil, err
	}
	below, err := s.kube.RbacV1().RoleBindings("").List(ctx, o)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, b := range cluster.Items {
		if keep(b.Annotations["kapis.dev/mirror-of"], b.Subjects) {
			out = append(out, b.Name)
		}
	}
	for _, b := range below.Items {
		if keep(b.Annotations["kapis.dev/mirror-of"], b.Subjects) {
			out = append(out, b.Namespace+"/"+b.Name)
		}
	}
	return out, nil
}

// nobody returns a condition: no native binding is left that keep finds.
func (s *spare) nobody(keep func(source string, subjects []rbacv1.Subject) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		left, err := s.granted(ctx, keep)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%v are left", left)
		}
		return err
	}
}

func named(user string) func(string, []rbacv1.Subject) bool {
	return func(_ string, subjects []rbacv1.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return s.Name == user })
	}
}

// people finds bindings to anybody but the synthetic groups, which mean nobody while no role allows a request.
func people(_ string, subjects []rbacv1.Subject) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return !strings.HasPrefix(s.Name, "kapis:") })
}

func made(kind, namespace, name string, labels obj, fields obj) obj {
	metadata := obj{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	if labels != nil {
		metadata["labels"] = labels
	}
	out := obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": kind, "metadata": metadata}
	for k, v := range fields {
		out[k] = v
	}
	return out
}

// grants are a role at each of the four scopes, and a binding of the user to each.
func grants(user, workspace, namespace string) []obj {
	rules := []any{rule{[]string{""}, []string{"configmaps"}, []string{"list"}}}
	var out []obj
	for _, scope := range []struct {
		kind, namespace string
		labels          obj
	}{{"GlobalRole", "", nil}, {"ClusterRole", "", nil}, {"WorkspaceRole", "", obj{workspaceLabel: workspace}}, {"Role", namespace, nil}} {
		name := user
		if scope.kind == "WorkspaceRole" {
			name = workspace + "-" + user
		}
		out = append(out,
			made(scope.kind, scope.namespace, name, scope.labels, obj{"rules": rules}),
			made(scope.kind+"Binding", scope.namespace, name, scope.labels, obj{
				"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": scope.kind, "name": name},
				"subjects": []any{obj{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}},
			}))
	}
	return out
}

// settle makes a workspace with a namespace, a quota and a service account, and a user who has a role at every scope.
func (s *spare) settle(t *testing.T, user, workspace, namespace string) {
	t.Helper()
	s.apply(t, made("User", "", user, nil, obj{"spec": obj{"email": user + "@example.com", "password": password}}),
		obj{"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": "WorkspaceTemplate", "metadata": obj{"name": workspace},
			"spec": obj{"placement": obj{"clusters": []any{obj{"name": "host"}}}, "template": obj{"spec": obj{"manager": user}}}})
	eventually(t, "the workspace is there", func(ctx context.Context) error {
		_, err := s.kubectl(ctx, "", "get", "workspaces.tenant.kubesphere.io", workspace)
		return err
	})
	s.apply(
		t,
		obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": namespace, "labels": obj{workspaceLabel: workspace, "kubesphere.io/managed": "true"}}},
	)
	s.apply(t, append(grants(user, workspace, namespace),
		obj{"apiVersion": "quota.kubesphere.io/v1alpha2", "kind": "ResourceQuota", "metadata": obj{"name": workspace, "labels": obj{workspaceLabel: workspace}},
			"spec": obj{"selector": obj{workspaceLabel: workspace}, "quota": obj{"hard": obj{"pods": "10"}}}},
		obj{"apiVersion": "kubesphere.io/v1alpha1", "kind": "ServiceAccount", "metadata": obj{"name": "robot", "namespace": namespace}},
		made("Group", "", user+"s", nil, nil),
		made("GroupBinding", "", user+"s", nil, obj{"groupRef": obj{"apiGroup": "iam.kubesphere.io", "kind": "Group", "name": user + "s"}, "users": []any{user}}))...)
	s.holds(t, user, workspace, namespace)
}

// holds waits until the user is bound natively by all four scopes.
func (s *spare) holds(t *testing.T, user, workspace, namespace string) {
	t.Helper()
	for _, source := range []string{"GlobalRole/" + user, "ClusterRole/" + user, "WorkspaceRole/" + workspace + "-" + user, "Role/" + namespace + "/" + user} {
		eventually(t, source+" is mirrored", func(ctx context.Context) error {
			have, err := s.granted(ctx, func(of string, subjects []rbacv1.Subject) bool { return of == source && named(user)("", subjects) })
			if err == nil && len(have) == 0 {
				err = errors.New("it is not")
			}
			return err
		})
	}
}

// namespaces are the identities of the namespaces that nothing may touch.
func (s *spare) namespaces(t *testing.T, names ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range append(names, "default", "kube-system", "kube-public", "kubesphere-system") {
		ns, err := s.kube.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if ns.DeletionTimestamp != nil {
			t.Errorf("namespace %s is going", name)
		}
		out[name] = string(ns.UID)
	}
	return out
}

// U50, issue D.7: whatever is deleted first, a user, a workspace or a definition, nobody is left with a right that hung on it, no right and no
// namespace goes that nobody asked to go, and the controllers go on without being started again.
func TestU50NothingDeletedLeavesARight(t *testing.T) {
	t.Parallel() // it has a control plane of its own
	s := newSpare(t)
	pid, _ := s.Process("ks-controller-manager")
	s.settle(t, "dora", "acme", "acme-one")
	kept := s.namespaces(t, "acme-one")
	unharmed := func(t *testing.T) {
		t.Helper()
		for name, uid := range s.namespaces(t, "acme-one") {
			if kept[name] != uid {
				t.Errorf("namespace %s is another one", name)
			}
		}
		if now, ok := s.Process("ks-controller-manager"); !ok || now != pid {
			t.Errorf("ks-controller-manager was started again: %d, then %d", pid, now)
		}
	}
	install := func(t *testing.T) {
		t.Helper()
		if out, err := script(t.Context(), s.Stack, "install.sh"); err != nil {
			t.Fatalf("install again: %v\n%s", err, out)
		}
	}
	reads := func(ctx context.Context) error {
		_, err := s.kubectl(ctx, "", "--as=dora", "--as-group=system:authenticated", "-n", "acme-one", "get", "configmaps")
		return err
	}

	t.Run("roles", func(t *testing.T) {
		s.drop(t, "roles.iam.kubesphere.io", "globalroles.iam.kubesphere.io", "workspaceroles.iam.kubesphere.io", "clusterroles.iam.kubesphere.io",
			"builtinroles.iam.kubesphere.io", "roletemplates.iam.kubesphere.io")
		within(t, soon, "nobody has a native right by them", s.nobody(people))
		within(t, soon, "she reads nothing at kube-apiserver", func(ctx context.Context) error {
			if reads(ctx) == nil {
				return errors.New("she does")
			}
			return nil
		})
		unharmed(t)
		install(t)
		s.apply(t, grants("dora", "acme", "acme-one")...)
		s.holds(t, "dora", "acme", "acme-one")
		eventually(t, "the admin is one again", s.admin.is(http.StatusOK, http.MethodGet, "/api/v1/nodes"))
		eventually(t, "the workspace has its roles again", s.admin.is(http.StatusOK, http.MethodGet, iamAPI+"/workspaceroles/acme-viewer"))
		eventually(t, "the project too", s.admin.is(http.StatusOK, http.MethodGet, iamAPI+"/namespaces/acme-one/roles/viewer"))
	})
	t.Run("bindings", func(t *testing.T) {
		s.drop(t, "globalrolebindings.iam.kubesphere.io", "rolebindings.iam.kubesphere.io", "clusterrolebindings.iam.kubesphere.io",
			"workspacerolebindings.iam.kubesphere.io", "groupbindings.iam.kubesphere.io", "groups.iam.kubesphere.io")
		within(t, soon, "nobody has a native right by them", s.nobody(people))
		unharmed(t)
		install(t)
		s.apply(t, grants("dora", "acme", "acme-one")...)
		s.holds(t, "dora", "acme", "acme-one")
		eventually(t, "the admin is one again", s.admin.is(http.StatusOK, http.MethodGet, "/api/v1/nodes"))
	})
	t.Run("tenancy", func(t *testing.T) {
		s.drop(t, "resourcequotas.quota.kubesphere.io", "workspacetemplates.tenant.kubesphere.io", "workspaces.tenant.kubesphere.io", "serviceaccounts.kubesphere.io")
		s.holds(t, "dora", "acme", "acme-one") // nobody has asked for the end of the workspace, or of a right in it (S74)
		unharmed(t)
		install(t)
	})
	t.Run("a user", func(t *testing.T) {
		if _, err := s.kubectl(t.Context(), "", "delete", "users.iam.kubesphere.io", "dora", "--timeout=300s"); err != nil {
			t.Fatal(err)
		}
		within(t, soon, "no native binding names her", s.nobody(named("dora")))
		for _, kind := range []string{"globalrolebindings", "clusterrolebindings", "workspacerolebindings", "rolebindings", "groupbindings"} {
			out, err := s.kubectl(t.Context(), "", "get", kind+".iam.kubesphere.io", "-A", "-o", "json")
			if err != nil {
				t.Fatal(err)
			}
			if mentions(t, out, "dora") {
				t.Errorf("a %s names her: %s", kind, clip(out))
			}
		}
		s.apply(t, made("User", "", "dora", nil, obj{"spec": obj{"email": "dora@example.com", "password": password}}))
		var namesake caller
		eventually(t, "another of her name logs in", func(ctx context.Context) error {
			r, err := passwordGrant(ctx, s.URL, "dora", password)
			if err == nil && r.code != http.StatusOK {
				err = fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			if err == nil {
				namesake = caller{s.URL, decode[tokenReply](t, r.body).Access}
			}
			return err
		})
		namesake.must(t, http.StatusForbidden, http.MethodGet, kapis+"/namespaces/acme-one/configmaps", nil)
		if err := reads(t.Context()); err == nil {
			t.Error("and has what she had, at kube-apiserver")
		}
		unharmed(t)
	})
	t.Run("users", func(t *testing.T) {
		s.apply(t, grants("dora", "acme", "acme-one")...)
		s.drop(t, "users.iam.kubesphere.io")
		unharmed(t)
		install(t)
		s.apply(t, made("User", "", "eve", nil, obj{"spec": obj{"email": "eve@example.com", "password": password}}))
		eventually(t, "new ones are kept", func(ctx context.Context) error {
			out, err := s.kubectl(ctx, "", "get", "users.iam.kubesphere.io", "eve", "-o", "jsonpath={.status.state}")
			if err == nil && out != "Active" {
				err = errors.New(out)
			}
			return err
		})
		if _, err := s.kube.RbacV1().ClusterRoles().Get(t.Context(), "cluster-admin", metav1.GetOptions{}); apierrors.IsNotFound(err) {
			t.Error("a native role that is not the mirror's is gone")
		}
		unharmed(t)
	})
}

// mentions says whether a list of bindings gives the user something.
func mentions(t *testing.T, list, user string) bool {
	t.Helper()
	for _, b := range decode[struct {
		Items []struct {
			Subjects []rbacv1.Subject
			Users    []string
		}
	}](t, list).Items {
		if named(user)("", b.Subjects) || slices.Contains(b.Users, user) {
			return true
		}
	}
	return false
}
