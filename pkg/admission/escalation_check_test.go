package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
)

func ruled(t *testing.T, letters string) string {
	t.Helper()
	return `"rules":` + text(t, rules(letters))
}

func TestNobodyWritesARoleThatGrantsMoreThanHeHolds(t *testing.T) { // S6
	_, g := newWorld(t)
	inW := `"metadata":{"labels":{"kubesphere.io/workspace":"w"}}`
	all(t, g, map[string]write{
		"WhatHeHolds": {resource: "globalroles", name: "x", now: `{` + ruled(t, "ab") + `}`},
		"MoreThanHeHolds": {
			resource: "globalroles",
			name:     "x",
			now:      `{` + ruled(t, "ac") + `}`,
			refused:  `does not hold on the platform: get c;`,
		},
		"OnlyTheNewRulesCount":       {resource: "globalroles", name: "x", old: `{` + ruled(t, "c") + `}`, now: `{` + ruled(t, "ca") + `}`},
		"ANewRuleBesidesOldOnes":     {resource: "globalroles", name: "x", old: `{` + ruled(t, "c") + `}`, now: `{` + ruled(t, "cd") + `}`, refused: "get d"},
		"TakingARuleAwayIsNotGiving": {resource: "globalroles", name: "x", old: `{` + ruled(t, "cd") + `}`, now: `{` + ruled(t, "d") + `}`},
		"ADescriptionOfAHigherRole": {
			resource: "globalroles",
			name:     "platform-admin",
			old:      `{` + ruled(t, "cd") + `}`,
			now:      `{"metadata":{"annotations":{"kubesphere.io/description":"x"}},` + ruled(t, "cd") + `}`,
		},
		"EscalateByName":     {resource: "globalroles", name: "free", now: `{` + ruled(t, "cd") + `}`},
		"InHisWorkspace":     {resource: "workspaceroles", name: "w-x", now: `{` + inW + `,` + ruled(t, "a") + `}`},
		"InHisWorkspaceMore": {resource: "workspaceroles", name: "w-x", now: `{` + inW + `,` + ruled(t, "b") + `}`, refused: `in the workspace "w"`},
		"InAnotherWorkspace": {
			resource: "workspaceroles",
			name:     "v-x",
			now:      `{"metadata":{"labels":{"kubesphere.io/workspace":"v"}},` + ruled(t, "a") + `}`,
			refused:  `in the workspace "v"`,
		},
		"MovedToAnotherWorkspace": {
			resource: "workspaceroles",
			name:     "w-x",
			old:      `{` + inW + `,` + ruled(t, "a") + `}`,
			now:      `{"metadata":{"labels":{"kubesphere.io/workspace":"v"}},` + ruled(t, "a") + `}`,
			refused:  `in the workspace "v"`,
		},
		"OfNoWorkspaceIsOfAll": {resource: "workspaceroles", name: "x", now: `{` + ruled(t, "c") + `}`, refused: "on the platform"},
		"InHisNamespace":       {resource: "roles", namespace: "n", name: "x", now: `{` + ruled(t, "a") + `}`},
		"InAnotherNamespace":   {resource: "roles", namespace: "m", name: "x", now: `{` + ruled(t, "a") + `}`, refused: `in the namespace "m"`},
		"InTheCluster":         {resource: "clusterroles", name: "x", now: `{` + ruled(t, "b") + `}`, refused: "in the cluster"},
		"TemplatesByName":      {resource: "globalroles", name: "x", now: `{"aggregationRoleTemplates":{"templateNames":["ta"]}}`},
		"TemplatesByNameMore":  {resource: "globalroles", name: "x", now: `{"aggregationRoleTemplates":{"templateNames":["ta","tc"]}}`, refused: "get c"},
		"TemplatesByNameAdded": {
			resource: "globalroles",
			name:     "x",
			old:      `{"aggregationRoleTemplates":{"templateNames":["ta"]},` + ruled(t, "a") + `}`,
			now:      `{"aggregationRoleTemplates":{"templateNames":["ta","tc"]},` + ruled(t, "a") + `}`,
			refused:  "get c",
		},
		"TemplatesBySelector": {
			resource: "globalroles",
			name:     "x",
			now:      `{"aggregationRoleTemplates":{"roleSelector":{"matchLabels":{"pick":"tc"}}}}`,
			refused:  "templates that are made later",
		},
		"TemplatesBySelectorOfHisOwn": {
			resource: "globalroles",
			name:     "x",
			now:      `{"aggregationRoleTemplates":{"roleSelector":{"matchLabels":{"pick":"ta"}}}}`,
			refused:  "templates that are made later",
		},
		"TemplatesBySelectorAsItWas": {
			resource: "globalroles",
			name:     "x",
			old:      `{"aggregationRoleTemplates":{"roleSelector":{"matchLabels":{"pick":"ta"}}}}`,
			now:      `{"aggregationRoleTemplates":{"templateNames":["ta"],"roleSelector":{"matchLabels":{"pick":"ta"}}}}`,
		},
		"TemplatesBySelectorByRight": {resource: "globalroles", name: "free", now: `{"aggregationRoleTemplates":{"roleSelector":{"matchLabels":{"pick":"ta"}}}}`},
		"TemplatesByAnEmptySelector": {
			resource: "workspaceroles",
			name:     "x",
			now:      `{` + inW + `,"aggregationRoleTemplates":{"roleSelector":{}}}`,
			refused:  "templates that are made later",
		},
		"TemplatesOfAnotherScope": {
			resource: "globalroles",
			name:     "x",
			now:      `{"aggregationRoleTemplates":{"templateNames":["ta","wc"]}}`,
			refused:  "no role templates of the scope global with these names, or they are not known yet: wc",
		},
		"TemplatesThatComeLater": {
			resource: "workspaceroles",
			name:     "w-x",
			now:      `{` + inW + `,"aggregationRoleTemplates":{"templateNames":["wa","later"]}}`,
			refused:  "not known yet: later",
		},
		"TemplatesThatComeLaterAsItWas": {
			resource: "globalroles",
			name:     "x",
			old:      `{"aggregationRoleTemplates":{"templateNames":["later"]}}`,
			now:      `{"aggregationRoleTemplates":{"templateNames":["later","ta"]}}`,
		},
		"TemplatesThatComeLaterByRight": {resource: "globalroles", name: "free", now: `{"aggregationRoleTemplates":{"templateNames":["later"]}}`},
		"TemplatesElsewhereAreNew": {
			resource: "workspaceroles",
			name:     "w-x",
			old:      `{"metadata":{"labels":{"kubesphere.io/workspace":"v"}},"aggregationRoleTemplates":{"templateNames":["later"]}}`,
			now:      `{` + inW + `,"aggregationRoleTemplates":{"templateNames":["later"]}}`,
			refused:  "not known yet: later",
		},
		"TemplatesThatCountOnceEmptied": {
			resource: "globalroles",
			name:     "x",
			old:      `{"aggregationRoleTemplates":{"templateNames":["tc"]},` + ruled(t, "a") + `}`,
			now:      `{"aggregationRoleTemplates":{"templateNames":["tc"]}}`,
			refused:  "get c",
		},
		"TemplatesThatCountByARecord": {
			resource: "globalroles",
			name:     "x",
			old:      `{"aggregationRoleTemplates":{"templateNames":["tc"]},` + ruled(t, "a") + `}`,
			now:      `{"metadata":{"annotations":{"kapis.dev/aggregated":"{}"}},"aggregationRoleTemplates":{"templateNames":["tc"]},` + ruled(t, "a") + `}`,
			refused:  "get c",
		},
		"TemplatesThatWereSwitchedOff": {
			resource: "globalroles",
			name:     "x",
			old: `{"metadata":{"annotations":{"iam.kubesphere.io/auto-aggregate":"false"}},` +
				`"aggregationRoleTemplates":{"templateNames":["tc"],"roleSelector":{"matchLabels":{"pick":"tc"}}},` + ruled(t, "a") + `}`,
			now:     `{"aggregationRoleTemplates":{"templateNames":["tc"],"roleSelector":{"matchLabels":{"pick":"tc"}}},` + ruled(t, "a") + `}`,
			refused: "get c",
		},
		"TemplatesThatWereThereBefore": {
			resource: "globalroles",
			name:     "x",
			old:      `{"aggregationRoleTemplates":{"templateNames":["tc"]}}`,
			now:      `{"aggregationRoleTemplates":{"templateNames":["tc"]},` + ruled(t, "a") + `}`,
		},
		"TemplatesSwitchedOn": {
			resource: "globalroles",
			name:     "x",
			old:      `{"aggregationRoleTemplates":{"templateNames":["tc"]},` + ruled(t, "a") + `}`,
			now: `{"metadata":{"annotations":{"iam.kubesphere.io/auto-aggregate":"true"}},"aggregationRoleTemplates":{"templateNames":["tc"]},` + ruled(
				t,
				"a",
			) + `}`,
			refused: "get c",
		},
		"ASelectorThatCantBeRead": {
			resource: "globalroles",
			name:     "x",
			now:      `{"aggregationRoleTemplates":{"roleSelector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}}`,
			refused:  "can't be read",
		},
		"AConditionTakenAway": {
			resource: "globalroles",
			name:     "x",
			old:      `{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":"false"}},` + ruled(t, "c") + `}`,
			now:      `{` + ruled(t, "c") + `}`,
			refused:  "get c",
		},
		"AnEmptyConditionTakenAway": {
			resource: "globalroles",
			name:     "x",
			old:      `{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":""}},` + ruled(t, "c") + `}`,
			now:      `{` + ruled(t, "c") + `}`,
			refused:  "get c",
		},
		"AnEmptyConditionFilled": {
			resource: "globalroles",
			name:     "x",
			old:      `{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":""}},` + ruled(t, "c") + `}`,
			now:      `{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":"true"}},` + ruled(t, "c") + `}`,
			refused:  "get c",
		},
		"AConditionEmptied": {
			resource: "globalroles",
			name:     "x",
			old:      `{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":"false"}},` + ruled(t, "c") + `}`,
			now:      `{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":""}},` + ruled(t, "c") + `}`,
			refused:  "get c",
		},
		"AnEmptyConditionAsItWas": {
			resource: "globalroles",
			name:     "x",
			old:      `{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":""}},` + ruled(t, "c") + `}`,
			now:      `{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":"","a":"b"}},` + ruled(t, "c") + `}`,
		},
		"AnEmptyPolicyTakenAway": {
			resource: "globalroles",
			name:     "x",
			old:      `{"metadata":{"annotations":{"iam.kubesphere.io/rego-override":""}},` + ruled(t, "c") + `}`,
			now:      `{` + ruled(t, "c") + `}`,
		},
		"AConditionWidened": {
			resource: "globalroles",
			name:     "x",
			old:      `{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":"false"}},` + ruled(t, "c") + `}`,
			now:      `{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":"true"}},` + ruled(t, "c") + `}`,
			refused:  "get c",
		},
		"AConditionAdded": {
			resource: "globalroles",
			name:     "x",
			old:      `{` + ruled(t, "c") + `}`,
			now:      `{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":"true"}},` + ruled(t, "c") + `}`,
		},
		"RegoNeedsEverything": {
			resource: "globalroles",
			name:     "x",
			now:      `{"metadata":{"annotations":{"iam.kubesphere.io/rego-override":"package authz\ndefault allow = true"}}}`,
			refused:  "* *.*",
		},
		"RegoByWhoHoldsEverything": {
			by:       "root",
			resource: "globalroles",
			name:     "x",
			now:      `{"metadata":{"annotations":{"iam.kubesphere.io/rego-override":"package authz"}}}`,
		},
		"NamesOfFieldsHaveTheirCase": {resource: "globalroles", name: "x", now: `{"Rules":` + text(t, rules("c")) + `}`},
	})
}

func TestATemplateIsCheckedAsARoleOfThePlatform(t *testing.T) { // S6
	_, g := newWorld(t)
	spec := func(letters string) string { return `"spec":{"rules":` + text(t, rules(letters)) + `}` }
	all(t, g, map[string]write{
		"WhatHeHolds": {resource: "roletemplates", name: "x", now: `{` + spec("ab") + `}`},
		"More":        {resource: "roletemplates", name: "x", now: `{` + spec("c") + `}`, refused: "get c"},
		"MoreForAWorkspace": {
			resource: "roletemplates",
			name:     "x",
			now:      `{"metadata":{"labels":{"iam.kubesphere.io/scope":"workspace"}},` + spec("c") + `}`,
			refused:  "on the platform",
		},
		"ADisplayName": {
			resource: "roletemplates",
			name:     "x",
			old:      `{` + spec("c") + `}`,
			now:      `{"spec":{"displayName":{"en":"x"},"rules":` + text(t, rules("c")) + `}}`,
		},
		"ALabelThatRolesPick": {
			resource: "roletemplates",
			name:     "x",
			old:      `{` + spec("c") + `}`,
			now:      `{"metadata":{"labels":{"iam.kubesphere.io/aggregate-to-x":""}},` + spec("c") + `}`,
			refused:  "get c",
		},
		"ALabelTakenAway": {
			resource: "roletemplates",
			name:     "x",
			old:      `{"metadata":{"labels":{"a":"b"}},` + spec("c") + `}`,
			now:      `{` + spec("c") + `}`,
			refused:  "get c",
		},
		"BuiltinMore": {resource: "builtinroles", name: "x", now: `{"role":{"kind":"Role",` + ruled(t, "c") + `}}`, refused: "get c"},
		"BuiltinByTemplate": {
			resource: "builtinroles",
			name:     "x",
			now:      `{"role":{"kind":"WorkspaceRole","aggregationRoleTemplates":{"templateNames":["wc"]}}}`,
			refused:  "get c",
		},
		"BuiltinOfNamespaces": {
			resource: "builtinroles",
			name:     "x",
			now:      `{"role":{"kind":"Role","aggregationRoleTemplates":{"templateNames":["wc"]}}}`,
			refused:  "of the scope namespace",
		},
		"BuiltinBySelector": {
			resource: "builtinroles",
			name:     "x",
			now:      `{"role":{"kind":"Role","aggregationRoleTemplates":{"roleSelector":{}}}}`,
			refused:  "templates that are made later",
		},
		"BuiltinByWhoHasAll": {
			by:       "root",
			resource: "builtinroles",
			name:     "x",
			now:      `{"role":{"kind":"Role","aggregationRoleTemplates":{"roleSelector":{},"templateNames":["later"]}}}`,
		},
		"BuiltinTargets": {
			resource: "builtinroles",
			name:     "x",
			old:      `{"targetSelector":{"matchLabels":{"a":"b"}},"role":{` + ruled(t, "c") + `}}`,
			now:      `{"targetSelector":{},"role":{` + ruled(t, "c") + `}}`,
			refused:  "get c",
		},
		"BuiltinLabelled": {
			resource: "builtinroles",
			name:     "x",
			old:      `{"role":{` + ruled(t, "c") + `}}`,
			now:      `{"metadata":{"labels":{"a":"b"}},"role":{` + ruled(t, "c") + `}}`,
		},
		"BuiltinWithRego": {
			resource: "builtinroles",
			name:     "x",
			now:      `{"role":{"metadata":{"annotations":{"iam.kubesphere.io/rego-override":"x"}}}}`,
			refused:  "* *.*",
		},
		"BuiltinUnreadable": {resource: "builtinroles", name: "x", now: `{"role":[1]}`, refused: "can't be read"},
	})
}

func TestTheVerbOpensWhatIsNotHeld(t *testing.T) {
	_, g := newWorld(t)
	g.Native = func(_ context.Context, u user.Info, verb string, gvr schema.GroupVersionResource, namespace, name string) (bool, error) {
		return u.GetName() == "installer" && verb == "escalate" && gvr.Resource == "roletemplates" && name == "x" && namespace == "", nil
	}
	spec := `{"spec":{"rules":` + text(t, rules("c")) + `}}`
	all(t, g, map[string]write{
		"NativeRights":         {by: "installer", resource: "roletemplates", name: "x", now: spec},
		"NativeRightsElsehow":  {by: "installer", resource: "roletemplates", name: "y", now: spec, refused: "get c"},
		"NativeRightsElsewho":  {by: "ann", resource: "roletemplates", name: "x", now: spec, refused: "get c"},
		"NobodyIsAskedInVain1": {by: "ann", resource: "roletemplates", name: "x", now: `{"spec":{}}`},
	})
	g.Native = func(context.Context, user.Info, string, schema.GroupVersionResource, string, string) (bool, error) {
		return true, errors.New("down")
	}
	err := g.Check(
		t.Context(),
		&Write{
			By:     &user.DefaultInfo{Name: "x"},
			Verb:   "create",
			GVR:    schema.GroupVersionResource{Group: "iam.kubesphere.io", Resource: "roletemplates"},
			Object: []byte(spec),
		},
	)
	if err == nil || apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "down") {
		t.Errorf("what can't be found out is %v", err)
	}
	g.Native = never(t)
	write{resource: "globalroles", name: "x", now: `{` + ruled(t, "ab") + `}`}.check(t, g)
}

func TestWhatIsNotGuardedIsNotRead(t *testing.T) {
	_, g := newWorld(t)
	for _, gr := range []schema.GroupResource{{Resource: "pods"}, {Resource: "roles"}, {Group: "rbac.authorization.k8s.io", Resource: "roles"},
		{Group: "iam.kubesphere.io", Resource: "loginrecords"}, {Group: "iam.kubesphere.io", Resource: "categories"}} {
		if g.Guards(gr) {
			t.Errorf("%s is guarded", gr)
		}
		if err := g.Check(t.Context(), &Write{Verb: "create", GVR: gr.WithVersion("v1"), Object: []byte("{")}); err != nil {
			t.Errorf("%s: %v", gr, err)
		}
	}
	gvr := schema.GroupVersionResource{Group: "iam.kubesphere.io", Version: "v1alpha2", Resource: "globalroles"}
	for name, w := range map[string]*Write{
		"Nobody":          {Verb: "create", GVR: gvr, Object: []byte("{}")},
		"ANamelessUser":   {By: &user.DefaultInfo{}, Verb: "create", GVR: gvr, Object: []byte("{}")},
		"NoJSON":          {By: &user.DefaultInfo{Name: "root"}, Verb: "create", GVR: gvr, Object: []byte("{")},
		"NobodyDeletes":   {Verb: "delete", GVR: gvr, Old: []byte("{}")},
		"NotKnownWhat":    {By: &user.DefaultInfo{Name: "root"}, Verb: "delete", GVR: gvr},
		"NoJSONDeleted":   {By: &user.DefaultInfo{Name: "root"}, Verb: "delete", GVR: gvr, Old: []byte("{")},
		"Nothing":         {By: &user.DefaultInfo{Name: "root"}, Verb: "update", GVR: gvr},
		"AnOldOneNotJSON": {By: &user.DefaultInfo{Name: "root"}, Verb: "update", GVR: gvr, Object: []byte("{}"), Old: []byte("{")},
	} {
		if err := g.Check(t.Context(), w); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARefusalIsBounded(t *testing.T) {
	_, g := newWorld(t)
	var many []rbacv1.PolicyRule
	for i := range 150 {
		r := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"g.example.com"}}
		for n := range 50 {
			r.Resources = append(r.Resources, fmt.Sprintf("%s%d-%d", strings.Repeat("x", 100), i, n))
			r.ResourceNames = append(r.ResourceNames, strings.Repeat("y", 100))
		}
		many = append(many, r)
	}
	err := g.Check(
		t.Context(),
		&Write{
			By:     &user.DefaultInfo{Name: "ann"},
			Verb:   "create",
			GVR:    schema.GroupVersionResource{Group: "iam.kubesphere.io", Resource: "globalroles"},
			Name:   "x",
			Object: []byte(`{"rules":` + text(t, many) + `}`),
		},
	)
	if err == nil || len(err.Error()) > 10_000 || !strings.Contains(err.Error(), "and 145 more") {
		t.Errorf("%d bytes: %.300s", len(err.Error()), err)
	}
}

func TestWithoutKnowledgeNothingIsTakenFromTemplatesOrGroups(t *testing.T) {
	w, _ := newWorld(t)
	g := &Guard{Holdings: w}
	all(t, g, map[string]write{
		"Templates": {resource: "globalroles", name: "x", now: `{"aggregationRoleTemplates":{"templateNames":["ta"]}}`, refused: "not known"},
		"Groups":    {resource: "users", name: "x", now: `{"spec":{"groups":["dev"]}}`, refused: "needs the verb bind on groups"},
	})
}

// FuzzCheck: no object makes the guard panic, and none that grants rights which the writer does not hold passes because of its form.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{`{}`, `{"rules":[{"verbs":["*"]}]}`, `{"subjects":[{"kind":"Group","name":"kapis:x"}],"roleRef":{"name":"c"}}`,
		`{"spec":{"groups":["ops"]}}`, `{"role":{"kind":"Role"}}`, `null`, `{"metadata":{"labels":null}}`} {
		f.Add(s, `{}`)
		f.Add(s, s)
	}
	w := &world{}
	g := &Guard{Holdings: w, Known: NewCache()}
	f.Fuzz(func(t *testing.T, now, old string) {
		for _, resource := range []string{"globalroles", "roles", "workspacerolebindings", "roletemplates", "builtinroles", "groupbindings", "groups", "users"} {
			gvr := schema.GroupVersionResource{Group: "iam.kubesphere.io", Resource: resource}
			err := g.Check(t.Context(), &Write{By: &user.DefaultInfo{Name: "x"}, Verb: "update", GVR: gvr, Object: []byte(now), Old: []byte(old)})
			if err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", resource, err)
			}
			if now == old && err != nil && !strings.Contains(err.Error(), "can't be read") {
				t.Errorf("%s: nothing changed, and it is refused: %v", resource, err)
			}
		}
	})
}
