package mirror

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// say returns rules in one line: verbs on group/resource [names].
func say(rules []rbacv1.PolicyRule) string {
	var out []string
	for _, r := range rules {
		s := strings.Join(r.Verbs, ",") + " " + strings.Join(r.APIGroups, ",") + "/" + strings.Join(r.Resources, ",")
		if len(r.ResourceNames) > 0 {
			s += fmt.Sprint(" ", r.ResourceNames)
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

func TestWhatRulesImply(t *testing.T) {
	const iam, tenant = "iam.kubesphere.io", "tenant.kubesphere.io"
	rule := func(r rbacv1.PolicyRule) []rbacv1.PolicyRule { return []rbacv1.PolicyRule{r} }
	for name, c := range map[string]struct {
		rules       []rbacv1.PolicyRule
		in          reach
		conditional bool
		want        string
	}{
		"AnInvitationIsABinding": {rules: rule(ruleOf("create", iam, "workspacemembers")), in: workspace,
			want: "create iam.kubesphere.io/workspacerolebindings"},
		"AChangedMembershipIsAnotherOne": {rules: rule(ruleOf("update", iam, "workspacemembers")), in: workspace,
			want: "get,create,update,patch,delete iam.kubesphere.io/workspacerolebindings"},
		"ARemovalDeletes": {rules: rule(ruleOf("delete", iam, "clustermembers")), in: platform,
			want: "get,update,patch,delete iam.kubesphere.io/clusterrolebindings"},
		"ReadingMembersReadsBindings": {rules: rule(ruleOf("get,list,watch", iam, "namespacemembers")), in: namespaces,
			want: "get,list iam.kubesphere.io/rolebindings"},
		"AllVerbsAreTheOrdinaryOnes": {rules: rule(ruleOf("*", "*", "namespacemembers")), in: namespaces,
			want: "get,list,create,update,patch,delete iam.kubesphere.io/rolebindings"},
		"NamesOfMembersAreNoNamesThere":    {rules: rule(ruleOf("*", iam, "workspacemembers", "ann")), in: workspace},
		"AnotherGroupsMembersAreNothing":   {rules: rule(ruleOf("*", "example.com", "workspacemembers")), in: workspace},
		"AVerbOfItsOwnIsNothing":           {rules: rule(ruleOf("bind,escalate,impersonate", "*", "*")), in: workspace},
		"WithoutVerbsNothing":              {rules: rule(rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}}), in: workspace},
		"MembersOfAWorkspaceAreInNoPlaces": {rules: rule(ruleOf("*", iam, "workspacemembers,clustermembers")), in: namespaces},
		"MembersOfAClusterAreInNoneEither": {rules: rule(ruleOf("*", iam, "clustermembers")), in: workspace},

		"APasswordIsTheUsers": {rules: rule(ruleOf("update", iam, "users/password")), in: platform, want: "get,update,patch iam.kubesphere.io/users"},
		"APasswordOfANameIsThatUsers": {rules: rule(ruleOf("update", iam, "*/password", "b", "a", "b")), in: platform,
			want: "get,update,patch iam.kubesphere.io/users [a b]"},
		"AUsersRoleIsABinding":          {rules: rule(ruleOf("create", iam, "users")), in: platform, want: "create iam.kubesphere.io/globalrolebindings"},
		"ButNotWhereAConditionWasAbout": {rules: rule(ruleOf("get,update,patch", iam, "users")), in: platform, conditional: true},
		"AWorkspaceIsMadeByItsTemplate": {rules: rule(ruleOf("create,delete", tenant, "workspaces")), in: platform,
			want: "get,create,update,patch,delete tenant.kubesphere.io/workspacetemplates"},
		"ANamespaceOfTheTenant": {rules: rule(ruleOf("create", tenant, "namespaces")), in: workspace, want: "create /namespaces"},
		"ANamespaceIsWrittenInItself": {rules: rule(ruleOf("create,update,delete", tenant, "namespaces")), in: namespaces,
			want: "get,update,patch,delete /namespaces"},
		"NativeNamespacesCanBeMadeOnly": {rules: rule(ruleOf("*", "", "namespaces")), in: workspace, want: "create /namespaces"},
		"OfANameNothingCanBeMade":       {rules: rule(ruleOf("create", "", "namespaces", "x")), in: workspace},
		"TheWorkspaceByItsNameOnly": {rules: rule(ruleOf("get,create,deletecollection,patch", tenant, "workspaces")), in: workspace,
			want: "get,patch tenant.kubesphere.io/workspaces [w]; get,update,patch tenant.kubesphere.io/workspacetemplates [w]"},
		"ItGoesWithItsTemplateOnly": {rules: rule(ruleOf("delete", tenant, "workspaces")), in: workspace,
			want: "get,update,patch,delete tenant.kubesphere.io/workspacetemplates [w]"},
		"APatchLooksFirst": {rules: rule(ruleOf("patch", tenant, "workspacetemplates")), in: platform,
			want: "get tenant.kubesphere.io/workspacetemplates"},
		"AnotherWorkspacesNameIsNothing": {rules: rule(ruleOf("*", tenant, "workspaces,workspacetemplates", "other")), in: workspace},
		"ItsOwnNameAmongOthers": {rules: rule(ruleOf("delete", tenant, "workspacetemplates", "other", "w")), in: workspace,
			want: "get,update,patch,delete tenant.kubesphere.io/workspacetemplates [w]"},
		"AQuotaOfTheTenant": {rules: rule(ruleOf("update", tenant, "resourcequotas")), in: workspace,
			want: "get,update,patch quota.kubesphere.io/resourcequotas"},
		"KindsOfAWorkspaceAsTheyAre": {rules: rule(ruleOf("create,patch", iam, "workspaceroles,groups")), in: workspace,
			want: "create,patch iam.kubesphere.io/workspaceroles,groups"},
		"NamesOfKindsStay": {rules: rule(ruleOf("create,patch", iam, "workspaceroles", "w-x")), in: workspace,
			want: "patch iam.kubesphere.io/workspaceroles [w-x]"},
		"RightsWithAndWithoutNamesAreJoin": {rules: []rbacv1.PolicyRule{ruleOf("get", iam, "groups", "b"), ruleOf("get", iam, "groups", "a"),
			ruleOf("patch", iam, "groups", "a"), ruleOf("patch", iam, "groups")}, in: workspace,
			want: "patch iam.kubesphere.io/groups; get iam.kubesphere.io/groups [a b]"},
		"KindsOutsideOfTheTable": {rules: rule(ruleOf("*", "", "nodes,secrets,persistentvolumes")), in: workspace},
		"WhatIsSaidLiterallyIsNotImplied": {rules: []rbacv1.PolicyRule{ruleOf("*", iam, "namespacemembers"),
			ruleOf("get,list,create,update,patch,delete", iam, "rolebindings")}, in: namespaces},
		"ButWhatIsMissingIs": {rules: []rbacv1.PolicyRule{ruleOf("update", iam, "namespacemembers"), ruleOf("get,update", iam, "rolebindings")},
			in: namespaces, want: "create,patch,delete iam.kubesphere.io/rolebindings"},
		"NamesSaidLiterallyAreNotImplied": {rules: []rbacv1.PolicyRule{ruleOf("update", iam, "users/password", "a"),
			ruleOf("get,update,patch", iam, "users", "a", "b")}, in: platform, conditional: true},
		"EverythingImpliesNothingMore": {rules: rule(ruleOf("*", "*", "*")), in: platform},
		// Objects of the store are written through the routes of the store, which know what is reviewed and whose a release is.
		"NothingOfTheStore": {rules: rule(ruleOf("*", "application.kubesphere.io", "*")), in: workspace},
		"EverythingInAWorkspace": {rules: rule(ruleOf("*", "*", "*")), in: workspace, want: "create /namespaces; " +
			"get,list,watch,create,update,patch,delete,deletecollection iam.kubesphere.io/workspacerolebindings,workspaceroles,groups,groupbindings; " +
			"get,list,watch,create,update,patch,delete,deletecollection quota.kubesphere.io/resourcequotas; " +
			"get,list,watch,update,patch tenant.kubesphere.io/workspaces [w]; get,list,watch,update,patch,delete tenant.kubesphere.io/workspacetemplates [w]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := say(implied(c.rules, c.in, "w", c.conditional)); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// FuzzImplied checks that whatever rules imply is in the table, has a verb and a name that they have, and is accepted by kube-apiserver.
func FuzzImplied(f *testing.F) {
	f.Add("*", "*", "*", "", uint8(2))
	f.Add("update,escalate", "iam.kubesphere.io", "workspacemembers,users/password", "a,,b", uint8(1))
	f.Add("create", "tenant.kubesphere.io,", "namespaces,workspaces", "w", uint8(4))
	f.Add("get,delete", "application.kubesphere.io", "*/versions,apps", "", uint8(2))
	f.Fuzz(func(t *testing.T, verbs, groups, resources, names string, in uint8) {
		r := ruleOf(verbs, groups, resources)
		if names != "" {
			r.ResourceNames = strings.Split(names, ",")
		}
		where := []reach{platform, workspace, namespaces}[in%3]
		for _, n := range implied([]rbacv1.PolicyRule{r}, where, "w", false) {
			if len(n.Verbs) == 0 || len(n.APIGroups) != 1 || len(n.Resources) == 0 || slices.Contains(n.ResourceNames, "") || len(n.NonResourceURLs) > 0 {
				t.Fatalf("kube-apiserver refuses %v", n)
			}
			for _, kind := range n.Resources {
				for _, verb := range n.Verbs {
					if len(n.ResourceNames) == 0 {
						justify(t, &r, where, n.APIGroups[0], kind, verb, "")
					}
					for _, name := range n.ResourceNames {
						justify(t, &r, where, n.APIGroups[0], kind, verb, name)
					}
				}
			}
		}
	})
}

// justify finds the row of the table by which a rule implies a right.
func justify(t *testing.T, r *rbacv1.PolicyRule, in reach, group, kind, verb, name string) {
	t.Helper()
	for _, m := range meanings {
		if m.is != (resource{group, kind}) || m.in&in == 0 || !nativelyAllows([]rbacv1.PolicyRule{{
			Verbs: []string{"*"}, APIGroups: r.APIGroups, Resources: r.Resources}}, "x", m.of.group, m.of.name, "") {
			continue
		}
		switch {
		case m.theWorkspace && (name != "w" || len(r.ResourceNames) > 0 && !slices.Contains(r.ResourceNames, "w")),
			m.renamed && len(r.ResourceNames) > 0,
			!m.theWorkspace && len(r.ResourceNames) > 0 && !slices.Contains(r.ResourceNames, name),
			!m.theWorkspace && len(r.ResourceNames) == 0 && name != "":
			continue
		}
		for _, ours := range ordinaryVerbs {
			if (slices.Contains(r.Verbs, ours) || slices.Contains(r.Verbs, "*")) && slices.Contains(m.verbs[ours], verb) {
				return
			}
		}
	}
	t.Fatalf("%s %s/%s %q comes from %v", verb, group, kind, name, r)
}

// The built-in roles literally include what they imply in namespaces, so that a workspace has one native binding for each of its
// namespaces and roles, and not two.
func TestBuiltInRolesImplyNothingInNamespaces(t *testing.T) {
	for _, scope := range []string{"workspace", "namespace"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "roles", "roletemplates-"+scope+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		templates := 0
		byRole := map[string][]rbacv1.PolicyRule{}
		for _, doc := range strings.Split(string(raw), "\n---\n") {
			var tpl iamv1beta1.RoleTemplate
			if err := yaml.Unmarshal([]byte(doc), &tpl); err != nil {
				t.Fatal(err)
			}
			templates++
			byRole["admin"] = append(byRole["admin"], tpl.Spec.Rules...)
			for label := range tpl.Labels {
				if role, ok := strings.CutPrefix(label, "iam.kubesphere.io/aggregate-to-"); ok && role != "admin" {
					byRole[role] = append(byRole[role], tpl.Spec.Rules...)
				}
			}
		}
		if templates < 10 || len(byRole) < 3 {
			t.Fatalf("only %d templates and %d roles: the test has lost its point", templates, len(byRole))
		}
		for role, rules := range byRole {
			if got := implied(rules, namespaces, "", false); len(got) > 0 {
				t.Errorf("%s %s: %s", scope, role, say(got))
			}
		}
	}
}
