package v1beta1_test

import (
	"fmt"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
)

const hash = "$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"

func user(t *testing.T, version, name, spec string) map[string]any {
	return crdtest.Object(t, fmt.Sprintf("apiVersion: iam.kubesphere.io/%s\nkind: User\nmetadata: {name: %s}\nspec: %s", version, name, spec))
}

func TestUserSpec(t *testing.T) {
	crd := crdtest.Load(t, "users", "iam.kubesphere.io")
	long := strings.Repeat("é", 36) // 36 characters, 72 bytes
	for name, tc := range map[string]struct{ spec, want string }{
		"EmptyIsAUser":                   {`{}`, ""},
		"WhatTheConsoleSends":            {`{email: bob@example.com, password: Passw0rd}`, ""},
		"AllFields":                      {`{email: a@b.c, lang: zh, description: d, displayName: Bob, groups: [dev, "ops:team"], password: "` + hash + `"}`, ""},
		"EmptyEmailIsNone":               {`{email: ""}`, ""},
		"BlankedPasswordIsNone":          {`{password: ""}`, ""},
		"EmailWithoutAt":                 {`{email: bob}`, "spec.email"},
		"EmailWithSpace":                 {`{email: "a b@c"}`, "spec.email"},
		"EmailWithTwoAts":                {`{email: "a@b@c"}`, "spec.email"},
		"EmailWithNewline":               {`{email: "a@b\nc"}`, "spec.email"},
		"PasswordTooShort":               {`{password: Passw0r}`, "8 to 64"},
		"PasswordOf8":                    {`{password: Passw0rd}`, ""},
		"PasswordOf64":                   {`{password: "Aa1` + strings.Repeat("x", 61) + `"}`, ""},
		"PasswordOf65":                   {`{password: "Aa1` + strings.Repeat("x", 62) + `"}`, "Too long"},
		"PasswordWithoutUpperCase":       {`{password: passw0rd}`, "upper-case"},
		"PasswordWithoutLowerCase":       {`{password: PASSW0RD}`, "lower-case"},
		"PasswordWithoutDigit":           {`{password: Password}`, "digit"},
		"PasswordMayBeOfAnyScript":       {`{password: "Aa1密码密码密码"}`, ""},
		"PasswordThatBcryptWouldRefuse":  {`{password: "Aa1` + long + `"}`, "72 bytes"},
		"HashWhoseCostBlocksTheServer":   {`{password: "` + strings.Replace(hash, "$10$", "$31$", 1) + `"}`, "password"},
		"HashOfCost14":                   {`{password: "` + strings.Replace(hash, "$10$", "$14$", 1) + `"}`, ""},
		"HashCutShort":                   {`{password: "` + hash[:59] + `"}`, "password"},
		"GroupOfTheSystem":               {`{groups: [dev, "system:masters"]}`, "groups[1]"},
		"SyntheticGroup":                 {`{groups: ["kapis:global:platform-admin"]}`, "groups[0]"},
		"GroupWithoutName":               {`{groups: [""]}`, "groups[0]"},
		"GroupThatOnlyContainsThePrefix": {`{groups: ["my-system:x"]}`, ""},
		"LangIsNotAnEssay":               {`{lang: ` + strings.Repeat("x", 36) + `}`, "lang"},
	} {
		for _, version := range []string{"v1beta1", "v1alpha2"} {
			t.Run(name+"/"+version, func(t *testing.T) {
				crdtest.Expect(t, crd.Create(t, user(t, version, "bob", tc.spec)), tc.want)
			})
		}
	}
}

func TestUserState(t *testing.T) {
	crd := crdtest.Load(t, "users", "iam.kubesphere.io")
	for state, want := range map[string]string{
		"": "", "Active": "", "Disabled": "", "AuthLimitExceeded": "",
		"active": "status.state", "PendingActive": "status.state",
	} {
		t.Run("State"+state, func(t *testing.T) {
			u := user(t, "v1beta1", "bob", "{}")
			u["status"] = map[string]any{"state": state, "reason": "r", "lastLoginTime": "2026-11-21T00:00:00Z", "lastTransitionTime": "2026-11-21T00:00:00Z"}
			crdtest.Expect(t, crd.Create(t, u), want)
		})
	}
}

// The PUT of the console carries status.state in the whole object; our route writes the sub-resource.
func TestUserHasAStatusSubresource(t *testing.T) {
	for _, v := range crdtest.Load(t, "users", "iam.kubesphere.io").Object.Spec.Versions {
		if v.Subresources == nil || v.Subresources.Status == nil {
			t.Errorf("version %s has none", v.Name)
		}
	}
}

func TestUserName(t *testing.T) {
	crd := crdtest.Load(t, "users", "iam.kubesphere.io")
	ok, long := strings.Repeat("a", 63), strings.Repeat("a", 64)
	t.Run("LabelsCanHoldIt", func(t *testing.T) { crdtest.Expect(t, crd.Create(t, user(t, "v1beta1", ok, "{}")), "") })
	t.Run("TooLongForALabel", func(t *testing.T) { crdtest.Expect(t, crd.Create(t, user(t, "v1beta1", long, "{}")), "63 characters") })
	t.Run("AnExistingOneCanStillBeChanged", func(t *testing.T) {
		crdtest.Expect(t, crd.Update(t, user(t, "v1beta1", long, "{lang: zh}"), user(t, "v1beta1", long, "{}")), "")
	})
}

func TestBindings(t *testing.T) {
	ref := "{apiGroup: iam.kubesphere.io, kind: %s, name: admin}"
	many := strings.TrimSuffix(strings.Repeat("{kind: User, name: u},", 2000), ",")
	for _, b := range []struct{ plural, kind, role string }{
		{"globalrolebindings", "GlobalRoleBinding", "GlobalRole"},
		{"workspacerolebindings", "WorkspaceRoleBinding", "WorkspaceRole"},
		{"clusterrolebindings", "ClusterRoleBinding", "ClusterRole"},
		{"rolebindings", "RoleBinding", "Role"},
	} {
		crd := crdtest.Load(t, b.plural, "iam.kubesphere.io")
		role := fmt.Sprintf(ref, b.role)
		for name, tc := range map[string]struct{ subjects, ref, want string }{
			"User":                  {"[{kind: User, apiGroup: rbac.authorization.k8s.io, name: bob}]", role, ""},
			"SystemGroup":           {"[{kind: Group, name: 'system:authenticated'}]", role, ""},
			"KubeServiceAccount":    {"[{kind: ServiceAccount, name: default, namespace: a}]", role, ""},
			"OwnServiceAccount":     {"[{kind: ServiceAccount, apiGroup: kubesphere.io, name: ks-console, namespace: a}]", role, ""},
			"NobodyYet":             {"[]", role, ""},
			"TwoThousand":           {"[" + many + "]", role, ""},
			"OtherKindOfSubject":    {"[{kind: Robot, name: r2}]", role, "subjects[0]"},
			"SubjectWithoutName":    {"[{kind: User, name: ''}]", role, "subjects[0]"},
			"SyntheticGroup":        {"[{kind: User, name: a}, {kind: Group, name: 'kapis:global:x'}]", role, "subjects[1]"},
			"RoleOfAnotherScope":    {"[]", fmt.Sprintf(ref, "Other"+b.role), "roleRef"},
			"RoleWithoutName":       {"[]", "{apiGroup: iam.kubesphere.io, kind: " + b.role + ", name: ''}", "roleRef"},
			"RoleWithoutNameAtAll":  {"[]", "{apiGroup: iam.kubesphere.io, kind: " + b.role + "}", "roleRef.name"},
			"RoleNamedAsV1alpha2Is": {"[]", "{apiGroup: iam.kubesphere.io/v1alpha2, kind: " + b.role + ", name: admin}", ""},
		} {
			t.Run(b.kind+"/"+name, func(t *testing.T) {
				obj := crdtest.Object(t, "apiVersion: iam.kubesphere.io/v1beta1\nkind: "+b.kind+"\nmetadata: {name: b}\nsubjects: "+tc.subjects+"\nroleRef: "+tc.ref)
				crdtest.Expect(t, crd.Create(t, obj), tc.want)
			})
		}
	}
}

func TestOtherKinds(t *testing.T) {
	for name, tc := range map[string]struct{ plural, object, want string }{
		"RoleOfTheConsole": {"workspaceroles", "{kind: WorkspaceRole, rules: [], metadata: {name: r}, aggregationRoleTemplates: {templateNames: [a, b]}}",
			""},
		"RoleWithNullRules": {"globalroles", "{kind: GlobalRole, rules: null, metadata: {name: r}}", ""},
		"RoleWithSelector":  {"clusterroles", "{kind: ClusterRole, metadata: {name: r}, aggregationRoleTemplates: {roleSelector: {matchLabels: {a: b}}}}", ""},
		"RoleWithoutVerbs":  {"roles", "{kind: Role, metadata: {name: r, namespace: n}, rules: [{apiGroups: ['']}]}", "rules[0].verbs"},
		"TemplateTwice": {"roles", "{kind: Role, metadata: {name: r, namespace: n}, aggregationRoleTemplates: {templateNames: [a, a]}}",
			"templateNames[1]"},
		"TemplateWithoutName": {"roles", "{kind: Role, metadata: {name: r, namespace: n}, aggregationRoleTemplates: {templateNames: ['']}}", "templateNames[0]"},
		"Template": {"roletemplates",
			"{kind: RoleTemplate, metadata: {name: r}, spec: {displayName: {en: A, zh: B}, description: {en: C}, rules: [{nonResourceURLs: [/a], verbs: [get]}]}}", ""},
		"TemplateWithoutRules": {"roletemplates", "{kind: RoleTemplate, metadata: {name: r}, spec: {displayName: {en: A}}}", ""},
		"Category":             {"categories", "{kind: Category, metadata: {name: r}, spec: {displayName: {en: A}, icon: i}}", ""},
		"BuiltinRole": {"builtinroles",
			"{kind: BuiltinRole, metadata: {name: r}, targetSelector: {}, role: {apiVersion: iam.kubesphere.io/v1beta1, kind: Role, any: [1]}}", ""},
		"LoginRecord": {"loginrecords",
			"{kind: LoginRecord, metadata: {name: r}, spec: {type: Token, provider: ldap, sourceIP: '::1', userAgent: curl, success: false, reason: wrong}}", ""},
		"LoginRecordOfAnotherType": {"loginrecords", "{kind: LoginRecord, metadata: {name: r}, spec: {type: Other, success: true}}", ""},
		"LoginRecordWithoutResult": {"loginrecords", "{kind: LoginRecord, metadata: {name: r}, spec: {type: Token}}", "spec.success"},
		"Group":                    {"groups", "{kind: Group, metadata: {name: r}}", ""},
		"GroupBinding": {"groupbindings",
			"{kind: GroupBinding, metadata: {name: r}, groupRef: {apiGroup: iam.kubesphere.io/v1alpha2, kind: Group, name: g}, users: [a]}", ""},
		"GroupBindingOfTheSystem": {"groupbindings", "{kind: GroupBinding, metadata: {name: r}, groupRef: {name: 'system:masters'}, users: [a]}", "groupRef.name"},
	} {
		t.Run(name, func(t *testing.T) {
			obj := crdtest.Object(t, tc.object)
			obj["apiVersion"] = "iam.kubesphere.io/v1beta1"
			crd := crdtest.Load(t, tc.plural, "iam.kubesphere.io")
			crdtest.Expect(t, crd.Create(t, obj), tc.want)
			if pruned := crd.Pruned(t, obj); len(pruned) > 0 {
				t.Errorf("pruned: %v", pruned)
			}
		})
	}
}

// Installations have objects in these versions; none may go away.
func TestNoVersionIsDropped(t *testing.T) {
	for plural, older := range map[string]bool{
		"users": true, "loginrecords": true, "groups": true, "groupbindings": true, "globalroles": true,
		"globalrolebindings": true, "workspaceroles": true, "workspacerolebindings": true,
		"clusterroles": false, "clusterrolebindings": false, "roles": false, "rolebindings": false,
		"roletemplates": false, "builtinroles": false, "categories": false,
	} {
		served, stored := map[string]bool{}, ""
		for _, v := range crdtest.Load(t, plural, "iam.kubesphere.io").Object.Spec.Versions {
			served[v.Name] = v.Served
			if v.Storage {
				stored = v.Name
			}
		}
		if !served["v1beta1"] || served["v1alpha2"] != older || stored != "v1beta1" {
			t.Errorf("%s: served %v, stored %s", plural, served, stored)
		}
	}
}
