package admission

import (
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// The administrators of a workspace decide who is in its groups. One with the name of a group of an identity provider does not get what is meant for that
// one.
func TestS6AGroupOfAWorkspaceIsBoundNowhereElse(t *testing.T) {
	w, g := newWorld(t)
	w.holds[`root@in the workspace "v"`], w.holds["root@in the cluster"] = []string{"*"}, []string{"*"}
	for _, n := range []string{"n", "v1", "lone"} {
		w.holds["root@in the namespace "+`"`+n+`"`] = []string{"*"}
		w.roles[authz.RoleRef{Scope: request.Namespace, Namespace: n, Name: "viewer"}] = "a"
	}
	const away = `is one of the workspace "w"`
	of := func(w string) string { return `{"metadata":{"labels":{"kubesphere.io/workspace":"` + w + `"}}}` }
	all(t, g, map[string]write{
		"OnThePlatform":               {by: "root", resource: "globalrolebindings", now: bound("ab", "g:dev"), refused: away},
		"BesideOthers":                {by: "root", resource: "globalrolebindings", old: bound("ab", "bob"), now: bound("ab", "bob", "g:dev"), refused: away},
		"InTheCluster":                {by: "root", resource: "clusterrolebindings", now: bound("a", "g:dev"), refused: away},
		"InAnotherWorkspace":          {by: "root", resource: "workspacerolebindings", now: in("v", bound("w-a", "g:dev")), refused: away},
		"InAWorkspaceThatIsNotSaid":   {by: "root", resource: "workspacerolebindings", now: bound("w-a", "g:dev"), refused: away},
		"InANamespaceOfAnother":       {by: "root", resource: "rolebindings", namespace: "v1", now: bound("viewer", "g:dev"), refused: away},
		"InANamespaceOfNone":          {by: "root", resource: "rolebindings", namespace: "lone", now: bound("viewer", "g:dev"), refused: away},
		"InItsWorkspace":              {by: "root", resource: "workspacerolebindings", now: in("w", bound("w-a", "g:dev"))},
		"InANamespaceOfIt":            {by: "root", resource: "rolebindings", namespace: "n", now: bound("viewer", "g:dev")},
		"AsItWas":                     {by: "root", resource: "globalrolebindings", old: bound("ab", "g:dev"), now: bound("ab", "g:dev", "bob")},
		"Retargeted":                  {by: "root", resource: "globalrolebindings", old: bound("ab", "g:dev"), now: bound("c", "g:dev"), refused: away},
		"AUserOfTheName":              {by: "root", resource: "globalrolebindings", now: bound("ab", "dev")},
		"AGroupOfNoWorkspace":         {by: "root", resource: "globalrolebindings", now: bound("ab", "g:wide")},
		"AGroupOfAProvider":           {by: "root", resource: "globalrolebindings", now: bound("ab", "g:corp")},
		"TakenOutOfItsWorkspace":      {resource: "groups", name: "dev", old: of("w"), now: `{}`, refused: "needs the verb bind on groups"},
		"TakenToAnotherWorkspace":     {resource: "groups", name: "dev", old: of("w"), now: of("v"), refused: "needs the verb bind on groups"},
		"TakenIntoAWorkspace":         {resource: "groups", name: "wide", old: `{}`, now: of("w"), refused: "needs the verb bind on groups"},
		"TakenAwayByWhoMayBindGroups": {resource: "groups", name: "open", old: `{}`, now: of("w")},
		"ItsNotes": {
			resource: "groups",
			name:     "dev",
			old:      of("w"),
			now:      `{"metadata":{"annotations":{"a":"b"},"labels":{"kubesphere.io/workspace":"w"}}}`,
		},
	})
}

// What a former group of the name has left gives its users nothing in a new one: a GroupBinding may have been made while the group went.
func TestAGroupTakesNoMembersOfAFormerOne(t *testing.T) { // S69
	_, g := newWorld(t)
	member := func(group string) string {
		return `{"metadata":{"labels":{"kubesphere.io/workspace":"v"}},"groupRef":{"name":"` + group + `"},"users":["eve"]}`
	}
	feed(g.Known, "groupbindings", "", "left", member("former"))
	feed(g.Known, "groupbindings", "", "left2", member("former"))
	feed(g.Known, "groupbindings", "", "moved", member("other"))
	feed(g.Known, "groupbindings", "", "moved", member("dev"))
	feed(g.Known, "groupbindings", "", "open", member("open"))
	again := func(name, refused string) write {
		return write{resource: "groups", name: name, now: `{"metadata":{"name":"` + name + `","labels":{"kubesphere.io/workspace":"w"}}}`, refused: refused}
	}
	all(t, g, map[string]write{
		"WithTheirUsers":        again("former", "their users would be in this one"),
		"WhoseUsersHaveLeft":    again("other", ""),
		"ByWhoMayBindTheGroup":  again("open", ""),
		"OfANameThatIsNobodys":  again("fresh", ""),
		"AnExistingGroupsNotes": {resource: "groups", name: "dev", old: `{}`, now: `{"metadata":{"annotations":{"a":"b"}}}`},
	})
	for gvr, sink := range g.Known.Sinks() {
		if gvr.Resource == "groupbindings" {
			sink.Delete("", "left")
			again("former", "their users would be in this one").check(t, g)
			sink.Delete("", "left2")
			sink.Delete("", "left2")
			again("former", "").check(t, g)
		}
	}
}

// A GroupBinding that is made while its group goes would stay after it.
func TestNobodyJoinsAGroupThatIsBeingDeleted(t *testing.T) { // S69
	_, g := newWorld(t)
	joins := func(refused string) write {
		return write{
			by: "root", resource: "groupbindings", name: "x", refused: refused,
			now: `{"metadata":{"labels":{"kubesphere.io/workspace":"w"}},"groupRef":{"name":"dev"},"users":["eve"]}`,
		}
	}
	joins("").check(t, g)
	feed(g.Known, "groups", "", "dev", `{"metadata":{"labels":{"kubesphere.io/workspace":"w"},"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)
	joins("is being deleted").check(t, g)
	left := joins("")
	left.old, left.now = left.now, strings.Replace(left.now, `["eve"]`, `[]`, 1)
	left.check(t, g)
	feed(g.Known, "groups", "", "dev", `{"metadata":{"labels":{"kubesphere.io/workspace":"w"}}}`)
	joins("").check(t, g)
}

// S6: a user who does not exist gets what GroupBindings and workspaces give the name as soon as somebody makes it. The writer holds that, as if it was
// given then.
func TestS6WhoMakesAUserGivesWhatWaitsForTheName(t *testing.T) {
	w, g := newWorld(t)
	w.holds["clerk@on the platform"] = []string{"a"}
	w.holds["keeper@on the platform"] = []string{"workspacetemplates"}
	w.verbs[`clerk@in the workspace "w" bind workspaceroles/w-admin`] = true
	feed(g.Known, "groupbindings", "", "one", `{"groupRef":{"name":"ops"},"users":["carol","carol"]}`)
	feed(g.Known, "groupbindings", "", "two", `{"groupRef":{"name":"dev"},"users":["dave","erin"]}`)
	feed(g.Known, "groupbindings", "", "three", `{"groupRef":{"name":"open"},"users":["erin"]}`)
	feed(g.Known, "groupbindings", "", "four", `{"groupRef":{"name":"system:masters"},"users":["frank"]}`)
	feed(g.Known, "groupbindings", "", "five", `{"groupRef":{"name":"later"},"users":["grace"]}`)
	feed(g.Known, "workspaces", "", "w", `{"spec":{"manager":"mary"}}`)
	feed(g.Known, "workspacetemplates", "", "w", `{"spec":{"template":{"spec":{"manager":"tom"}}}}`)
	feed(g.Known, "workspaces", "", "bare", `{"spec":{"manager":"bart"}}`)
	feed(g.Known, "workspaces", "", "system-workspace", `{"spec":{"manager":"sue"}}`)
	w.roles[authz.RoleRef{Scope: request.Workspace, Name: "system-workspace-admin"}] = "c"
	made := func(by, name, refused string) write {
		return write{by: by, resource: "users", name: name, now: `{"spec":{"password":"x"}}`, refused: refused}
	}
	all(t, g, map[string]write{
		"OfAGroupWithMore":             made("", "carol", `group "ops" names this user: take another name; putting users in the group "ops"`),
		"OfAGroupWithWhatHeHolds":      made("", "dave", ""),
		"OfAGroupThatHeMayBind":        made("", "erin", ""),
		"OfAGroupThatNobodyIsPutIn":    made("", "frank", ""),
		"OfAGroupThatIsNotThere":       made("", "grace", "needs the verb bind on groups"),
		"ByWhoHoldsEverything":         made("root", "carol", ""),
		"ByTheHub":                     {by: "kapis:hub", resource: "users", name: "carol", now: `{"spec":{"email":"a@example.com"}}`},
		"ByTheHubToLogIn":              made("kapis:hub", "carol", "names this user"),
		"OfAManager":                   made("", "mary", `the workspace "w" names this user as its manager: take another name; `),
		"OfAManagerByTheTemplate":      made("", "tom", `the workspace "w" names this user as its manager`),
		"OfAManagerByWhoBindsTheRole":  made("clerk", "mary", ""),
		"OfAManagerByWhoRunsThem":      made("keeper", "mary", ""),
		"OfAManagerWhoseRoleIsMissing": made("", "bart", `the workspace "bare" names this user`),
		"OfTheSystemsManager":          made("keeper", "sue", `the workspace "system-workspace" names this user`),
		"OfANameThatIsNobodys":         made("", "zoe", ""),
		"OfAUserWhoIsThere":            {resource: "users", name: "carol", old: `{"spec":{"password":"x"}}`, now: `{"spec":{"password":"y"}}`},
	})
	for name, want := range map[string]bool{"carol": true, "mary": true, "tom": true, "zoe": false, "": false} {
		if g.Known.Named(name) != want {
			t.Errorf("whether %q is named: %v", name, !want)
		}
	}
	feed(g.Known, "groupbindings", "", "one", `{"groupRef":{"name":"ops"},"users":["eve"]}`)
	feed(g.Known, "workspaces", "", "w", `{"spec":{}}`)
	all(t, g, map[string]write{"WhoWasTakenOutOfTheGroup": made("", "carol", ""), "WhoManagesItNoLonger": made("", "mary", "")})
	for gvr, sink := range g.Known.Sinks() {
		if gvr.Resource == "groupbindings" {
			sink.Delete("", "one")
			made("", "eve", "").check(t, g)
		}
	}
	if g.Known.Named("eve") || g.Known.Named("carol") || g.Known.Named("mary") {
		t.Error("what is gone still names its users")
	}
}
