package mirror_test

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/mirror"
	"kapis.dev/ks-apiserver/pkg/controller/mirror/mirrortest"
)

// left returns what the mirror of an earlier installation made of a role and its bindings to users.
func left(namespace, name string, people ...string) []client.Object {
	all := []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	out := []client.Object{&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kubesphere:iam:" + name}, Rules: all}}
	for _, p := range people {
		out = append(out, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kubesphere:iam:" + p + "-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "kubesphere:iam:" + name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: p}},
		})
	}
	return out
}

func viewer() []client.Object {
	return []client.Object{
		&iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "viewer"},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}}},
		&iamv1beta1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "ann-viewer"},
			RoleRef: rbacv1.RoleRef{Kind: iamv1beta1.KindRole, Name: "viewer"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}}},
	}
}

func may(user, verb, resource string) mirrortest.Request {
	return mirrortest.Request{User: user, Verb: verb, Resource: resource, Namespace: "p"}
}

// S9: a binding of the earlier installation that is gone from iam gives nothing any more, and neither does a role.
func TestWhatAnEarlierMirrorLeftBecomesWhatTheRolesSay(t *testing.T) {
	objects := append(viewer(), left("p", "viewer", "ann", "gone")...)
	f := mirrortest.New(t, kindOf("Role"), append(objects, left("p", "deleted", "eve")...)...)
	e := &mirror.LegacyAdoption{Client: f.Client, Live: f.Client}
	if n, err := e.Adopt(context.Background()); err != nil || n != 5 {
		t.Fatalf("took over %d: %v", n, err)
	}
	f.Reconcile("p", "viewer")
	f.Reconcile("p", "deleted")
	for r, want := range map[*mirrortest.Request]bool{
		new(may("ann", "list", "pods")):    true,
		new(may("ann", "list", "secrets")): false,
		new(may("gone", "list", "pods")):   false,
		new(may("eve", "list", "pods")):    false,
	} {
		if got := f.Allowed(*r); got != want {
			t.Errorf("%+v: %t, want %t", *r, got, want)
		}
	}
	if n := f.Natives(); n != 2 {
		t.Errorf("%d native objects, want a role and a binding", n)
	}
	if n, err := e.Adopt(context.Background()); err != nil || n != 0 {
		t.Errorf("a second time it took over %d: %v", n, err)
	}
}

func TestAnEarlierMirrorsRoleIsNoStrangers(t *testing.T) {
	f := mirrortest.New(t, kindOf("Role"), append(viewer(), left("p", "viewer")...)...)
	f.Reconcile("p", "viewer") // before it was adopted
	if !f.Allowed(may("ann", "list", "pods")) || f.Allowed(may("ann", "list", "secrets")) {
		t.Error("the role is not what iam says")
	}
	select {
	case e := <-f.Events:
		t.Errorf("an event: %s", e)
	default:
	}
}

func TestOnlyWhatAnEarlierMirrorLeftIsTakenOver(t *testing.T) {
	bound := func(name, kind, role string, labels map[string]string) client.Object {
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
		}
	}
	for claim, c := range map[string]struct {
		object client.Object
		want   int
	}{
		"ABindingOfTheMirror":            {bound("kubesphere:iam:ann", "ClusterRole", "kubesphere:iam:viewer", nil), 1},
		"ABindingOfAnotherRoleStays":     {bound("kubesphere:iam:ann", "ClusterRole", "cluster-admin", nil), 0},
		"ABindingOfAnotherNameStays":     {bound("ann-cluster-admin", "ClusterRole", "kubesphere:iam:viewer", nil), 0},
		"WhatSomebodyManagesStays":       {bound("kubesphere:iam:ann", "ClusterRole", "kubesphere:iam:viewer", map[string]string{iamv1beta1.LabelManagedBy: "Helm"}), 0},
		"ANameOfOursStaysWithoutItsMark": {&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kubesphere:iam:global:viewer"}}, 0},
		"ANamelessOneStays":              {&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kubesphere:iam:"}}, 0},
		"AnotherClusterRoleStays":        {&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kubesphere:ks-controller-manager"}}, 0},
	} {
		t.Run(claim, func(t *testing.T) {
			f := mirrortest.New(t, kindOf("Role"), c.object)
			if n, err := (&mirror.LegacyAdoption{Client: f.Client, Live: f.Client}).Adopt(context.Background()); err != nil || n != c.want {
				t.Errorf("took over %d, want %d: %v", n, c.want, err)
			}
		})
	}
}
