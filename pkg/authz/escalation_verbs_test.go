package authz_test

import (
	"slices"
	"testing"

	"kapis.dev/ks-apiserver/pkg/authz"
)

func TestS6VerbsThatLiftAChecksNeedTheirName(t *testing.T) {
	const rbac, authn, iam = "rbac.authorization.k8s.io", "authentication.k8s.io", "iam.kubesphere.io"
	for _, c := range []struct {
		claim, verb, group, resource string
		needs                        bool
	}{
		{"AStarIsAStar", "*", iam, "globalroles", false},
		{"OrdinaryVerbs", "deletecollection", iam, "globalroles", false},
		{"Escalate", "escalate", iam, "globalroles", true},
		{"EscalateAnywhere", "escalate", "example.com", "things", true},
		{"BindOfUsers", "bind", iam, "users", true},
		{"BindOfNativeRoles", "bind", rbac, "clusterroles", true},
		{"Impersonate", "impersonate", "", "users", true},
		{"ImpersonateInAMode", "impersonate:serviceaccount", authn, "serviceaccounts", true},
		{"ImpersonateOnAnything", "impersonate-on:user-info:list", "apps", "deployments", true},
		{"WhateverElseSuchKindsHave", "lend", authn, "uids", true},
		{"ByAnyGroup", "lend", "*", "users", true},
		{"ByAnyResource", "lend", "", "*", true},
		{"ExtrasByTheirKey", "lend", authn, "userextras/scopes", true},
		{"ExtrasByAnyKind", "lend", authn, "*/scopes", true},
		{"ExtrasByAnyGroup", "lend", "*", "*/scopes", true},
		{"SubresourcesHaveNone", "lend", iam, "users/password", false},
		{"ApproveOfInstallations", "approve", "kubesphere.io", "installplans", true},
		{"OtherKindsHaveNone", "approve", "certificates.k8s.io", "signers", false},
		{"OtherGroupsHaveNone", "approve", "apps", "*", false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if got := authz.NeedsName(c.verb, c.group, c.resource); got != c.needs {
				t.Errorf("%v", got)
			}
		})
	}
	verbs := authz.OrdinaryVerbs()
	verbs[0] = "escalate"
	if slices.Contains(authz.OrdinaryVerbs(), "escalate") {
		t.Error("whoever is given the verbs can change them")
	}
}
