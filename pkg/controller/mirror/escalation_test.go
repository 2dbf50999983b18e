package mirror

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/rbac"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

var (
	someVerbs     = []string{"*", "get", "create", "escalate", "bind", "impersonate", "impersonate:user-info", "anything"}
	someGroups    = []string{"*", "", "apps", rbacv1.GroupName, iamv1beta1.GroupName, "authentication.k8s.io"}
	someResources = []string{"*", "*/scopes", "pods", "roles", "globalroles", "users", "serviceaccounts", "groups", "nodes", "userextras/scopes"}
)

// someOf returns up to n of list, at least one.
func someOf(r *rand.Rand, list []string, n int) []string {
	out := make([]string, 1+r.IntN(n))
	for i := range out {
		out[i] = list[r.IntN(len(list))]
	}
	return out
}

func someRule(r *rand.Rand) rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{Verbs: someOf(r, someVerbs, 2), APIGroups: someOf(r, someGroups, 2), Resources: someOf(r, someResources, 2)}
	if r.IntN(4) == 0 {
		rule.ResourceNames = someOf(r, []string{"a", "b"}, 2)
	}
	return rule
}

// edited returns a changed rule, which may give less or more than before.
func edited(r *rand.Rand, rule rbacv1.PolicyRule) rbacv1.PolicyRule {
	for range 1 + r.IntN(2) {
		switch r.IntN(4) {
		case 0:
			rule.Verbs = someOf(r, someVerbs, 2)
		case 1:
			rule.APIGroups = someOf(r, someGroups, 1)
		case 2:
			rule.Resources = someOf(r, someResources, 1)
		case 3:
			rule.ResourceNames = someOf(r, []string{"a", "b"}, 1)
		}
	}
	return rule
}

// holder returns an index in which "u" is bound to one role of a scope, with these rules.
func holder(t *testing.T, at authz.BindingScope, rules []rbacv1.PolicyRule) *rbac.Index {
	t.Helper()
	x, err := rbac.NewIndex()
	if err != nil {
		t.Fatal(err)
	}
	role, kind, name := "globalroles", iamv1beta1.KindGlobalRole, "globalrolebindings"
	if at.Scope == request.Namespace {
		role, kind, name = "roles", iamv1beta1.KindRole, "rolebindings"
	}
	for gvr, sink := range x.Sinks() {
		var object any
		switch gvr.Resource {
		case role:
			object = map[string]any{"rules": rules}
		case name:
			object = map[string]any{"roleRef": map[string]any{"kind": kind, "name": "o"}, "subjects": []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "u"}}}
		default:
			continue
		}
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		sink.Set(&store.Object{Namespace: at.Namespace, Name: "o", Raw: raw})
	}
	return x
}

// S6: when a user writes into a role whatever their own rights allow, kube-apiserver gives them nothing new: no ordinary request, and on
// the kinds with verbs that lift a check or lend an identity, no verb at all.
func TestS6WhatMayBeWrittenMirrorsNothingNew(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 28))
	u := &user.DefaultInfo{Name: "u"}
	permitted := 0
	for n := range 6000 {
		at := authz.BindingScope{}
		if n%2 == 0 {
			at = authz.BindingScope{Scope: request.Namespace, Namespace: "p"}
		}
		held := []rbacv1.PolicyRule{someRule(r), someRule(r)}
		wanted := []rbacv1.PolicyRule{edited(r, held[r.IntN(2)])}
		if len(holder(t, at, held).Missing(u, at, wanted)) > 0 {
			continue
		}
		permitted++
		before, after := nativeRules(held, at.Scope == request.Namespace), nativeRules(wanted, at.Scope == request.Namespace)
		if more := gained(before, after); more != "" {
			t.Fatalf("who holds %v may write %v, and gains: %s", held, wanted, more)
		}
	}
	if permitted < 1000 {
		t.Errorf("only %d of the edits were permitted: the test shows little", permitted)
	}
}

// gained returns a right that after gives and before does not.
func gained(before, after []rbacv1.PolicyRule) string {
	more := func(verb, group, resource string) string {
		for _, name := range []string{"", "a", "c"} {
			if nativelyAllows(after, verb, group, resource, name) && !nativelyAllows(before, verb, group, resource, name) {
				return fmt.Sprintf("%s %s/%s %q", verb, group, resource, name)
			}
		}
		return ""
	}
	for _, verb := range slices.Concat([]string{"escalate", "bind", "impersonate", "impersonate:user-info", "anything"}, ordinaryVerbs) {
		for group, kinds := range lifting {
			for _, kind := range kinds {
				if out := more(verb, group, kind); out != "" {
					return out
				}
			}
		}
	}
	for _, verb := range ordinaryVerbs {
		for _, group := range []string{"", "apps", "example.com"} {
			for _, resource := range []string{"pods", "roles", "things/scopes"} {
				if out := more(verb, group, resource); out != "" {
					return out
				}
			}
		}
	}
	return ""
}
