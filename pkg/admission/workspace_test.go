package admission

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

// newTenancy is newWorld with the workspaces v and system-workspace, a template of t, a namespace of the workspace lost, and a binding of the workspace
// bound. keeper may do everything with templates, and is the manager of v.
func newTenancy(t *testing.T) (*world, *Guard) {
	t.Helper()
	w, g := newWorld(t)
	for gvr, sink := range g.Known.Sinks() {
		for resource, name := range map[string]string{"workspaces": "v", "workspacetemplates": "t"} {
			if gvr.Resource == resource {
				sink.Set(&store.Object{Name: name, Raw: []byte(`{}`)})
			}
		}
	}
	w.in["orphan"] = "lost"
	w.left = map[string]bool{"bound": true}
	for _, place := range []string{`on the platform`, `in the workspace "v"`, `in the workspace "t"`, `in the workspace "bound"`, `in the workspace "new"`,
		`in the workspace "lost"`, `in the workspace "store"`} {
		w.holds["keeper@"+place] = []string{"workspacetemplates", "workspaces"}
		w.holds["all@"+place] = []string{"*"}
	}
	w.holds[`mover@in the workspace "lost"`] = []string{"namespaces"}
	g.InStore = func(_ context.Context, workspace string) (string, error) {
		if workspace == "store" {
			return "applicationreleases", nil
		}
		return "", nil
	}
	return w, g
}

// S65: a user who may create templates can create none of a name in use, and can't say of a new one when it is deleted or what is deleted with it.
func TestS65ACreationOverAWorkspaceIsItsUpdateAndItsDeletion(t *testing.T) {
	_, g := newTenancy(t)
	const named, gone = "of this name", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"u"}]}}`
	const finalizers, background = `{"metadata":{"finalizers":["kubesphere.io/cascading-deletion"]}}`,
		`{"metadata":{"annotations":{"kubesphere.io/deletion-propagation":"Background"}}}`
	all(t, g, map[string]write{
		"ANewTemplate":                 {resource: "workspacetemplates", name: "new", now: `{}`},
		"ANewWorkspace":                {resource: "workspaces", name: "new", now: `{}`},
		"ATemplateOfAWorkspace":        {resource: "workspacetemplates", name: "v", now: `{}`, refused: named},
		"ATemplateOfAWorkspaceByGoing": {resource: "workspacetemplates", name: "v", now: gone, refused: named},
		"ATemplateByWhoRunsThem":       {by: "keeper", resource: "workspacetemplates", name: "v", now: `{}`},
		"AWorkspaceOfATemplate":        {resource: "workspaces", name: "t", now: `{}`, refused: named},
		"AWorkspaceByWhoRunsThem":      {by: "keeper", resource: "workspaces", name: "t", now: `{}`},
		"TheSystems":                   {by: "keeper", resource: "workspacetemplates", name: "system-workspace", now: `{}`, refused: "may do everything"},
		"TheSystemsByAll":              {by: "all", resource: "workspacetemplates", name: "system-workspace", now: `{}`},
		"OwnersOfANewTemplate":         {resource: "workspacetemplates", name: "new", now: gone, refused: "may delete any of the workspacetemplates"},
		"FinalizersOfANewTemplate":     {resource: "workspacetemplates", name: "new", now: finalizers, refused: "may delete any of the workspacetemplates"},
		"FinalizersOfANewWorkspace":    {resource: "workspaces", name: "new", now: finalizers, refused: "may delete any of the workspaces"},
		"FinalizersOfAWorkspace":       {resource: "workspaces", name: "v", old: `{}`, now: finalizers, refused: "may delete any of the workspaces"},
		"FinalizersTakenOff":           {resource: "workspaces", name: "v", old: finalizers, now: `{}`, refused: "may delete any of the workspaces"},
		"FinalizersByWhoMayDelete":     {by: "keeper", resource: "workspacetemplates", name: "new", now: finalizers},
		"OwnersByWhoMayDelete":         {by: "keeper", resource: "workspacetemplates", name: "new", now: gone},
		"NamespacesGoAlong":            {resource: "workspacetemplates", name: "new", now: background, refused: "may delete it"},
		"NamespacesGoAlongWithAnOther": {resource: "workspaces", name: "v", old: `{}`, now: background, refused: "may delete it"},
		"NamespacesGoByWhoMayDelete":   {by: "keeper", resource: "workspacetemplates", name: "new", now: background},
		"NamespacesStay": {
			resource: "workspaces",
			name:     "v",
			old:      background,
			now:      `{"metadata":{"annotations":{"kubesphere.io/deletion-propagation":"Orphan"}}}`,
		},
		"WhatItSaidAlready": {resource: "workspaces", name: "v", old: background, now: background},
		"AnotherTemplateDecidesOverIt": {
			resource: "workspaces",
			name:     "v",
			old:      `{}`,
			now:      `{"metadata":{"annotations":{"kapis.dev/workspacetemplate-uid":"u"}}}`,
			refused:  "which template decides",
		},
		"NoTemplateDecidesOverIt": {
			resource: "workspaces",
			name:     "v",
			old:      `{"metadata":{"annotations":{"kapis.dev/workspacetemplate-uid":"u"}}}`,
			now:      `{}`,
			refused:  "which template decides",
		},
		"ATemplateDecidesOverANew": {
			resource: "workspaces",
			name:     "new",
			now:      `{"metadata":{"annotations":{"kapis.dev/workspacetemplate-uid":"u"}}}`,
			refused:  "which template decides",
		},
		"HandedOverByWhoMayDelete": {
			by:       "keeper",
			resource: "workspaces",
			name:     "v",
			old:      `{}`,
			now:      `{"metadata":{"annotations":{"kapis.dev/workspacetemplate-uid":"u"}}}`,
		},
		"WhatIsNoWorkspace":              {resource: "workspaces", name: "v", old: `{}`, now: `{"metadata":{"finalizers":7}}`, refused: "can't be read"},
		"S69NamespacesOfOneThatIsGone":   {resource: "workspacetemplates", name: "lost", now: `{}`, refused: "namespaces with the label"},
		"S69ByAWorkspaceToo":             {resource: "workspaces", name: "lost", now: `{}`, refused: "namespaces with the label"},
		"S69WhoMayMakeTemplatesAlone":    {by: "keeper", resource: "workspacetemplates", name: "lost", now: `{}`, refused: "namespaces with the label"},
		"S69WhoMayTakeTheNamespaces":     {by: "mover", resource: "workspacetemplates", name: "lost", now: `{}`},
		"S69WhoMayDoEverything":          {by: "all", resource: "workspaces", name: "lost", now: `{}`},
		"S69BindingsOfOneThatIsGone":     {resource: "workspacetemplates", name: "bound", now: `{}`, refused: "try again"},
		"S69BindingsByWhoRunsTemplates":  {by: "keeper", resource: "workspacetemplates", name: "bound", now: `{}`},
		"S69ReleasesOfOneThatIsGone":     {resource: "workspacetemplates", name: "store", now: `{}`, refused: "there are applicationreleases"},
		"S69ReleasesByAWorkspaceToo":     {resource: "workspaces", name: "store", now: `{}`, refused: "there are applicationreleases"},
		"S69ReleasesByWhoRunsTemplates":  {by: "keeper", resource: "workspacetemplates", name: "store", now: `{}`},
		"S69NamespacesOfOneThatIsThere":  {resource: "workspaces", name: "v", old: `{}`, now: `{"metadata":{"annotations":{"a":"b"}}}`},
		"S69AnotherNameIsNotTheSameName": {resource: "workspacetemplates", name: "los", now: `{}`},
	})
	for _, resource := range []string{"workspaces", "workspacetemplates"} {
		err := g.Check(
			t.Context(),
			&Write{By: &user.DefaultInfo{Name: "ann"}, Verb: "delete", GVR: workspacesKind.GroupVersion().WithResource(resource), Name: "v", Old: []byte(`{}`)},
		)
		if err != nil {
			t.Errorf("a deletion, which kube-apiserver decides: %v", err)
		}
	}
	g.Known = nil
	if err := g.Check(t.Context(), &Write{By: &user.DefaultInfo{Name: "ann"}, Verb: "create", GVR: templatesKind, Name: "x", Object: []byte(`{}`)}); err == nil ||
		!strings.Contains(err.Error(), "not known here") {
		t.Errorf("where workspaces are not known: %v", err)
	}
}

// S6: BuiltinRoles select workspaces by their labels, so a user who writes these chooses which roles the workspace gets, and gets its own by them.
func TestS6LabelsOfAWorkspaceAreForThoseWhoRunThem(t *testing.T) {
	w, g := newWorld(t)
	w.holds["keeper@on the platform"] = []string{"workspaces", "workspacetemplates"}
	const labelled, another = `{"metadata":{"labels":{"tier":"gold"}}}`, `{"metadata":{"labels":{"tier":"silver"}}}`
	template := func(metadata string) string { return `{"spec":{"template":{"metadata":` + metadata + `}}}` }
	const labels, none = `{"labels":{"tier":"gold"}}`, `{"annotations":{"kubesphere.io/creator":"ann"}}`
	all(t, g, map[string]write{
		"Added":               {resource: "workspaces", name: "v", old: `{}`, now: labelled, refused: "choose the roles"},
		"Changed":             {resource: "workspaces", name: "v", old: another, now: labelled, refused: "choose the roles"},
		"TakenAway":           {resource: "workspaces", name: "v", old: labelled, now: `{}`, refused: "choose the roles"},
		"Left":                {resource: "workspaces", name: "v", old: labelled, now: labelled},
		"OfANewOne":           {resource: "workspaces", name: "new", now: labelled, refused: "choose the roles"},
		"ByWhoRunsThem":       {by: "keeper", resource: "workspaces", name: "v", old: `{}`, now: labelled},
		"OfANewTemplate":      {resource: "workspacetemplates", name: "new", now: template(labels), refused: "delete any workspace template"},
		"ByWhoRunsTemplates":  {by: "keeper", resource: "workspacetemplates", name: "new", now: template(labels)},
		"AsTheConsoleMakesIt": {resource: "workspacetemplates", name: "new", now: template(none)},
		"OfTheTemplateItself": {resource: "workspacetemplates", name: "new", now: labelled},
		"WithProtectionToo": {resource: "workspacetemplates", name: "new", refused: "delete any workspace template",
			now: `{"metadata":{"labels":{"kubesphere.io/protected-resource":"true"}},` + template(labels)[1:]},
	})
}

// S67, F26: what counts in a workspace that the hub of the fleet keeps is written there, whoever writes here; what takes rights away is written here as
// well. A workspace of the cluster's own is as it was.
func TestS67RolesInAWorkspaceOfTheHubAreWrittenThere(t *testing.T) {
	w, g := newTenancy(t)
	for gvr, sink := range g.Known.Sinks() {
		if gvr.Resource == "workspaces" {
			sink.Set(&store.Object{Name: "w", Raw: []byte(`{"metadata":{"labels":{"kapis.dev/fleet":"hub"}}}`)})
		}
	}
	w.holds[`root@in the workspace "v"`], w.holds[`kapis:hub@in the workspace "w"`] = []string{"*"}, []string{"*"}
	w.roles[authz.RoleRef{Scope: request.Workspace, Name: "v-a"}] = "a"
	const to = `"roleRef":{"kind":"WorkspaceRole","name":"`
	binding := func(workspace, users string) string {
		return `{"metadata":{"labels":{"kubesphere.io/workspace":"` + workspace + `"}},` + to + workspace + `-a"},"subjects":[` + users + `]}`
	}
	role := func(workspace, rules string) string {
		return `{"metadata":{"labels":{"kubesphere.io/workspace":"` + workspace + `"}},"rules":` + rules + `}`
	}
	const eve, ann, kept = `{"kind":"User","name":"eve"}`, `{"kind":"User","name":"ann"}`, `the hub of the fleet keeps the workspace "w" here`
	gets := text(t, rules("a"))
	all(t, g, map[string]write{
		"ABinding":             {resource: "workspacerolebindings", name: "x", now: binding("w", eve), refused: kept},
		"ABindingByAll":        {by: "root", resource: "workspacerolebindings", name: "x", now: binding("w", eve), refused: kept},
		"OneMoreInABinding":    {resource: "workspacerolebindings", name: "x", old: binding("w", ann), now: binding("w", ann+","+eve), refused: kept},
		"ABindingThatIsMoved":  {by: "root", resource: "workspacerolebindings", name: "x", old: binding("v", eve), now: binding("w", eve), refused: kept},
		"OneFewerInABinding":   {resource: "workspacerolebindings", name: "x", old: binding("w", ann+","+eve), now: binding("w", ann)},
		"TheHubsBinding":       {by: "kapis:hub", resource: "workspacerolebindings", name: "x", now: binding("w", eve)},
		"ABindingOfItsOwn":     {by: "root", resource: "workspacerolebindings", name: "x", now: binding("v", eve)},
		"ARole":                {resource: "workspaceroles", name: "w-x", now: role("w", gets), refused: kept},
		"ARoleWithoutRules":    {by: "root", resource: "workspaceroles", name: "w-x", now: role("w", `[]`), refused: kept},
		"ARoleThatIsChanged":   {by: "root", resource: "workspaceroles", name: "w-a", old: role("w", `[]`), now: role("w", gets), refused: kept},
		"TheHubsRole":          {by: "kapis:hub", resource: "workspaceroles", name: "w-x", now: role("w", gets)},
		"ARoleOfItsOwn":        {by: "root", resource: "workspaceroles", name: "v-x", now: role("v", gets)},
		"ARoleInANamespaceOfW": {resource: "rolebindings", namespace: "n", name: "x", now: `{"roleRef":{"kind":"Role","name":"viewer"},"subjects":[` + eve + `]}`},
	})
}
