package apprelease_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/helm"
)

func TestX33AReleaseIsDoneOnceAsItsAuthor(t *testing.T) {
	w := newWorld(t)
	if got := w.add(nil); got.Status.State != v2.ReleaseCreated {
		t.Fatalf("%+v", got.Status)
	}
	w.put(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"redis","namespace":"web"}}`)
	w.reconcile()
	if got := w.get(); got.Status.State != v2.ReleaseActive {
		t.Fatalf("%+v", got.Status)
	}
	if len(w.asked) != 1 {
		t.Fatalf("%d operations", len(w.asked))
	}
	r := w.asked[0]
	if r.Operation != helm.Apply || r.Name != "cache" || r.Namespace != "web" || r.Cluster.User != "bob" || !slices.Equal(r.Cluster.Groups, []string{"dev"}) ||
		string(r.Values) != "replicas: 1\n" || string(r.Chart) != "chart" || r.Labels[v2.LabelRelease] != "cache" {
		t.Errorf("%+v", r)
	}
	before := w.writes
	if result := w.reconcile(); result != (reconcile.Result{}) || w.writes != before || len(w.asked) != 1 {
		t.Errorf("a settled release: %+v, %d writes, %d operations", result, w.writes-before, len(w.asked))
	}
	got := w.change(func(r *v2.ApplicationRelease) { r.Spec.Values.Raw = []byte(`{"replicas":2}`) })
	if got.Status.State != v2.ReleaseUpgraded || len(w.asked) != 2 || w.asked[1].ID == w.asked[0].ID || w.asked[1].RecordDigest == "" {
		t.Errorf("an upgrade: %+v, %+v", got.Status, w.asked[len(w.asked)-1])
	}
}

func TestX33NobodysRightsAreUsedButAnActiveUsers(t *testing.T) {
	deleted := user("ann", iamv1beta1.UserActive)
	deleted.Finalizers, deleted.DeletionTimestamp = []string{"a.example/b"}, &metav1.Time{Time: time.Unix(1, 0)}
	for name, author := range map[string]string{"nobody": "", "unknown": "eve", "disabled": "zoe", "pending": "new", "being deleted": "ann",
		"a service account": "system:serviceaccount:kube-system:default", "a group of ours": "kapis:platform:appstore"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, deleted.DeepCopy(), user("new", iamv1beta1.UserPending))
			got := w.add(func(r *v2.ApplicationRelease) { r.Annotations[v2.AnnotationUser] = author })
			if got.Status.State != v2.ReleaseFailed || !strings.HasPrefix(got.Status.Message, "403 ") || len(w.asked) != 0 || len(w.as) != 0 {
				t.Errorf("%+v, %d operations", got.Status, len(w.asked))
			}
			if w.reconcile() != (reconcile.Result{}) || len(w.asked) != 0 {
				t.Error("it is tried again")
			}
			got = w.change(func(r *v2.ApplicationRelease) { r.Annotations[v2.AnnotationUser] = "bob" })
			if got.Status.State != v2.ReleaseCreated || got.Status.Message != "" {
				t.Errorf("saved by somebody else: %+v", got.Status)
			}
		})
	}
}

func TestX33WhatDoesNotAgreeIsNotInstalled(t *testing.T) {
	label := func(key, value string) func(*v2.ApplicationRelease) {
		return func(r *v2.ApplicationRelease) { r.Labels[key] = value }
	}
	for name, c := range map[string]struct {
		code   string
		change func(*v2.ApplicationRelease)
	}{
		"no application":               {"400", label(v2.LabelApp, "")},
		"another application":          {"400", label(v2.LabelApp, "mysql")},
		"another workspace":            {"422", label(v2.LabelWorkspace, "other")},
		"another workspace's project":  {"422", label(v2.LabelNamespace, "other")},
		"no such namespace":            {"422", label(v2.LabelNamespace, "gone")},
		"no namespace at all":          {"400", label(v2.LabelNamespace, "")},
		"no such version":              {"404", func(r *v2.ApplicationRelease) { r.Spec.AppVersionID = "redis-9" }},
		"another workspace's version":  {"422", func(r *v2.ApplicationRelease) { r.Spec.AppVersionID = "redis-2" }},
		"a draft":                      {"409", func(r *v2.ApplicationRelease) { r.Spec.AppVersionID = "redis-3" }},
		"another type":                 {"422", func(r *v2.ApplicationRelease) { r.Spec.AppType = "yaml" }},
		"a type that there is not":     {"400", func(r *v2.ApplicationRelease) { r.Spec.AppType = "exe" }},
		"both, app and version, of it": {"422", func(r *v2.ApplicationRelease) { r.Spec.AppID, r.Labels[v2.LabelApp] = "mysql", "mysql" }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, version("redis-2", "other", v2.StateActive), version("redis-3", "shop", v2.StateDraft))
			got := w.add(c.change)
			if got.Status.State != v2.ReleaseFailed || !strings.HasPrefix(got.Status.Message, c.code+" ") || len(w.asked) != 0 {
				t.Errorf("%+v, %d operations", got.Status, len(w.asked))
			}
		})
	}
	t.Run("system-workspace's is everybody's", func(t *testing.T) {
		w := newWorld(t, version("redis-4", "system-workspace", v2.StatePassed))
		if got := w.add(func(r *v2.ApplicationRelease) { r.Spec.AppVersionID = "redis-4" }); got.Status.State != v2.ReleaseCreated {
			t.Errorf("%+v", got.Status)
		}
	})
}

func TestX33AReleaseStaysInItsNamespace(t *testing.T) {
	w := newWorld(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web2", Labels: map[string]string{"kubesphere.io/workspace": "shop"}}})
	w.add(nil)
	got := w.change(func(r *v2.ApplicationRelease) { r.Labels[v2.LabelNamespace] = "web2" })
	if got.Status.State != v2.ReleaseFailed || !strings.Contains(got.Status.Message, "stays there") || len(w.asked) != 1 {
		t.Errorf("%+v", got.Status)
	}
	w.remove()
	if last := w.asked[len(w.asked)-1]; last.Operation != helm.Uninstall || last.Namespace != "web" || w.roles["web/kapis:application-release:cache"] == nil {
		t.Errorf("removed in %s with %v", last.Namespace, w.roles)
	}
}

func TestX33WhatMaySucceedLaterIsTriedAgain(t *testing.T) {
	forbidden := &helm.Error{Reason: helm.ReasonForbidden, Transient: true, Message: `deployments is forbidden: User "bob" cannot create`}
	away := &helm.Error{Reason: helm.ReasonUnreachable, Transient: true, Message: "away"}
	broken := &helm.Error{Reason: helm.ReasonRender, Message: "a template fails"}
	for name, c := range map[string]struct {
		err   error
		again int
		says  string
	}{
		"a right that is missing":  {forbidden, 2, "403 Forbidden"},
		"a cluster that is away":   {away, 5, "away"},
		"a chart that is not well": {broken, 0, "a template fails"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for range 10 {
				w.fails = append(w.fails, c.err)
			}
			got := w.add(nil)
			if got.Status.State != v2.ReleaseFailed || !strings.Contains(got.Status.Message, c.says) {
				t.Errorf("%+v", got.Status)
			}
			for range 10 {
				n := len(w.asked)
				result := w.reconcile()
				if result.RequeueAfter > 0 && len(w.asked) != n { // what is written of a failure brings the release back at once
					t.Fatal("it is tried again before its time")
				}
				w.now = w.now.Add(result.RequeueAfter)
				w.reconcile()
			}
			if again := len(w.asked) - 1; again != c.again {
				t.Errorf("it was tried %d times again, want %d", again, c.again)
			}
			w.fails = nil
			if got := w.change(func(r *v2.ApplicationRelease) { r.Annotations[v2.AnnotationRetry] = "1" }); got.Status.State != v2.ReleaseCreated {
				t.Errorf("asked to try again: %+v", got.Status)
			}
		})
	}
}

func TestX33AnInterruptedOperationIsDoneAgain(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.fails = []error{context.Canceled}
	if err := w.client.Create(t.Context(), newRelease(nil)); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	w.r.Helm = stopping{w, cancel}
	key := client.ObjectKey{Name: "cache"}
	if _, err := w.r.Reconcile(ctx, reconcile.Request{NamespacedName: key}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := w.get(); got.Status.State != v2.ReleaseCreating || got.Status.SpecHash != "" || w.inventory().Operation == "" {
		t.Fatalf("%+v %+v", got.Status, w.inventory())
	}
	// What it left is a record that nobody has noted.
	w.record = &helm.Result{Release: &helm.Release{RecordDigest: "half", Status: "pending-install"}, Objects: []helm.Object{
		{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "redis"}}}
	w.r.Helm = w
	w.reconcile()
	if got := w.get(); got.Status.State != v2.ReleaseCreated || w.asked[0].ID != w.asked[1].ID || w.inventory().Operation != "" {
		t.Errorf("%+v %+v", got.Status, w.inventory())
	}
}

// stopping ends the program while an operation runs.
type stopping struct {
	*world
	stop func()
}

func (s stopping) Run(ctx context.Context, r helm.Request, e func(helm.Event)) (*helm.Result, error) {
	if r.Operation == helm.Apply {
		defer s.stop()
	}
	return s.world.Run(ctx, r, e)
}

func TestX33AReleaseBecomesActiveAlsoAfterItsTime(t *testing.T) {
	w := newWorld(t)
	w.applied = []helm.Object{{APIVersion: "apps/v1", Kind: "Deployment", Name: "redis"}}
	deployment := func(ready int) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"redis","namespace":"web","generation":1},"spec":{"replicas":1},
			"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":%d,"availableReplicas":%d,
			"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`, ready, ready)
	}
	w.put(deployments, deployment(0))
	w.add(nil)
	if result := w.reconcile(); w.get().Status.State != v2.ReleaseCreated || result.RequeueAfter == 0 {
		t.Errorf("%+v %+v", w.get().Status, result)
	}
	before := w.writes
	w.reconcile()
	if w.writes != before {
		t.Errorf("%d writes while it waits", w.writes-before)
	}
	w.now = w.now.Add(11 * time.Minute)
	if result := w.reconcile(); w.get().Status.State != v2.ReleaseTimeout || result.RequeueAfter == 0 ||
		!strings.Contains(w.get().Status.Message, "Deployment.apps web/redis") {
		t.Errorf("%+v %+v", w.get().Status, result)
	}
	if err := w.objects.Tracker().Delete(deployments, "web", "redis"); err != nil {
		t.Fatal(err)
	}
	w.put(deployments, deployment(1))
	if result := w.reconcile(); w.get().Status.State != v2.ReleaseActive || w.get().Status.Message != "" || result != (reconcile.Result{}) {
		t.Errorf("%+v %+v", w.get().Status, result)
	}
}

// X33: objects that say that they have failed are a state of their own, which ends when they go on.
func TestX33AReleaseWhoseObjectsFailSaysSo(t *testing.T) {
	w := newWorld(t)
	w.applied = []helm.Object{{APIVersion: "v1", Kind: "ConfigMap", Name: "late"}, {APIVersion: "apps/v1", Kind: "Deployment", Name: "redis"}}
	deployment := func(reason string) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"redis","namespace":"web","generation":1},"spec":{"replicas":1},
			"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"conditions":[{"type":"Progressing","status":"False","reason":%q}]}}`, reason)
	}
	w.put(deployments, deployment("ProgressDeadlineExceeded"))
	w.add(nil)
	w.reconcile()
	if result := w.reconcile(); w.get().Status.State != v2.ReleaseDeployFailed || result.RequeueAfter == 0 ||
		!strings.Contains(w.get().Status.Message, "Deployment.apps web/redis") {
		t.Errorf("%+v %+v", w.get().Status, result)
	}
	before := w.writes
	if w.reconcile(); w.writes != before {
		t.Errorf("%d writes while it stays so", w.writes-before)
	}
	if err := w.objects.Tracker().Delete(deployments, "web", "redis"); err != nil {
		t.Fatal(err)
	}
	w.put(deployments, deployment("ReplicaSetUpdated"))
	if result := w.reconcile(); w.get().Status.State != v2.ReleaseCreated || result.RequeueAfter == 0 {
		t.Errorf("%+v %+v", w.get().Status, result)
	}
}

// X33: a right that only ks-apiserver knows is none for a release, and the message names the role that gives it.
func TestX33AConditionalRoleIsNamed(t *testing.T) {
	of := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: "iam.kubesphere.io", Kind: kind, Name: name}
	}
	bob, dev := []rbacv1.Subject{{Kind: "User", Name: "bob"}}, []rbacv1.Subject{{Kind: "Group", Name: "dev"}}
	condition := map[string]string{iamv1beta1.AnnotationCELCondition: "true"}
	policy := map[string]string{iamv1beta1.AnnotationRegoOverride: "package authz"}
	shop := map[string]string{"kubesphere.io/workspace": "shop"}
	for claim, c := range map[string]struct {
		objects []client.Object
		names   string
	}{
		"a Role": {[]client.Object{&iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "deployer", Annotations: condition}},
			&iamv1beta1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "b"}, Subjects: bob, RoleRef: of("Role", "deployer")}},
			`Role "deployer"`},
		"a WorkspaceRole of a group, with a policy": {[]client.Object{
			&iamv1beta1.WorkspaceRole{ObjectMeta: metav1.ObjectMeta{Name: "shop-all", Annotations: policy}},
			&iamv1beta1.WorkspaceRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: shop}, Subjects: dev, RoleRef: of("WorkspaceRole", "shop-all")}},
			`WorkspaceRole "shop-all"`},
		"a GlobalRole": {[]client.Object{&iamv1beta1.GlobalRole{ObjectMeta: metav1.ObjectMeta{Name: "night", Annotations: condition}},
			&iamv1beta1.GlobalRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Subjects: bob, RoleRef: of("GlobalRole", "night")}}, `GlobalRole "night"`},
		"one of another namespace, one of somebody else, and one without a condition": {[]client.Object{
			&iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "deployer", Annotations: condition}},
			&iamv1beta1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "b"}, Subjects: bob, RoleRef: of("Role", "deployer")},
			&iamv1beta1.GlobalRole{ObjectMeta: metav1.ObjectMeta{Name: "night", Annotations: condition}},
			&iamv1beta1.GlobalRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "zoe"}},
				RoleRef: of("GlobalRole", "night")},
			&iamv1beta1.GlobalRole{ObjectMeta: metav1.ObjectMeta{Name: "day"}},
			&iamv1beta1.GlobalRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Subjects: bob, RoleRef: of("GlobalRole", "day")}}, ""},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newWorld(t, c.objects...)
			w.fails = []error{&helm.Error{Reason: helm.ReasonForbidden, Transient: true, Message: "pods is forbidden"}}
			w.add(nil)
			if got := w.get().Status.Message; !strings.HasPrefix(got, "403 Forbidden: pods is forbidden") ||
				!strings.Contains(got, "none that a policy or a condition gives") || strings.Contains(got, "depends on one") != (c.names != "") ||
				!strings.Contains(got, c.names) {
				t.Error(got)
			}
		})
	}
}

func TestX33ARemovalNeedsNoRightsOfItsAuthor(t *testing.T) {
	for name, c := range map[string]struct {
		user   client.Object
		as     string
		groups []string
		hooks  bool
	}{
		"he is there":    {nil, "bob", []string{"dev", "kapis:application-release:u-1"}, true},
		"he is gone":     {user("bob", ""), "kapis:application-release", []string{"kapis:application-release:u-1"}, false},
		"he is disabled": {user("bob", iamv1beta1.UserDisabled), "kapis:application-release", []string{"kapis:application-release:u-1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.applied = append(w.applied, helm.Object{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "redis"},
				helm.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "elsewhere", Namespace: "other"},
				helm.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "hook", Hook: true})
			w.add(nil)
			if c.user != nil {
				if err := w.client.Delete(t.Context(), user("bob", "")); err != nil {
					t.Fatal(err)
				}
				if name == "he is disabled" {
					if err := w.client.Create(t.Context(), c.user); err != nil {
						t.Fatal(err)
					}
				}
			}
			w.remove()
			last := w.asked[len(w.asked)-1]
			if last.Operation != helm.Uninstall || last.Cluster.User != c.as || !slices.Equal(last.Cluster.Groups, c.groups) || last.SkipHooks == c.hooks {
				t.Errorf("%s %s %q %v", last.Operation, last.Cluster.User, last.Cluster.Groups, last.SkipHooks)
			}
			want := []rbacv1.PolicyRule{{Verbs: []string{"delete", "get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"redis"}}}
			if len(w.roles) != 1 || fmt.Sprint(w.roles["web/kapis:application-release:cache"]) != fmt.Sprint(want) {
				t.Errorf("rights %v", w.roles)
			}
			if !w.gone() || w.inventory() != nil {
				t.Error("it is not gone")
			}
			left := &rbacv1.RoleList{}
			if err := w.client.List(t.Context(), left); err != nil || len(left.Items) > 0 {
				t.Errorf("rights are left: %v %v", left.Items, err)
			}
		})
	}
}

func TestX33ARemovalEnds(t *testing.T) {
	w := newWorld(t)
	w.applied = append(w.applied, helm.Object{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "redis"})
	w.add(nil)
	for range 4 {
		w.fails = append(w.fails, &helm.Error{Reason: helm.ReasonFailed, Message: "a hook fails"})
	}
	w.remove()
	for range 3 {
		if got := w.get(); got.Status.State != v2.ReleaseDeleting || !strings.Contains(got.Status.Message, "a hook fails") {
			t.Errorf("%+v", got.Status)
		}
		n := len(w.asked)
		again := w.reconcile().RequeueAfter
		if again == 0 || len(w.asked) != n {
			t.Fatalf("it is removed again before its time, which comes in %s", again)
		}
		w.now = w.now.Add(again)
		w.reconcile()
	}
	w.now = w.now.Add(w.reconcile().RequeueAfter)
	w.reconcile()
	if !w.gone() {
		t.Fatal("it is not gone")
	}
	var skipped []bool
	for _, r := range w.asked[1:] {
		skipped = append(skipped, r.SkipHooks)
	}
	if !slices.Equal(skipped, []bool{false, false, true, true, true}) || !w.asked[5].Orphan || w.asked[4].Orphan {
		t.Errorf("hooks skipped %v", skipped)
	}
	var said string
	for len(w.events.Events) > 0 {
		said += <-w.events.Events + "\n"
	}
	if !strings.Contains(said, "left in the cluster") || !strings.Contains(said, "ClusterRole.rbac.authorization.k8s.io redis") {
		t.Error(said)
	}
}

func TestX33ARecordThatSomebodyElseWroteUsesNobodysRights(t *testing.T) {
	outside := []helm.Object{{APIVersion: "v1", Kind: "ConfigMap", Name: "victim", Namespace: "other"}}
	forged := &helm.Result{Release: &helm.Release{Name: "cache", RecordDigest: "forged"}, Objects: outside}
	t.Run("a release of somebody else is not taken", func(t *testing.T) {
		w := newWorld(t)
		w.record = forged
		if got := w.add(nil); got.Status.State != v2.ReleaseFailed || !strings.HasPrefix(got.Status.Message, "409 ") || len(w.asked) != 0 {
			t.Errorf("%+v", got.Status)
		}
		w.remove()
		if len(w.asked) != 0 || !w.gone() {
			t.Errorf("%+v", w.asked)
		}
	})
	t.Run("an upgrade", func(t *testing.T) {
		w := newWorld(t)
		w.add(nil)
		w.record = forged
		got := w.change(func(r *v2.ApplicationRelease) { r.Spec.Values = nil })
		if got.Status.State != v2.ReleaseFailed || !strings.Contains(got.Status.Message, "changed by somebody else") || len(w.asked) != 1 {
			t.Errorf("%+v", got.Status)
		}
	})
	t.Run("a removal", func(t *testing.T) {
		w := newWorld(t)
		w.add(nil)
		w.record = forged
		w.remove()
		last := w.asked[len(w.asked)-1]
		if last.Operation != helm.Uninstall || !slices.Equal(last.Cluster.Groups, []string{"kapis:application-release:u-1"}) ||
			last.Cluster.User != "kapis:application-release" || !last.SkipHooks || last.RecordDigest != "forged" {
			t.Errorf("%+v", last)
		}
		want := []rbacv1.PolicyRule{{Verbs: []string{"delete", "get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"redis"}}}
		if fmt.Sprint(w.roles["web/kapis:application-release:cache"]) != fmt.Sprint(want) {
			t.Errorf("rights %v: only what was noted is the release's", w.roles)
		}
	})
	t.Run("a removal with other hooks", func(t *testing.T) { // whose objects are no part of any check
		w := newWorld(t)
		w.add(nil)
		w.record = &helm.Result{Release: deployed("hooks"), Objects: append(slices.Clone(w.applied),
			helm.Object{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding", Name: "root", Hook: true})}
		w.remove()
		if last := w.asked[len(w.asked)-1]; last.Operation != helm.Uninstall || !last.SkipHooks {
			t.Errorf("%+v", last)
		}
	})
	t.Run("a former revision", func(t *testing.T) { // which a removal of a failed one removes, too
		w := newWorld(t)
		w.add(nil)
		now := *w.record.Release
		now.Status, now.BaseDigest = "failed", "forged"
		w.record = &helm.Result{Release: &now, Objects: w.applied, Recorded: outside}
		w.remove()
		if last := w.asked[len(w.asked)-1]; last.Cluster.User != "kapis:application-release" || !last.SkipHooks {
			t.Errorf("%+v", last)
		}
	})
	for name, reason := range map[string]helm.Reason{"of another release": helm.ReasonInvalid, "that is gone": helm.ReasonNotFound} {
		t.Run("a removal with a record "+name, func(t *testing.T) {
			w := newWorld(t)
			w.applied = append(w.applied, helm.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "stays"},
				helm.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "elsewhere", Namespace: "other"})
			w.add(nil)
			const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q,"annotations":{"helm.sh/resource-policy":%q},
				"labels":{"application.kubesphere.io/app-release-name":"cache"}}}`
			w.put(configMaps, fmt.Sprintf(object, "redis", "web", ""))
			w.put(configMaps, fmt.Sprintf(object, "stays", "web", "keep"))
			w.put(configMaps, fmt.Sprintf(object, "elsewhere", "other", ""))
			w.r.Helm = unreadable{w, reason}
			w.remove()
			left, err := w.objects.Resource(configMaps).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(left.Items) != 2 || !w.gone() || len(w.asked) != 1 {
				t.Errorf("%v %v, %d operations", left, err, len(w.asked))
			}
			if want := "kapis:application-release [kapis:application-release:u-1]"; !slices.Equal(w.as, []string{want}) {
				t.Errorf("removed as %q", w.as)
			}
		})
	}
	t.Run("what Helm's CLI has changed within the namespace goes on", func(t *testing.T) {
		w := newWorld(t)
		w.add(nil)
		w.record = &helm.Result{Release: deployed("cli"), Objects: w.applied}
		if got := w.change(func(r *v2.ApplicationRelease) { r.Spec.Values = nil }); got.Status.State != v2.ReleaseUpgraded {
			t.Errorf("%+v", got.Status)
		}
		// It is neither believed that the operation is done, nor gone back to.
		if last := w.asked[1]; last.ID != "" || !last.KeepFailed || last.RecordDigest != "cli" || last.BaseDigest != "cli" {
			t.Errorf("%+v", last)
		}
		if w.inventory().RecordDigest != w.record.Release.RecordDigest {
			t.Error("the new record is not noted")
		}
	})
	t.Run("it does not become ours by an operation that fails", func(t *testing.T) {
		w := newWorld(t)
		w.add(nil)
		noted := w.inventory().RecordDigest
		w.record = &helm.Result{Release: deployed("forged"), Objects: w.applied}
		w.r.Helm = failing{w}
		got := w.change(func(r *v2.ApplicationRelease) { r.Spec.Values = nil })
		if got.Status.State != v2.ReleaseFailed || w.inventory().RecordDigest != noted {
			t.Errorf("%+v %+v", got.Status, w.inventory())
		}
	})
	t.Run("nor by one that wrote nothing on a record that looks begun", func(t *testing.T) {
		w := newWorld(t)
		w.add(nil)
		noted := w.inventory().RecordDigest
		half := &helm.Release{Name: "cache", Status: "failed", Revision: 2, RecordDigest: "forged", BaseDigest: noted, BaseDeployed: true}
		w.record = &helm.Result{Release: half, Objects: w.applied}
		w.r.Helm = failing{w}
		got := w.change(func(r *v2.ApplicationRelease) { r.Spec.Values = nil })
		if got.Status.State != v2.ReleaseFailed || w.inventory().RecordDigest != noted {
			t.Errorf("%+v %+v", got.Status, w.inventory())
		}
	})
	for name, now := range map[string]*helm.Release{
		"on another base":                 {Status: "pending-upgrade", BaseDigest: "forged", BaseDeployed: true},
		"on a base that is not deployed":  {Status: "failed", BaseDigest: "NOTED"},
		"that is deployed":                {Status: "deployed", BaseDigest: "forged", BaseDeployed: true},
		"that is superseded":              {Status: "superseded"},
		"that an uninstallation has left": {Status: "uninstalling", BaseDigest: "forged"},
	} {
		t.Run("an operation "+name+" is none that was begun here", func(t *testing.T) {
			w := newWorld(t)
			w.add(nil)
			if now.RecordDigest = "forged"; now.BaseDigest == "NOTED" {
				now.BaseDigest = w.inventory().RecordDigest
			}
			w.record = &helm.Result{Release: now, Objects: outside}
			got := w.change(func(r *v2.ApplicationRelease) { r.Spec.Values = nil })
			if got.Status.State != v2.ReleaseFailed || !strings.Contains(got.Status.Message, "changed by somebody else") || len(w.asked) != 1 {
				t.Errorf("%+v", got.Status)
			}
		})
	}
}

func deployed(digest string) *helm.Release {
	return &helm.Release{Name: "cache", Status: "deployed", Revision: 1, RecordDigest: digest, BaseDigest: digest, BaseDeployed: true}
}

// unreadable is a Helm that finds no record of the release.
type unreadable struct {
	*world
	reason helm.Reason
}

func (u unreadable) Run(ctx context.Context, r helm.Request, e func(helm.Event)) (*helm.Result, error) {
	if r.Operation == helm.Status {
		return nil, &helm.Error{Reason: u.reason, Message: "no record"}
	}
	return u.world.Run(ctx, r, e)
}

// failing is a Helm whose operations fail before they write anything.
type failing struct{ *world }

func (f failing) Run(ctx context.Context, r helm.Request, e func(helm.Event)) (*helm.Result, error) {
	if r.Operation == helm.Status {
		return f.world.Run(ctx, r, e)
	}
	return f.record, &helm.Error{Reason: helm.ReasonRender, Message: "a template fails"}
}

func TestX39WhatAnEarlierInstallationInstalledIsAdopted(t *testing.T) {
	w := newWorld(t)
	w.record = &helm.Result{Release: deployed("theirs"), Objects: w.applied}
	got := w.add(earlier(v2.ReleaseActive))
	if got.Status.State != v2.ReleaseActive || len(w.asked) != 0 || w.inventory() == nil || w.inventory().RecordDigest != "theirs" {
		t.Fatalf("%+v, %d operations, %+v", got.Status, len(w.asked), w.inventory())
	}
	got = w.change(func(r *v2.ApplicationRelease) {
		r.Annotations, r.Spec.Values = map[string]string{v2.AnnotationUser: "bob"}, nil
	})
	if got.Status.State != v2.ReleaseUpgraded || len(w.asked) != 1 {
		t.Errorf("%+v", got.Status)
	}
}

const documents = `apiVersion: v1
kind: ConfigMap
metadata: {name: one, namespace: kube-system, ownerReferences: [{apiVersion: v1, kind: Node, name: n, uid: u}], finalizers: [a.example/b]}
data: {a: b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two}
`

// yamlWorld is a world whose version consists of documents.
func yamlWorld(t *testing.T, text string) *world {
	t.Helper()
	v := version("redis-y", "shop", v2.StateActive)
	v.Spec.AppType = v2.TypeYAML
	w := newWorld(t, v)
	w.pack = []byte(text)
	return w
}

func ofYAML(values string) func(*v2.ApplicationRelease) {
	return func(r *v2.ApplicationRelease) {
		r.Spec.AppVersionID, r.Spec.AppType, r.Spec.Values = "redis-y", v2.TypeYAML, nil
		if values != "" {
			r.Spec.Values = &apiextensionsv1.JSON{Raw: fmt.Appendf(nil, "%q", values)}
		}
	}
}

func TestX34DocumentsStayInTheirNamespaceAndArePruned(t *testing.T) {
	w := yamlWorld(t, documents)
	w.put(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bystander","namespace":"web"}}`)
	if got := w.add(ofYAML("")); got.Status.State != v2.ReleaseCreated {
		t.Fatalf("%+v", got.Status)
	}
	if has := w.has("web"); !slices.Equal(has, []string{"bystander", "one", "two"}) || len(w.has("kube-system")) != 0 {
		t.Errorf("%q %q", has, w.has("kube-system"))
	}
	one, err := w.objects.Resource(configMaps).Namespace("web").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil || one.GetLabels()[v2.LabelRelease] != "cache" || len(one.GetOwnerReferences())+len(one.GetFinalizers()) > 0 {
		t.Errorf("%v %v", one, err)
	}
	if want := []string{"bob [dev]"}; !slices.Equal(w.as, want) || len(w.asked) != 0 {
		t.Errorf("written as %q", w.as)
	}
	w.reconcile()
	if got := w.get(); got.Status.State != v2.ReleaseActive {
		t.Errorf("%+v", got.Status)
	}
	got := w.change(ofYAML(strings.Replace(documents, "name: two", "name: three", 1)))
	if has := w.has("web"); got.Status.State != v2.ReleaseUpgraded || !slices.Equal(has, []string{"bystander", "one", "three"}) {
		t.Errorf("%+v %q", got.Status, has)
	}
	w.remove()
	if has := w.has("web"); !w.gone() || !slices.Equal(has, []string{"bystander"}) {
		t.Errorf("after the removal %q", has)
	}
	if len(w.granted) == 0 || !strings.HasSuffix(w.as[len(w.as)-1], "[dev kapis:application-release:u-1]") {
		t.Errorf("removed as %q", w.as)
	}
}

// X34: documents with another version of a kind have the same objects, of which none goes.
func TestX34AnotherVersionOfAKindIsTheSameObject(t *testing.T) {
	thing := func(version string) string {
		return "apiVersion: a.example/" + version + "\nkind: Thing\nmetadata: {name: orders}\n"
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, version := range []string{"v1beta1", "v1"} {
		mapper.Add(schema.GroupVersionKind{Group: "a.example", Version: version, Kind: "Thing"}, meta.RESTScopeNamespace)
	}
	twice := yamlWorld(t, thing("v1beta1")+"---\n"+thing("v1"))
	twice.r.Mapper = mapper
	if got := twice.add(ofYAML("")); got.Status.State != v2.ReleaseFailed || !strings.Contains(got.Status.Message, "twice") {
		t.Errorf("%+v", got.Status)
	}
	w := yamlWorld(t, thing("v1beta1"))
	w.r.Mapper = mapper
	if got := w.add(ofYAML("")); got.Status.State != v2.ReleaseCreated {
		t.Fatalf("%+v", got.Status)
	}
	got := w.change(ofYAML(thing("v1")))
	for _, a := range w.objects.Actions() {
		if a.GetVerb() == "delete" {
			t.Errorf("%s is deleted", a.GetResource())
		}
	}
	if now := w.inventory().Objects; got.Status.State != v2.ReleaseUpgraded || len(now) != 1 || now[0].Version != "v1" {
		t.Errorf("%+v, noted %+v", got.Status, now)
	}
}

// X33: what an attempt made that failed goes once another one has succeeded that does not have it, as the author. What is another's stays.
func TestX33WhatAFailedAttemptMadeGoes(t *testing.T) {
	w := newWorld(t)
	made := w.applied
	for _, name := range []string{"left", "theirs", "never-made"} {
		w.applied = append(w.applied, helm.Object{APIVersion: "v1", Kind: "ConfigMap", Name: name})
	}
	w.fails, w.leavesRecord = []error{&helm.Error{Reason: helm.ReasonFailed, Message: "half of it is there"}}, true
	if got := w.add(nil); got.Status.State != v2.ReleaseFailed || len(w.inventory().Objects) != 4 {
		t.Fatalf("%+v %+v", got.Status, w.inventory())
	}
	of := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s","namespace":"web","labels":{"` + v2.LabelRelease + `":"%s"}}}`
	w.put(configMaps, fmt.Sprintf(of, "left", "cache"))
	w.put(configMaps, fmt.Sprintf(of, "theirs", "other"))
	w.applied = made
	got := w.change(func(r *v2.ApplicationRelease) { r.Annotations[v2.AnnotationRetry] = "1" })
	if has := w.has("web"); !slices.Equal(has, []string{"theirs"}) || len(w.inventory().Objects) != 1 || !slices.Equal(w.as, []string{"bob [dev]"}) {
		t.Errorf("%s: there are %q, noted %+v, as %q", got.Status.State, has, w.inventory(), w.as)
	}
}

// X33: a rollback removes what its own attempt has made; what one before has left stays noted, and goes once another one has succeeded.
func TestX33ARollbackForgetsNothingOfAnEarlierAttempt(t *testing.T) {
	w := newWorld(t)
	w.add(nil)
	made := w.applied
	upgrade := func(retry string, objects []helm.Object, fails ...error) {
		w.applied, w.fails = objects, fails
		w.change(func(r *v2.ApplicationRelease) { r.Annotations[v2.AnnotationRetry] = retry })
	}
	half := &helm.Error{Reason: helm.ReasonFailed, Message: "half of it is there"}
	w.leavesRecord = true
	upgrade("1", append(made[:1:1], helm.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "left"}), half)
	w.put(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"left","namespace":"web","labels":{"`+v2.LabelRelease+`":"cache"}}}`)
	w.rollsBack = true
	upgrade("2", made, half)
	if got := w.get(); got.Status.State != v2.ReleaseFailed || len(w.asked) != 3 || len(w.inventory().Objects) != 2 {
		t.Errorf("%+v after %d operations, noted %+v", got.Status, len(w.asked), w.inventory())
	}
	upgrade("3", made)
	if has := w.has("web"); len(has) > 0 || len(w.inventory().Objects) != 1 {
		t.Errorf("there are %q, noted %+v", has, w.inventory())
	}
}

func TestX34WhatTheVersionHasNotIsRefused(t *testing.T) {
	role := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: root}\n"
	for name, c := range map[string]struct{ file, values, says string }{
		"another kind":              {documents, strings.Replace(documents, "kind: ConfigMap", "kind: Secret", 1), "by kind and number"},
		"one more":                  {documents, documents + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", "by kind and number"},
		"one twice":                 {documents, strings.Replace(documents, "name: two", "name: one", 1), "twice"},
		"an object of the cluster":  {role, "", "object of the cluster"},
		"a list":                    {documents, "apiVersion: v1\nkind: List\nitems: []\n", "is a list"},
		"no YAML":                   {documents, "\t{", "no YAML"},
		"no name":                   {"apiVersion: v1\nkind: ConfigMap\n", "", "metadata.name"},
		"a kind that there is not":  {"apiVersion: a.example/v1\nkind: Thing\nmetadata: {name: x}\n", "", "no kind Thing"},
		"nothing":                   {"# empty\n", "", "no objects"},
		"a file of too many things": {strings.Repeat("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\n", 201), "", "more than 200"},
	} {
		t.Run(name, func(t *testing.T) {
			w := yamlWorld(t, c.file)
			got := w.add(ofYAML(c.values))
			if got.Status.State != v2.ReleaseFailed || !strings.Contains(got.Status.Message, c.says) || len(w.has("web")) != 0 {
				t.Errorf("%+v %q", got.Status, w.has("web"))
			}
		})
	}
}

func TestX34AnObjectOfSomebodyElseIsNotTaken(t *testing.T) {
	w := yamlWorld(t, documents)
	w.put(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"two","namespace":"web"},"data":{"mine":"yes"}}`)
	if got := w.add(ofYAML("")); got.Status.State != v2.ReleaseFailed || !strings.Contains(got.Status.Message, "not this release's") {
		t.Errorf("%+v", got.Status)
	}
	w.remove()
	if has := w.has("web"); !w.gone() || !slices.Equal(has, []string{"two"}) {
		t.Errorf("%q", has)
	}
}

// X33: a quota that is exceeded is said to be one, and not a right that is missing; it may be free again later.
func TestX33AQuotaIsNoMissingRight(t *testing.T) {
	w := yamlWorld(t, documents)
	over := errors.New("exceeded quota: shop, requested: count/configmaps=1, used: count/configmaps=9, limited: count/configmaps=9")
	w.fails = []error{apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "one", over)}
	got := w.add(ofYAML(""))
	if s := got.Status; s.State != v2.ReleaseFailed || !strings.Contains(s.Message, "exceeded quota: shop") || strings.Contains(s.Message, "right") {
		t.Errorf("%+v", s)
	}
	w.now = w.now.Add(w.reconcile().RequeueAfter)
	if w.reconcile(); w.get().Status.State == v2.ReleaseFailed || !slices.Equal(w.has("web"), []string{"one", "two"}) {
		t.Errorf("it is not tried again: %+v", w.get().Status)
	}
}

func TestX40NoStatusSaysWhatAnObjectHas(t *testing.T) {
	const canary = "hunter2-canary"
	w := yamlWorld(t, documents)
	bad := field.ErrorList{field.Invalid(field.NewPath("data"), canary, "is bad "+canary)}
	w.fails = []error{apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "one", bad)}
	got := w.add(ofYAML(""))
	said := got.Status.Message
	for len(w.events.Events) > 0 {
		said += <-w.events.Events
	}
	if got.Status.State != v2.ReleaseFailed || strings.Contains(said, canary) || !strings.Contains(said, "data") ||
		!strings.Contains(said, fmt.Sprint(http.StatusUnprocessableEntity)) {
		t.Error(said)
	}
}
