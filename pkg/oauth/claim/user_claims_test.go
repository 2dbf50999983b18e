package claim_test

import (
	"slices"
	"testing"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/claim"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
)

// S6: a client that takes somebody for its administrator by a group does not do so by a Group that a workspace has made.
func TestClientsAreToldNoGroupsOfWorkspaces(t *testing.T) {
	clients, err := client.NewRegistry(nil, nil, session.Lifetime{})
	if err != nil {
		t.Fatal(err)
	}
	s := &claim.Source{Clients: clients, GroupsOf: func(u *iam.User) []string {
		return slices.DeleteFunc(slices.Clone(u.Groups), func(g string) bool { return g == "argocd-admins" })
	}}
	u := &iam.User{Name: "ann", UID: "uid-ann", Groups: []string{"dev", "argocd-admins"}}
	of := func(reported ...string) []string {
		return s.Of(&session.Session{Groups: reported}, u, []string{client.ScopeGroups}).Groups
	}
	if got := of("dev", "staff"); !slices.Equal(got, []string{"dev", "staff"}) {
		t.Errorf("%q", got)
	}
	if got := of("argocd-admins"); !slices.Equal(got, []string{"dev", "argocd-admins"}) {
		t.Errorf("the provider reports it: %q", got)
	}
	if s.GroupsOf = nil; !slices.Equal(of(), u.Groups) {
		t.Errorf("%q", of())
	}
}
