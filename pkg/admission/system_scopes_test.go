package admission

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// A user who manages all workspaces, by verbs that are given for that by name, gets no right at the system's scopes: with the Secrets there, they could
// impersonate everyone.
func TestS6TheSystemsPlacesAreForThoseWhoHoldWhatTheyGive(t *testing.T) {
	w, g := newWorld(t)
	platform := "manager@on the platform"
	w.holds[platform] = []string{"workspaces", "workspacetemplates"}
	role := func(scope request.Scope, namespace, name string) {
		ref := authz.RoleRef{Scope: scope, Namespace: namespace, Name: name}
		w.roles[ref] = "ac"
		for _, place := range []authz.BindingScope{{Scope: scope, Namespace: namespace}, {Scope: scope, Workspace: "system-workspace"},
			{Scope: scope, Workspace: "w"}} {
			for _, verb := range []string{"bind", "escalate"} {
				for _, who := range []string{"manager", "holder"} {
					w.verbs[who+"@"+place.String()+" "+verb+" "+rolesOf(scope)+"/"+name] = true
				}
			}
		}
	}
	role(request.Workspace, "", "system-workspace-admin")
	role(request.Workspace, "", "w-boss")
	for _, n := range []string{"kube-system", "kubesphere-system", "kubesphere", "default", "operator", "n"} {
		role(request.Namespace, n, "boss")
	}
	for _, place := range []string{`in the workspace "system-workspace"`, `in the namespace "kube-system"`} {
		w.holds["holder@"+place] = []string{"a", "c"}
		w.holds["all@"+place] = []string{"*"}
	}
	const system = "is no way to it there"
	boss, me := bound("boss", "manager"), bound("system-workspace-admin", "manager")
	all(t, g, map[string]write{
		"ItsWorkspace":              {by: "manager", resource: "workspacerolebindings", now: in("system-workspace", me), refused: system},
		"AnotherWorkspace":          {by: "manager", resource: "workspacerolebindings", now: in("w", bound("w-boss", "manager"))},
		"ByWhoHoldsTheRules":        {by: "holder", resource: "workspacerolebindings", now: in("system-workspace", me)},
		"TheNamespaceOfKubernetes":  {by: "manager", resource: "rolebindings", namespace: "kube-system", now: boss, refused: system},
		"TheNamespaceOfThePlatform": {by: "manager", resource: "rolebindings", namespace: "kubesphere-system", now: boss, refused: system},
		"TheDefaultNamespace":       {by: "manager", resource: "rolebindings", namespace: "default", now: boss, refused: system},
		"ANamespaceInItsWorkspace":  {by: "manager", resource: "rolebindings", namespace: "operator", now: boss, refused: system},
		"AnotherNamespace":          {by: "manager", resource: "rolebindings", namespace: "n", now: boss},
		"WhoHoldsThemThere":         {by: "holder", resource: "rolebindings", namespace: "kube-system", now: boss},
		"ToWhomKubernetesNames": {
			by:        "holder",
			resource:  "rolebindings",
			namespace: "kube-system",
			now:       bound("boss", "g:system:authenticated"),
			refused:   "may do everything there",
		},
		"ToWhomKubernetesNamesByAll": {by: "all", resource: "rolebindings", namespace: "kube-system", now: bound("boss", "g:system:authenticated")},
		"ARoleThatIsNotThere":        {by: "manager", resource: "rolebindings", namespace: "kube-system", now: bound("later", "manager"), refused: "make it first"},
		"ToAServiceAccount": {
			by:        "manager",
			resource:  "serviceaccounts",
			namespace: "kubesphere-system",
			now:       `{"metadata":{"annotations":{"iam.kubesphere.io/role":"boss"}}}`,
			refused:   system,
		},
		"MoreIntoARole": {
			by:        "manager",
			resource:  "roles",
			namespace: "kube-system",
			name:      "boss",
			old:       `{}`,
			now:       `{` + ruled(t, "ac") + `}`,
			refused:   system,
		},
		"MoreIntoARoleElsewhere": {by: "manager", resource: "roles", namespace: "n", name: "boss", old: `{}`, now: `{` + ruled(t, "ac") + `}`},
		"ItsManager": {
			by:       "manager",
			resource: "workspaces",
			name:     "system-workspace",
			old:      `{"spec":{"manager":"admin"}}`,
			now:      `{"spec":{"manager":"manager"}}`,
			refused:  system,
		},
		"ItsManagerByItsTemplate": {
			by:       "manager",
			resource: "workspacetemplates",
			name:     "system-workspace",
			old:      `{"spec":{}}`,
			now:      `{"spec":{"template":{"spec":{"manager":"manager"}}}}`,
			refused:  system,
		},
		"ItsManagerByWhoHasIt": {by: "holder", resource: "workspaces", name: "system-workspace", old: `{}`, now: `{"spec":{"manager":"bob"}}`},
		"ItsManagerAsItWas": {
			by:       "manager",
			resource: "workspaces",
			name:     "system-workspace",
			old:      `{"spec":{"manager":"admin"}}`,
			now:      `{"metadata":{"labels":{"a":"b"}},"spec":{"manager":"admin"}}`,
		},
		"AWorkspaceOfItsNameBeforeIt": {
			by:       "manager",
			resource: "workspacetemplates",
			name:     "system-workspace",
			now:      `{"spec":{"template":{"spec":{"manager":"manager"}}}}`,
			refused:  system,
		},
		"TheManagerOfAnotherOne": {by: "manager", resource: "workspaces", name: "w", old: `{}`, now: `{"spec":{"manager":"bob"}}`},
	})
	delete(w.roles, authz.RoleRef{Scope: request.Workspace, Name: "system-workspace-admin"})
	write{by: "manager", resource: "workspaces", name: "system-workspace", now: `{"spec":{"manager":"manager"}}`, refused: "make it first"}.check(t, g)
}

// A caller who is no user of ours may write at the system's scopes if kube-apiserver allows them everything; a verb by name does not count.
func TestS6AServiceAccountNeedsEverythingAtTheSystemsPlaces(t *testing.T) {
	_, g := newWorld(t)
	var asked []string
	g.Native = func(_ context.Context, u user.Info, verb string, gvr schema.GroupVersionResource, namespace, name string) (bool, error) {
		asked = append(asked, strings.Join([]string{verb, gvr.Group, gvr.Resource, namespace, name}, " "))
		return verb == "*" && u.GetName() == "robot" || verb == "bind", nil
	}
	all(t, g, map[string]write{
		"WhoMayDoEverything": {by: "robot", resource: "rolebindings", namespace: "kube-system", now: bound("boss", "x")},
		"WhoMayBind":         {by: "binder", resource: "rolebindings", namespace: "kube-system", now: bound("boss", "x"), refused: "make it first"},
	})
	if len(asked) != 2 || asked[0] != "* * *  " || asked[1] != asked[0] {
		t.Errorf("asked %q", asked)
	}
}

// S6: a user who manages users can't become a member of the system's scopes, whose Secrets are the platform's keys.
func TestS6WhoManagesUsersIsBelowTheMembersOfTheSystem(t *testing.T) {
	w, g := newWorld(t)
	w.holds["clerk@on the platform"] = []string{"a", "b"}
	for name, place := range map[string]authz.BindingScope{
		"zoe": {Scope: request.Workspace, Workspace: "system-workspace"}, "yan": {Scope: request.Namespace, Namespace: "kubesphere-system"},
		"lee": {Scope: request.Namespace, Namespace: "operator"}, "mia": {Scope: request.Namespace, Namespace: "n"},
		"kim": {Scope: request.Workspace, Workspace: "w"}, "g:crew": {Scope: request.Namespace, Namespace: "kube-system"},
	} {
		role := authz.RoleRef{Scope: place.Scope, Namespace: place.Namespace, Name: "boss"}
		w.roles[role], w.bound[name+"@"+place.String()] = "ac", []authz.RoleRef{role}
		w.holds["peer@"+place.String()] = []string{"a", "c"}
		w.verbs["clerk@"+place.String()+" bind "+rolesOf(place.Scope)+"/boss"] = true
	}
	const old, now = `{"spec":{"password":"x"}}`, `{"spec":{"password":"y"}}`
	grouped := func(user string) string { return strings.Replace(user, `"spec":{`, `"spec":{"groups":["crew"],`, 1) }
	set := func(by, name, refused string) write {
		return write{by: by, resource: "users", name: name, old: old, now: now, refused: refused}
	}
	all(t, g, map[string]write{
		"OfItsWorkspace":             set("clerk", "zoe", "is no way to it there"),
		"OfItsNamespace":             set("clerk", "yan", "is no way to it there"),
		"OfANamespaceInItsWorkspace": set("clerk", "lee", "is no way to it there"),
		"OfAnotherNamespace":         set("clerk", "mia", ""),
		"OfAnotherWorkspace":         set("clerk", "kim", ""),
		"OfNone":                     set("clerk", "bea", ""),
		"ByOneOfThem":                set("peer", "zoe", ""),
		"OfThemselves":               set("zoe", "zoe", ""),
		"ByAGroup":                   {by: "clerk", resource: "users", name: "bea", old: grouped(old), now: grouped(now), refused: "is no way to it there"},
		"TheAddress": {by: "clerk", resource: "users", name: "yan", old: `{"spec":{"email":"a@x.com"}}`, now: `{"spec":{"email":"b@x.com"}}`,
			refused: "get c"},
		"ANewOneOfTheName": {by: "clerk", resource: "users", name: "yan", now: now, refused: "get c"},
		"TheHub":           {by: "kapis:hub", resource: "users", name: "yan", now: `{"spec":{"email":"a@x.com"}}`},
	})
	if err := end(t, g, "clerk", "users", "", `{"metadata":{"name":"yan"}}`); err == nil {
		t.Error("the deletion is let pass")
	}
	if err := end(t, g, "kapis:hub", "users", "", `{"metadata":{"name":"yan"}}`); err != nil {
		t.Errorf("the hub can't delete whom it made: %v", err)
	}
}
