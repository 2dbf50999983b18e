package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// soon is how long a right that was taken away may live on: a second (S9 has five).
const soon = 5 * time.Second

// directly is kube-apiserver with a user's own certificate: nothing of ours is in between.
func directly(t *testing.T, user string) *kubernetes.Clientset {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	out, err := exec.CommandContext(t.Context(), product.Program("dev"), "kubeconfig", "--dir", product.Dir, "--out", file, "--user", user, "--group",
		"system:authenticated").
		CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The whole story, by the bodies that the console sends: a workspace, its people, its namespaces, a role of one's own making; a member
// sees exactly his own, by every way, and no more of it once he is removed.
func TestTheStoryOfAWorkspace(t *testing.T) { // S9, U51, U52
	proves(t, "S6", "S7", "S9")
	a := admin(t)
	w, dev := unique("story"), unique("dev")
	boss := unique("boss")
	d, b := newUser(t, dev), newUser(t, boss)
	newTeam(t, w)
	other := newTenant(t, unique("elsewhere"))
	members := iamRoute + "/workspaces/" + w + "/workspacemembers"
	a.must(t, http.StatusOK, http.MethodPost, members, []any{map[string]any{"username": boss, "roleRef": w + "-admin"}})

	namespaces := tenants + "/workspaces/" + w + "/namespaces"
	one, two := w+"-one", w+"-two"
	t.Cleanup(func() {
		for _, n := range []string{one, two} {
			_, _ = a.do(context.Background(), http.MethodDelete, "/api/v1/namespaces/"+n, nil)
		}
	})
	kube := directly(t, dev)
	maps := "/namespaces/" + one + "/configmaps"

	step(t, "the boss of the workspace makes namespaces", func(t *testing.T) {
		for _, n := range []string{one, two} {
			eventually(t, "the boss makes a namespace", func(ctx context.Context) error {
				r, err := b.do(ctx, http.MethodPost, namespaces, map[string]any{
					"cluster":    "host",
					"apiVersion": "v1",
					"kind":       "Namespace",
					"metadata": map[string]any{
						"name":        n,
						"labels":      map[string]any{"kubesphere.io/workspace": w, "kubesphere.io/managed": "true"},
						"annotations": map[string]any{"kubesphere.io/creator": boss},
					},
				})
				if err == nil && r.code != http.StatusOK {
					err = fmt.Errorf("%d %s", r.code, clip(r.body))
				}
				return err
			})
			eventually(t, "its roles", a.has(iamRoute+"/namespaces/"+n+"/roles", `"admin"`, `"operator"`, `"viewer"`))
		}
	})
	step(t, "a member with a role out of templates, in one of the two, has it at every door", func(t *testing.T) {
		roles := iamRoute + "/namespaces/" + one + "/roles"
		role := map[string]any{
			"apiVersion":               "iam.kubesphere.io/v1beta1",
			"kind":                     "Role",
			"rules":                    []any{},
			"metadata":                 map[string]any{"name": "maps", "annotations": map[string]any{"kubesphere.io/creator": boss}},
			"aggregationRoleTemplates": map[string]any{"templateNames": []any{"namespace-view-configmaps", "namespace-manage-configmaps"}},
		}
		eventually(t, "the boss may make a role", b.accepts(http.StatusOK, http.MethodPost, roles+"?dryRun=All", role))
		b.must(t, http.StatusOK, http.MethodPost, roles, role)
		eventually(t, "the role is known", a.is(http.StatusOK, http.MethodGet, roles+"/maps"))
		b.must(t, http.StatusOK, http.MethodPost, members, []any{map[string]any{"username": dev, "roleRef": w + "-regular"}})
		b.must(t, http.StatusOK, http.MethodPost, iamRoute+"/namespaces/"+one+"/namespacemembers", []any{map[string]any{"username": dev, "roleRef": "maps"}})

		eventually(t, "our routes", d.has("/kapi/v1"+maps, "kube-root-ca.crt"))
		eventually(t, "through /api", d.has("/api/v1"+maps, "kube-root-ca.crt"))
		eventually(t, "kube-apiserver itself", func(ctx context.Context) error {
			_, err := kube.CoreV1().ConfigMaps(one).List(ctx, metav1.ListOptions{})
			return err
		})
		if _, err := kube.CoreV1().ConfigMaps(one).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}},
			metav1.CreateOptions{}); err != nil {
			t.Errorf("write at kube-apiserver: %v", err)
		}
	})
	step(t, "he sees exactly his own", func(t *testing.T) {
		for path, want := range map[string][]string{
			tenants + "/workspaces": {w}, tenants + "/workspacetemplates": {w}, tenants + "/namespaces": {one}, namespaces: {one},
			tenants + "/workspaces/" + w + "/workspacemembers/" + dev + "/namespaces": {one},
		} {
			eventually(t, path, func(context.Context) error { // that he is in the workspace, and in the namespace, is known by caches of their own
				if got := d.list(t, path); !slices.Equal(got.names(), want) || got.TotalItems == nil || *got.TotalItems != len(want) {
					return fmt.Errorf("%v", got.names())
				}
				return nil
			})
		}
		for _, path := range []string{
			"/kapi/v1/namespaces/" + two + "/configmaps", "/api/v1/namespaces/" + two + "/configmaps", "/api/v1/namespaces/" + one + "/secrets", "/kapi/v1/namespaces/" +
				one + "/secrets",
			"/api/v1/namespaces/" + other.namespace + "/configmaps", tenants + "/workspaces/" + other.workspace, iamRoute + "/workspaces/" + other.workspace +
				"/workspacemembers", "/api/v1/configmaps",
		} {
			d.must(t, http.StatusForbidden, http.MethodGet, path, nil)
		}
		if err := d.holds(tenants + "/workspaces/" + other.workspace + "/namespaces")(t.Context()); err != nil { // none of them is his
			t.Error(err)
		}
		if _, err := kube.CoreV1().ConfigMaps(two).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("another namespace, at kube-apiserver: %v", err)
		}
	})
	step(t, "and gives nothing away that he has not", func(t *testing.T) { // S6
		d.must(t, http.StatusForbidden, http.MethodPost, members, []any{map[string]any{"username": dev, "roleRef": w + "-admin"}})
		d.must(t, http.StatusForbidden, http.MethodPost, iamRoute+"/namespaces/"+one+"/namespacemembers", []any{map[string]any{"username": dev, "roleRef": "admin"}})
		b.must(
			t,
			http.StatusForbidden,
			http.MethodPost,
			iamRoute+"/workspaces/"+other.workspace+"/workspacemembers",
			[]any{map[string]any{"username": boss, "roleRef": other.workspace + "-admin"}},
		)
		b.must(
			t,
			http.StatusForbidden,
			http.MethodPatch,
			"/api/v1/namespaces/"+one,
			`{"metadata":{"labels":{"kubesphere.io/workspace":"`+other.workspace+`"}}}`,
			"Content-Type: application/merge-patch+json",
		) // S7
	})
	step(t, "an explanation says why", func(t *testing.T) {
		ask := map[string]any{
			"spec": map[string]any{"resourceAttributes": map[string]any{"verb": "list", "resource": "configmaps", "version": "v1", "namespace": one}},
		}
		why := decode[struct {
			Allowed bool
			Reason  string
		}](t, d.must(t, http.StatusOK, http.MethodPost, iamRoute+"/accessexplanations", ask).body)
		if want := `of Role "maps" to User "` + dev + `"`; !why.Allowed || !strings.Contains(why.Reason, want) {
			t.Errorf("%+v, want %s", why, want)
		}
	})

	step(t, "removed from the namespace, he reads nothing of it", func(t *testing.T) {
		b.must(t, http.StatusOK, http.MethodDelete, iamRoute+"/namespaces/"+one+"/namespacemembers/"+dev, nil)
		refused := func(c caller, path string) func(context.Context) error {
			return func(ctx context.Context) error {
				r, err := c.do(ctx, http.MethodGet, path, nil)
				if err == nil && r.code != http.StatusForbidden {
					err = fmt.Errorf("%d %s", r.code, clip(r.body))
				}
				return err
			}
		}
		within(t, soon, "our routes refuse", refused(d, "/kapi/v1"+maps))
		within(t, soon, "/api refuses", refused(d, "/api/v1"+maps))
		within(t, soon, "kube-apiserver itself refuses", func(ctx context.Context) error {
			if _, err := kube.CoreV1().ConfigMaps(one).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
				return fmt.Errorf("still answers: %w", err)
			}
			return nil
		})
	})
	step(t, "the workspace goes, and all that it gave", func(t *testing.T) {
		a.must(
			t,
			http.StatusOK,
			http.MethodDelete,
			tenants+"/workspacetemplates/"+w,
			map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"},
		)
		eventually(t, "its roles, bindings and namespaces are gone", func(ctx context.Context) error {
			for _, path := range []string{
				"/apis/iam.kubesphere.io/v1beta1/workspaceroles?labelSelector=kubesphere.io/workspace=" + w,
				"/apis/iam.kubesphere.io/v1beta1/workspacerolebindings?labelSelector=kubesphere.io/workspace=" + w,
				"/apis/tenant.kubesphere.io/v1beta1/workspaces?fieldSelector=metadata.name=" + w,
			} {
				r, err := a.do(ctx, http.MethodGet, path, nil)
				if err != nil {
					return err
				}
				if got := decode[list](t, r.body); len(got.Items) > 0 {
					return fmt.Errorf("%s: %v", path, got.names())
				}
			}
			r, err := a.do(ctx, http.MethodGet, "/api/v1/namespaces/"+two, nil)
			if err == nil && r.code != http.StatusNotFound {
				err = fmt.Errorf("namespace %s: %d", two, r.code)
			}
			return err
		})
		within(t, soon, "the boss has nothing left", func(ctx context.Context) error {
			r, err := b.do(ctx, http.MethodGet, tenants+"/workspaces", nil)
			if err == nil && len(decode[list](t, r.body).Items) > 0 {
				err = fmt.Errorf("%s", clip(r.body))
			}
			return err
		})
	})
}
