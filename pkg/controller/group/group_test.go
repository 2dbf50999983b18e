package group

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
)

func group(name string) *iamv1beta1.Group {
	return &iamv1beta1.Group{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func binding(name, group string, users ...string) *iamv1beta1.GroupBinding {
	return &iamv1beta1.GroupBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		GroupRef:   iamv1beta1.GroupRef{APIGroup: iamv1beta1.GroupName, Kind: "Group", Name: group},
		Users:      users,
	}
}

func person(name string, groups ...string) *iamv1beta1.User {
	return &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: iamv1beta1.UserSpec{Groups: groups}}
}

func subject(kind, name string) rbacv1.Subject { return rbacv1.Subject{Kind: kind, Name: name} }

type fixture struct {
	*controllertest.Cluster
	groups  *Reconciler
	members *Members
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	if !slices.ContainsFunc(objects, func(o client.Object) bool { return o.GetName() == definition }) {
		objects = append(objects, controllertest.Definition(definition, false))
	}
	c := controllertest.New(t, func(b *fake.ClientBuilder) {
		for _, k := range bindings() {
			b.WithIndex(k.empty, groupField, groupsOf)
		}
		b.WithIndex(&iamv1beta1.GroupBinding{}, boundField, boundGroup).WithIndex(&iamv1beta1.GroupBinding{}, userField, boundUsers)
	}, objects...)
	return &fixture{c, &Reconciler{Client: c.Client, Live: c.Client}, &Members{Client: c.Client}}
}

func (f *fixture) in(user string) []string {
	f.T.Helper()
	f.Reconcile(f.members, user)
	u := person(user)
	f.Has(u)
	return u.Spec.Groups
}

func TestU33AGroupBindingPutsItsUsersInTheGroup(t *testing.T) {
	f := newFixture(
		t,
		group("devs"),
		group("ops"),
		binding("a", "devs", "ann", "bob"),
		binding("b", "ops", "ann"),
		binding("c", "devs", "ann"),
		person("ann", "own"),
		person("bob"),
		person("eve"),
	)
	for user, want := range map[string][]string{"ann": {"own", "devs", "ops"}, "bob": {"devs"}, "eve": nil} {
		if got := f.in(user); !slices.Equal(got, want) {
			t.Errorf("%s is in %v, want %v", user, got, want)
		}
		if n := f.Written(func() { f.in(user) }); n != 0 {
			t.Errorf("%s: a second time wrote %d times", user, n)
		}
	}
}

func TestS9WhoIsTakenOutOfAGroupIsOut(t *testing.T) {
	for claim, c := range map[string]struct {
		do   func(*fixture)
		want []string
	}{
		"TheBindingIsDeleted":       {func(f *fixture) { f.Delete(binding("a", "")) }, []string{"own"}},
		"TheUserIsTakenOutOfIt":     {func(f *fixture) { f.Patch(binding("a", ""), `{"users":["bob"]}`) }, []string{"own"}},
		"TheGroupIsDeleted":         {func(f *fixture) { f.Delete(group("devs")) }, []string{"own"}},
		"AnotherBindingSaysTheSame": {func(f *fixture) { f.Create(binding("b", "devs", "ann")); f.Delete(binding("a", "")) }, []string{"own", "devs"}},
		"WhatSomebodyWroteStays": {func(f *fixture) {
			f.Patch(person("ann"), `{"spec":{"groups":["own","new","devs"]}}`)
			f.Delete(binding("a", ""))
		}, []string{"own", "new"}},
		"WhatSomebodyCutOutComesBack": {func(f *fixture) { f.Patch(person("ann"), `{"spec":{"groups":[]}}`) }, []string{"devs"}},
		"ABindingThatIsGoingIsGone": {func(f *fixture) {
			f.Patch(binding("a", ""), `{"metadata":{"finalizers":["x.example.com/y"]}}`)
			f.Delete(binding("a", ""))
		}, []string{"own"}},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFixture(t, group("devs"), binding("a", "devs", "ann"), person("ann", "own"))
			f.in("ann")
			c.do(f)
			if got := f.in("ann"); !slices.Equal(got, c.want) {
				t.Errorf("in %v, want %v", got, c.want)
			}
		})
	}
}

// S6: a binding gives no one a system group, or a group that does not exist.
func TestS6SomeGroupsAreNotGiven(t *testing.T) {
	other := binding("d", "devs", "ann")
	other.GroupRef.Kind = "Role"
	f := newFixture(t, group("system:masters"), group("kapis:global:platform-admin"), group("devs"), person("ann"),
		binding("a", "system:masters", "ann"), binding("b", "kapis:global:platform-admin", "ann"), binding("c", "nowhere", "ann"), other, binding("e", "", "ann"))
	if got := f.in("ann"); len(got) != 0 {
		t.Errorf("ann is in %v", got)
	}
}

// S9: a recreated group must not get the rights of its predecessor.
func TestS9WhatAGroupWasGivenGoesWithIt(t *testing.T) {
	f := newFixture(
		t,
		group("devs"),
		binding("a", "devs", "ann"),
		binding("b", "ops", "ann"),
		&iamv1beta1.GlobalRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "both"},
			Subjects:   []rbacv1.Subject{subject("Group", "devs"), subject("User", "devs"), subject("Group", "ops")},
		},
		&iamv1beta1.WorkspaceRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "alone"}, Subjects: []rbacv1.Subject{subject("Group", "devs")}},
		&iamv1beta1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Subjects: []rbacv1.Subject{subject("Group", "ops")}},
		&iamv1beta1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "alone"}, Subjects: []rbacv1.Subject{subject("Group", "devs")}},
	)
	f.Reconcile(f.groups, "devs")
	f.Delete(group("devs"))
	f.Reconcile(f.groups, "devs")
	both := &iamv1beta1.GlobalRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "both"}}
	if !f.Has(both) || !slices.Equal(both.Subjects, []rbacv1.Subject{subject("User", "devs"), subject("Group", "ops")}) {
		t.Errorf("the shared binding has %v", both.Subjects)
	}
	for _, o := range []client.Object{
		group("devs"), binding("a", ""), &iamv1beta1.WorkspaceRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "alone"}},
		&iamv1beta1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "alone"}},
	} {
		if f.Has(o) {
			t.Errorf("%T %s is left", o, o.GetName())
		}
	}
	if !f.Has(binding("b", "")) || !f.Has(&iamv1beta1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "other"}}) {
		t.Error("what another group has is gone")
	}
}

// A group of a workspace that has the name of an identity provider's group takes nothing from that one when it is deleted.
func TestAGroupOfAWorkspaceTakesWhatIsItsOwn(t *testing.T) {
	of := func(o client.Object, workspace string) client.Object {
		o.SetLabels(map[string]string{tenantv1beta1.LabelWorkspace: workspace})
		return o
	}
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	devs := []rbacv1.Subject{subject("Group", "devs")}
	goes := []client.Object{
		of(&iamv1beta1.WorkspaceRoleBinding{ObjectMeta: named("", "here"), Subjects: devs}, "w"),
		&iamv1beta1.RoleBinding{ObjectMeta: named("here", "b"), Subjects: devs},
		&iamv1beta1.RoleBinding{ObjectMeta: named("left", "b"), Subjects: devs},
		&iamv1beta1.RoleBinding{ObjectMeta: named("gone", "b"), Subjects: devs},
	}
	stays := []client.Object{
		&iamv1beta1.GlobalRoleBinding{ObjectMeta: named("", "b"), Subjects: devs},
		&iamv1beta1.ClusterRoleBinding{ObjectMeta: named("", "b"), Subjects: devs},
		of(&iamv1beta1.WorkspaceRoleBinding{ObjectMeta: named("", "there"), Subjects: devs}, "v"),
		&iamv1beta1.WorkspaceRoleBinding{ObjectMeta: named("", "nowhere"), Subjects: devs},
		&iamv1beta1.RoleBinding{ObjectMeta: named("there", "b"), Subjects: devs},
	}
	f := newFixture(t, append(
		slices.Concat(goes, stays),
		of(group("devs"), "w"),
		of(
			&corev1.Namespace{ObjectMeta: named("", "here")},
			"w",
		),
		of(&corev1.Namespace{ObjectMeta: named("", "there")}, "v"),
		&corev1.Namespace{ObjectMeta: named("", "left")},
	)...)
	f.Reconcile(f.groups, "devs")
	f.Delete(group("devs"))
	f.Reconcile(f.groups, "devs")
	if f.Has(group("devs")) {
		t.Error("the group is held")
	}
	for _, o := range goes {
		if f.Has(o) {
			t.Errorf("%T %s/%s is left", o, o.GetNamespace(), o.GetName())
		}
	}
	for _, o := range stays {
		if !f.Has(o) {
			t.Errorf("%T %s/%s is gone", o, o.GetNamespace(), o.GetName())
		}
	}
}

func TestADeletedDefinitionTakesNoBinding(t *testing.T) { // U50
	b := &iamv1beta1.WorkspaceRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "alone"}, Subjects: []rbacv1.Subject{subject("Group", "devs")}}
	f := newFixture(t, group("devs"), b, controllertest.Definition(definition, true))
	f.Reconcile(f.groups, "devs")
	f.Delete(group("devs"))
	f.Reconcile(f.groups, "devs")
	if f.Has(group("devs")) || !f.Has(b) {
		t.Error("the group is held, or its binding went")
	}
}

func TestTheFinalizerOfOlderInstallationsHoldsNothing(t *testing.T) {
	b := binding("a", "gone", "ann")
	b.Finalizers = []string{iamv1beta1.FinalizerGroupBinding}
	f := newFixture(t, b)
	f.Delete(binding("a", ""))
	f.Reconcile(f.groups, "gone")
	if f.Has(binding("a", "")) {
		t.Error("the binding is held")
	}
}

func TestWhatTouchesWhom(t *testing.T) {
	f := newFixture(t, binding("a", "devs", "bob", "ann", "ann"), binding("b", "ops", "eve"))
	var users []string
	for _, r := range f.members.inGroup(context.Background(), group("devs")) {
		users = append(users, r.Name)
	}
	if !slices.Equal(users, []string{"ann", "bob"}) {
		t.Errorf("a group touches %v", users)
	}
	if got := toGroup(context.Background(), binding("a", "devs")); len(got) != 1 || got[0].Name != "devs" {
		t.Errorf("a binding touches %v", got)
	}
	if got := toGroup(context.Background(), binding("a", "")); got != nil {
		t.Errorf("a binding of no group touches %v", got)
	}
}
