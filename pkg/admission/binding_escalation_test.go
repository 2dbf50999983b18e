package admission

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

// bound returns a binding of a role to users and groups ("g:dev").
func bound(role string, names ...string) string {
	s := `{"roleRef":{"apiGroup":"iam.kubesphere.io","name":"` + role + `"},"subjects":[`
	for i, n := range names {
		if i > 0 {
			s += ","
		}
		kind := "User"
		if len(n) > 2 && n[:2] == "g:" {
			kind, n = "Group", n[2:]
		}
		s += `{"kind":"` + kind + `","name":"` + n + `"}`
	}
	return s + `]}`
}

func in(workspace, object string) string {
	return `{"metadata":{"labels":{"kubesphere.io/workspace":"` + workspace + `"}},` + object[1:]
}

func TestNobodyBindsARoleThatHeDoesNotHold(t *testing.T) { // S6
	_, g := newWorld(t)
	all(t, g, map[string]write{
		"WhatHeHolds":         {resource: "globalrolebindings", now: bound("ab", "bob")},
		"HimselfToMore":       {resource: "globalrolebindings", now: bound("c", "ann"), refused: "get c"},
		"AnotherToMore":       {resource: "globalrolebindings", now: bound("c", "bob"), refused: "on the platform"},
		"BindByName":          {resource: "globalrolebindings", now: bound("bindable", "bob")},
		"ARoleThatIsNotThere": {resource: "globalrolebindings", now: bound("later", "ann"), refused: "make it first"},
		"NobodyIsBound":       {resource: "globalrolebindings", now: bound("c")},
		"OneMore":             {resource: "globalrolebindings", old: bound("c", "bob"), now: bound("c", "bob", "ann"), refused: "get c"},
		"OneLess":             {resource: "globalrolebindings", old: bound("c", "bob", "ann"), now: bound("c", "ann")},
		"Retargeted":          {resource: "globalrolebindings", old: bound("ab", "ann"), now: bound("c", "ann"), refused: "get c"},
		"ALabel":              {resource: "globalrolebindings", old: bound("c", "bob"), now: `{"metadata":{"labels":{"a":"b"}},` + bound("c", "bob")[1:]},
		"InHisWorkspace":      {resource: "workspacerolebindings", now: in("w", bound("w-a", "bob"))},
		"InHisWorkspaceMore":  {resource: "workspacerolebindings", now: in("w", bound("w-admin", "ann")), refused: `in the workspace "w"`},
		"AcrossWorkspaces":    {resource: "workspacerolebindings", now: in("v", bound("w-a", "ann")), refused: `in the workspace "v"`},
		"MovedToAnotherWorkspace": {
			resource: "workspacerolebindings",
			old:      in("w", bound("w-a", "ann")),
			now:      in("v", bound("w-a", "ann")),
			refused:  `in the workspace "v"`,
		},
		"OfNoWorkspace":      {by: "wsadmin", resource: "workspacerolebindings", now: bound("w-a", "ann"), refused: "on the platform"},
		"InHisNamespace":     {resource: "rolebindings", namespace: "n", now: bound("viewer", "bob")},
		"InHisNamespaceMore": {resource: "rolebindings", namespace: "n", now: bound("admin", "ann"), refused: `in the namespace "n"`},
		"InAnotherNamespace": {resource: "rolebindings", namespace: "m", now: bound("viewer", "ann"), refused: "make it first"},
		"InTheCluster":       {resource: "clusterrolebindings", now: bound("a", "bob")},
		"InTheClusterMore":   {resource: "clusterrolebindings", now: bound("c", "bob"), refused: "in the cluster"},
		"AKindOfOurOwnGroups": {
			by:       "root",
			resource: "globalrolebindings",
			now:      bound("ab", "g:kapis:global:platform-admin"),
			refused:  "this server's own",
		}, // S13
		"AKubernetesGroup":        {resource: "globalrolebindings", now: bound("ab", "g:system:authenticated"), refused: "needs the verb bind"},
		"AKubernetesUser":         {resource: "globalrolebindings", now: bound("ab", "system:anonymous"), refused: "needs the verb bind"},
		"AKubernetesGroupByName":  {resource: "globalrolebindings", now: bound("bindable", "g:system:authenticated")},
		"AKubernetesGroupAsItWas": {resource: "globalrolebindings", old: bound("ab", "g:system:authenticated"), now: bound("ab", "g:system:authenticated", "bob")},
		"ManagerOfAWorkspace": {
			resource: "workspacetemplates",
			name:     "w",
			old:      `{"spec":{}}`,
			now:      `{"spec":{"template":{"spec":{"manager":"ann"}}}}`,
			refused:  `workspaceroles "w-admin"`,
		},
		"ManagerByWhoHasIt": {
			by:       "root",
			resource: "workspacetemplates",
			name:     "w",
			old:      `{"spec":{}}`,
			now:      `{"spec":{"template":{"spec":{"manager":"ann"}}}}`,
		},
		"ManagerOfTheOther": {
			resource: "workspaces",
			name:     "w",
			old:      `{"spec":{"manager":"bob"}}`,
			now:      `{"spec":{"manager":"ann"}}`,
			refused:  `workspaceroles "w-admin"`,
		},
		"ManagerOfANewWorkspace": {resource: "workspacetemplates", name: "new", now: `{"spec":{"template":{"spec":{"manager":"bob"}}}}`},
		"ManagerByANewTemplate": {
			resource: "workspacetemplates",
			name:     "w",
			now:      `{"spec":{"template":{"spec":{"manager":"ann"}}}}`,
			refused:  `workspaceroles "w-admin"`,
		},
		"NoManagerByANewTemplate": {resource: "workspacetemplates", name: "w", now: `{"spec":{}}`, refused: "namespaces with the label"},
		"ManagerTakenAway":        {resource: "workspaces", name: "w", old: `{"spec":{"manager":"bob"}}`, now: `{"spec":{}}`},
		"DescriptionOfAWorkspace": {
			resource: "workspaces",
			name:     "w",
			old:      `{"spec":{"manager":"bob"}}`,
			now:      `{"metadata":{"annotations":{"a":"b"}},"spec":{"manager":"bob"}}`,
		},
		"OwnersOfAWorkspace": {
			resource: "workspaces",
			name:     "w",
			old:      `{}`,
			now:      `{"metadata":{"ownerReferences":[{"name":"gone","uid":"u"}]}}`,
			refused:  "may delete any of the workspaces",
		},
		"OwnersTakenAway": {
			resource: "workspaces",
			name:     "w",
			old:      `{"metadata":{"ownerReferences":[{"name":"w","uid":"u"}]}}`,
			now:      `{}`,
			refused:  "may delete any of the workspaces",
		},
		"OwnersOfANewWorkspace": {
			resource: "workspaces",
			name:     "new",
			now:      `{"metadata":{"ownerReferences":[{"name":"new","uid":"u"}]}}`,
			refused:  "may delete any of the workspaces",
		},
		"OwnersByWhoMayDelete":  {by: "root", resource: "workspaces", name: "w", old: `{}`, now: `{"metadata":{"ownerReferences":[{"name":"w","uid":"u"}]}}`},
		"RoleOfAServiceAccount": {resource: "serviceaccounts", namespace: "n", now: `{"metadata":{"annotations":{"iam.kubesphere.io/role":"viewer"}}}`},
		"MoreForAServiceAccount": {
			resource:  "serviceaccounts",
			namespace: "n",
			now:       `{"metadata":{"annotations":{"iam.kubesphere.io/role":"admin"}}}`,
			refused:   "get c",
		},
		"AServiceAccountAsItWas": {
			resource:  "serviceaccounts",
			namespace: "n",
			old:       `{"metadata":{"annotations":{"iam.kubesphere.io/role":"admin"}}}`,
			now:       `{"metadata":{"annotations":{"iam.kubesphere.io/role":"admin"}}}`,
		},
		"AServiceAccountWithoutIt": {resource: "serviceaccounts", namespace: "n", now: `{}`},
	})
}

func TestWhoManagesWorkspacesSaysWhoRunsThem(t *testing.T) {
	w, g := newWorld(t)
	for _, place := range []string{"ann@on the platform", `ann@in the workspace "w"`} {
		w.holds[place] = append(w.holds[place], "workspacetemplates")
	}
	write{resource: "workspacetemplates", name: "w", old: `{"spec":{}}`, now: `{"spec":{"template":{"spec":{"manager":"bob"}}}}`}.check(t, g)
}

// A user who may patch every template, as roles of existing installations allow every user who is logged in, can't take over a workspace by that.
func TestATemplateIsNotTakenOver(t *testing.T) { // S6
	w, g := newWorld(t)
	w.holds["fleet@on the platform"] = []string{"workspacetemplates", "clusters"}
	w.holds["mover@on the platform"] = []string{"workspacetemplates"}
	w.holds["local@on the platform"] = []string{"workspacetemplates"}
	for _, name := range []string{"fleet", "mover", "local", "editor"} {
		w.holds[name+`@in the workspace "w"`] = []string{"workspacetemplates"}
	}
	w.holds["local@in the cluster"] = []string{"*"}
	for gvr, sink := range g.Known.Sinks() {
		if gvr.Resource == "clusters" {
			sink.Set(&store.Object{Name: "open", Raw: []byte(`{"metadata":{"labels":{"cluster.kubesphere.io/visibility":"public"}}}`)})
			sink.Set(&store.Object{Name: "closed", Raw: []byte(`{"metadata":{"labels":{"cluster.kubesphere.io/visibility":"public"}}}`)})
			sink.Set(&store.Object{Name: "closed", Raw: []byte(`{"metadata":{"labels":{"cluster.kubesphere.io/visibility":"private"}}}`)})
			sink.Set(&store.Object{Name: "gone", Raw: []byte(`{"metadata":{"labels":{"cluster.kubesphere.io/visibility":"public"}}}`)})
			sink.Delete("", "gone")
		}
	}
	g.Host = "host"
	placed := func(names ...string) string {
		return `{"spec":{"template":{"spec":{"manager":"boss"}},"placement":{"clusters":[` + strings.Join(names, ",") + `]}}}`
	}
	unreadable := func(names ...string) string {
		return strings.Replace(placed(names...), `"clusters"`, `"clusterSelector":{"matchLabels":{"zone":"no value"}},"clusters"`, 1)
	}
	open, closed, host := `{"name":"open"}`, `{"name":"closed"}`, `{"name":"host"}`
	const old, labelled = `{"spec":{"template":{"spec":{"manager":"boss"}}}}`,
		`{"metadata":{"labels":{"kubesphere.io/protected-resource":"true"}},"spec":{"template":{"spec":{"manager":"boss"}}}}`
	all(t, g, map[string]write{
		"ItsNotes": {
			resource: "workspacetemplates",
			name:     "w",
			old:      old,
			now:      `{"metadata":{"annotations":{"a":"b"}},` + old[1:],
			refused:  "who may update it",
		},
		"NotEvenToLookAtIt": {
			resource: "workspacetemplates",
			name:     "w",
			old:      old,
			now:      old,
			refused:  "who may update it",
		}, // the answer to a write is the object
		"ItsNotesByWhoMay": {by: "editor", resource: "workspacetemplates", name: "w", old: old, now: `{"metadata":{"annotations":{"a":"b"}},` + old[1:]},
		"ItsManager": {
			resource: "workspacetemplates",
			name:     "w",
			old:      old,
			now:      `{"spec":{"template":{"spec":{"manager":"ann"}}}}`,
			refused:  "w-admin",
		},
		"ItsProtection":           {by: "editor", resource: "workspacetemplates", name: "w", old: old, now: labelled, refused: "delete any workspace template"},
		"ItsProtectionTakenAway":  {by: "editor", resource: "workspacetemplates", name: "w", old: labelled, now: old, refused: "delete any workspace template"},
		"ItsProtectionByManagers": {by: "mover", resource: "workspacetemplates", name: "w", old: labelled, now: old},
		"ItsWorkspacesLabels": {
			by:       "editor",
			resource: "workspacetemplates",
			name:     "w",
			old:      old,
			now:      `{"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"manager":"boss"}}}}`,
			refused:  "but for its annotations",
		},
		"ItsPlacement": {
			by:       "editor",
			resource: "workspacetemplates",
			name:     "w",
			old:      old,
			now:      placed(open),
			refused:  "update any workspace template",
		},
		"ItsPlacementInAPublicOne": {by: "mover", resource: "workspacetemplates", name: "w", old: old, now: placed(open)},
		"NotInAnother":             {by: "mover", resource: "workspacetemplates", name: "w", old: old, now: placed(closed), refused: `"closed"`},
		"NotInOneThatIsGone":       {by: "mover", resource: "workspacetemplates", name: "w", old: old, now: placed(`{"name":"gone"}`), refused: `"gone"`},
		"NotInTheHost":             {by: "mover", resource: "workspacetemplates", name: "w", old: old, now: placed(host), refused: `"host"`},
		"NotOutOfAPublicOne":       {by: "mover", resource: "workspacetemplates", name: "w", old: placed(open), now: old, refused: `"open"`},
		"NotByASelector": {
			by:       "mover",
			resource: "workspacetemplates",
			name:     "w",
			old:      old,
			now:      `{"spec":{"template":{"spec":{"manager":"boss"}},"placement":{"clusterSelector":{}}}}`,
			refused:  "clusterSelector",
		},
		"ByOneThatWasThereBefore":    {by: "fleet", resource: "workspacetemplates", name: "w", old: unreadable(), now: unreadable(closed)},
		"TheHostByItsAdministrator":  {by: "local", resource: "workspacetemplates", name: "w", old: old, now: placed(host)},
		"NoOtherByIt":                {by: "local", resource: "workspacetemplates", name: "w", old: old, now: placed(closed), refused: `"closed"`},
		"AnyByWhoRunsTheFleet":       {by: "fleet", resource: "workspacetemplates", name: "w", old: old, now: placed(closed)},
		"ANewOneInAPublicCluster":    {resource: "workspacetemplates", name: "new", now: placed(open)},
		"ANewOneInNoOther":           {resource: "workspacetemplates", name: "new", now: placed(closed), refused: `"closed"`},
		"WhatIsNoTemplateIsNotTaken": {resource: "workspacetemplates", name: "w", old: old, now: `{"spec":{"placement":7}}`, refused: "can't be read"},
	})
	g.Host = "" // a member places no workspaces
	write{by: "local", resource: "workspacetemplates", name: "w", old: old, now: placed(host), refused: `"host"`}.check(t, g)
}

// holdsVerb is a world in which every user holds one verb, and no other, on everything.
type holdsVerb struct {
	*world
	verb string
}

func (h holdsVerb) Missing(_ user.Info, _ authz.BindingScope, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool { return slices.Equal(r.Verbs, []string{h.verb}) })
}

// A deletion first writes into the template what happens to the namespaces.
func TestATemplateIsChangedByWhoMayUpdateOrDeleteIt(t *testing.T) { // S10
	for verb, refused := range map[string]string{"update": "", "delete": "", "patch": "who may update it"} {
		w, g := newWorld(t)
		g.Holdings = holdsVerb{w, verb}
		write{
			resource: "workspacetemplates",
			name:     "w",
			old:      `{}`,
			now:      `{"metadata":{"annotations":{"kubesphere.io/deletion-propagation":"Orphan"}}}`,
			refused:  refused,
		}.check(
			t,
			g,
		)
	}
}

func TestAGroupIsJoinedByWhoHoldsWhatItHas(t *testing.T) { // S6
	_, g := newWorld(t)
	join := func(group string, users string) string {
		return `{"groupRef":{"name":"` + group + `"},"users":[` + users + `]}`
	}
	all(t, g, map[string]write{
		"OfHisWorkspace":          {resource: "groupbindings", now: in("w", join("dev", `"bob"`))},
		"ThatHasMore":             {resource: "groupbindings", now: in("w", join("ops", `"ann"`)), refused: `the group has the globalroles "c"`},
		"OfAnotherWorkspace":      {resource: "groupbindings", now: in("v", join("dev", `"ann"`)), refused: "not of the workspace"},
		"ByABindingOfNoWorkspace": {resource: "groupbindings", now: join("dev", `"ann"`), refused: "not of the workspace"},
		"OfThePlatform":           {resource: "groupbindings", now: join("wide", `"ann"`), refused: "of no workspace"},
		"ThatIsNotThere":          {resource: "groupbindings", now: in("w", join("ldap", `"ann"`)), refused: "of no workspace"},
		"ByTheVerb":               {resource: "groupbindings", now: join("open", `"ann"`)},
		"OneMore":                 {resource: "groupbindings", old: in("w", join("ops", `"bob"`)), now: in("w", join("ops", `"bob","ann"`)), refused: "get c"},
		"OneLess":                 {resource: "groupbindings", old: in("w", join("ops", `"bob","ann"`)), now: in("w", join("ops", `"bob"`))},
		"AnotherGroup":            {resource: "groupbindings", old: in("w", join("dev", `"ann"`)), now: in("w", join("ops", `"ann"`)), refused: "get c"},
		"InTheUser":               {resource: "users", name: "bob", now: `{"spec":{"groups":["dev"]}}`},
		"InTheUserMore":           {resource: "users", name: "bob", now: `{"spec":{"groups":["ops"]}}`, refused: "get c"},
		"InTheUserAsItWas":        {resource: "users", name: "bob", old: `{"spec":{"groups":["ops"]}}`, now: `{"spec":{"groups":["ops","dev"]}}`},
		"InTheUserOfKubernetes":   {by: "root", resource: "users", name: "bob", now: `{"spec":{"groups":["system:masters"]}}`, refused: "nobody can be put"},
		"InTheUserOfOurs":         {by: "root", resource: "users", name: "bob", now: `{"spec":{"groups":["kapis:global:x"]}}`, refused: "nobody can be put"},
		"AUsersRole":              {resource: "users", name: "bob", now: `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"ab"}}}`},
		"AUsersRoleMore":          {resource: "users", name: "bob", now: `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"c"}}}`, refused: "get c"},
		"AUsersRoleByName":        {resource: "users", name: "bob", now: `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"bindable"}}}`},
		"AUsersRoleAsItWas": {
			resource: "users",
			name:     "bob",
			old:      `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"c"}}}`,
			now:      `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"c"}},"spec":{"lang":"en"}}`,
		},
		"AUsersRoleTakenAway": {resource: "users", name: "bob", old: `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"c"}}}`, now: `{}`},
		"AnUnknownRole": {
			resource: "users",
			name:     "bob",
			now:      `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"later"}}}`,
			refused:  "make it first",
		},
		"AnotherVersionIsTheSame":  {resource: "users", name: "bob", now: `{"apiVersion":"iam.kubesphere.io/v1alpha2","spec":{"groups":["ops"]}}`, refused: "get c"},
		"GroupsOfAnotherTypeAreNo": {resource: "users", name: "bob", now: `{"spec":{"groups":"ops"}}`, refused: "can't be read"},
	})
}

func TestNobodyTakesOverAUserWhoHoldsMore(t *testing.T) { // S6
	_, g := newWorld(t)
	chief := `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"c"}},"spec":{"email":"a@example.com","password":"old"}}`
	peer := `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"ab"}},"spec":{"password":"old"}}`
	role := `"annotations":{"iam.kubesphere.io/globalrole":"c"`
	all(t, g, map[string]write{
		"APeersPassword": {
			resource: "users",
			name:     "bob",
			old:      peer,
			now:      `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"ab"}},"spec":{"password":"new"}}`,
		},
		"AChiefsPassword": {
			resource: "users",
			name:     "bob",
			old:      chief,
			now:      `{"metadata":{` + role + `}},"spec":{"email":"a@example.com","password":"new"}}`,
			refused:  "get c",
		},
		"WithHisRoleGone": {resource: "users", name: "bob", old: chief, now: `{"spec":{"email":"a@example.com","password":"new"}}`, refused: "get c"},
		"AChiefsAddress": {
			resource: "users",
			name:     "bob",
			old:      chief,
			now:      `{"metadata":{` + role + `}},"spec":{"email":"ann@example.com","password":"old"}}`,
			refused:  "get c",
		},
		"AChiefsLink": {
			resource: "users",
			name:     "bob",
			old:      chief,
			now:      `{"metadata":{` + role + `,"iam.kubesphere.io/identity-provider.corp":"ann"}},"spec":{"email":"a@example.com","password":"old"}}`,
			refused:  "get c",
		},
		"AChiefsOldLink": {
			resource: "users",
			name:     "bob",
			old:      chief,
			now:      `{"metadata":{"labels":{"iam.kubesphere.io/origin-uid":"ann"},` + role + `}},"spec":{"email":"a@example.com","password":"old"}}`,
			refused:  "get c",
		},
		"AChiefsState": {
			resource: "users",
			name:     "bob",
			old:      chief,
			now:      `{"metadata":{` + role + `}},"spec":{"email":"a@example.com","password":"old"},"status":{"state":"Disabled"}}`,
			refused:  "get c",
		},
		"AChiefsLanguage": {
			resource: "users",
			name:     "bob",
			old:      chief,
			now:      `{"metadata":{` + role + `}},"spec":{"email":"a@example.com","password":"old","lang":"zh"}}`,
		},
		"HisOwnPassword": {
			by:       "bob",
			resource: "users",
			name:     "bob",
			old:      chief,
			now:      `{"metadata":{` + role + `}},"spec":{"email":"a@example.com","password":"new"}}`,
		},
		"ByWhoHoldsAll": {by: "root", resource: "users", name: "bob", old: chief, now: `{"metadata":{` + role + `}},"spec":{"password":"new"}}`},
		"ByAnotherBinding": {
			resource: "users",
			name:     "chief",
			old:      peer,
			now:      `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"ab"}},"spec":{"password":"new"}}`,
			refused:  "get c",
		},
		"OfTheCluster": {
			resource: "users",
			name:     "lead",
			old:      `{"spec":{"password":"old"}}`,
			now:      `{"spec":{"password":"new"}}`,
			refused:  "in the cluster: get c",
		},
		"MadeWhereTheNameIsBound": {resource: "users", name: "lead", now: `{"spec":{"email":"a@example.com"}}`, refused: "in the cluster: get c"},
		"MadeByTheHub":            {by: "kapis:hub", resource: "users", name: "lead", now: `{"spec":{"email":"a@example.com"}}`},
		"MadeByTheHubToLogIn": {
			by:       "kapis:hub",
			resource: "users",
			name:     "lead",
			now:      `{"spec":{"email":"a@example.com","password":"new"}}`,
			refused:  "in the cluster: get c",
		},
		"MadeByTheHubWithALink": {
			by:       "kapis:hub",
			resource: "users",
			name:     "lead",
			now:      `{"metadata":{"annotations":{"iam.kubesphere.io/identity-provider.corp":"ann"}},"spec":{"email":"a@example.com"}}`,
			refused:  "in the cluster: get c",
		},
		"ChangedByTheHub": {
			by:       "kapis:hub",
			resource: "users",
			name:     "lead",
			old:      `{"spec":{"email":"a@example.com"}}`,
			now:      `{"spec":{"email":"b@example.com"}}`,
		},
		"ChangedByTheHubThoughOfItsOwn": {
			by:       "kapis:hub",
			resource: "users",
			name:     "lead",
			old:      `{"spec":{"email":"a@example.com","password":"old"}}`,
			now:      `{"spec":{"email":"b@example.com"}}`,
			refused:  "in the cluster: get c",
		},
		"ByAGroup": {
			resource: "users",
			name:     "bob",
			old:      `{"spec":{"groups":["ops"],"password":"old"}}`,
			now:      `{"spec":{"groups":["ops"],"password":"new"}}`,
			refused:  "get c",
		},
		"OutOfAGroupFirst": {
			resource: "users",
			name:     "bob",
			old:      `{"spec":{"groups":["ops"],"password":"old"}}`,
			now:      `{"spec":{"password":"new"}}`,
			refused:  "get c",
		},
		"TheLanguage":      {resource: "users", name: "chief", old: `{"spec":{"password":"old"}}`, now: `{"spec":{"password":"old","lang":"zh"}}`},
		"OfOneBelow":       {resource: "users", name: "low", old: `{"spec":{"password":"old"}}`, now: `{"spec":{"password":"new"}}`},
		"OfOneBesides":     {by: "chief2", resource: "users", name: "chief", old: `{"spec":{"password":"old"}}`, now: `{"spec":{"password":"new"}}`},
		"OfADanglingRole":  {resource: "users", name: "dangling", old: `{"spec":{"password":"old"}}`, now: `{"spec":{"password":"new"}}`},
		"MadeAnew":         {resource: "users", name: "chief", now: `{"spec":{"password":"new"}}`, refused: "get c"},
		"MadeAnewByAChief": {by: "root", resource: "users", name: "chief", now: `{"spec":{"password":"new"}}`},
		"MadeForALaterOne": {resource: "users", name: "dangling", now: `{"spec":{"password":"new"}}`, refused: "make it first"},
		"Made":             {resource: "users", name: "low", now: `{"spec":{"password":"new"}}`},
		"OfWhoHasNoRoleAt": {resource: "users", name: "bob", old: `{"spec":{"password":"old"}}`, now: `{"spec":{"password":"new"}}`},
	})
}

func TestAUserWhomKubernetesKnowsIsNobodysToBecome(t *testing.T) { // S6
	w, g := newWorld(t)
	w.verbs["binder@on the platform bind users/oncall"] = true
	g.NamedGroup = func(_ context.Context, name string) (bool, error) { return name == "ops-native" || name == "open", nil }
	g.Named = func(_ context.Context, name string) (bool, error) {
		if name == "unknown" {
			return false, errors.New("down")
		}
		return name == "oncall", nil
	}
	all(t, g, map[string]write{
		"Another":     {resource: "users", name: "x", now: `{}`},
		"TheOne":      {resource: "users", name: "oncall", now: `{}`, refused: "bindings of rbac.authorization.k8s.io, or of a member cluster, name this user"},
		"ByWhoHasAll": {by: "root", resource: "users", name: "oncall", now: `{}`},
		"HisPassword": {resource: "users", name: "oncall", old: `{}`, now: `{"spec":{"password":"x"}}`, refused: "has the verb bind on users"},
		"HisAddress":  {resource: "users", name: "oncall", old: `{"spec":{"email":"a@x"}}`, now: `{"spec":{"email":"b@x"}}`, refused: "name this user"},
		"HisLink": {
			resource: "users",
			name:     "oncall",
			old:      `{}`,
			now:      `{"metadata":{"annotations":{"iam.kubesphere.io/identity-provider.x":"me"}}}`,
			refused:  "name this user",
		},
		"HisLanguage":             {resource: "users", name: "oncall", old: `{"spec":{"password":"x"}}`, now: `{"spec":{"password":"x","lang":"zh"}}`},
		"HisOwn":                  {by: "oncall", resource: "users", name: "oncall", old: `{}`, now: `{"spec":{"password":"x"}}`},
		"ByWhoHasAllOfWhoIsThere": {by: "root", resource: "users", name: "oncall", old: `{}`, now: `{"spec":{"password":"x"}}`},
		"ByWhoMayBindUsers":       {by: "binder", resource: "users", name: "oncall", old: `{}`, now: `{"spec":{"password":"x"}}`},
		"OneInAGroupOfTheirs": {
			resource: "users",
			name:     "x",
			old:      `{"spec":{"groups":["ops-native"]}}`,
			now:      `{"spec":{"groups":["ops-native"],"password":"x"}}`,
			refused:  "name the group",
		},
		"OneTakenOutOfIt": {resource: "users", name: "x", old: `{"spec":{"groups":["ops-native"]}}`, now: `{"spec":{}}`},
		"OneTakenOutToBeTaken": {
			resource: "users",
			name:     "x",
			old:      `{"spec":{"groups":["ops-native"]}}`,
			now:      `{"spec":{"password":"x"}}`,
			refused:  "name the group",
		},
		"OneInAnOpenGroup": {resource: "users", name: "x", old: `{"spec":{"groups":["open"]}}`, now: `{"spec":{"groups":["open"],"password":"x"}}`},
		"UserOfGroups":     {resource: "users", name: "oncall", now: `{"spec":{"groups":["dev"]}}`, refused: "name this user"},
	})
	err := g.Check(
		t.Context(),
		&Write{
			By:     &user.DefaultInfo{Name: "root"},
			Verb:   "create",
			GVR:    schema.GroupVersionResource{Group: "iam.kubesphere.io", Resource: "users"},
			Name:   "unknown",
			Object: []byte(`{}`),
		},
	)
	if err == nil || apierrors.IsForbidden(err) {
		t.Errorf("what can't be found out is %v", err)
	}
	ann, root := &user.DefaultInfo{Name: "ann"}, &user.DefaultInfo{Name: "root"}
	for claim, c := range map[string]struct {
		by      user.Info
		name    string
		groups  []string
		refused bool
	}{
		"Another": {ann, "x", nil, false}, "TheOne": {ann, "oncall", nil, true}, "ByWhoHasAll": {root, "oncall", []string{"ops-native"}, false},
		"InAGroup": {ann, "x", []string{"dev", "ops-native"}, true}, "InAnother": {ann, "x", []string{"dev"}, false},
	} {
		if err := g.Unnamed(t.Context(), c.by, c.name, c.groups); apierrors.IsForbidden(err) != c.refused || !c.refused && err != nil {
			t.Errorf("%s: %v", claim, err)
		}
	}
}

// Groups of identity providers and of Kubernetes' own bindings share their names with Groups: a user who makes a Group of such a name puts themselves in it,
// and its deletion takes what was bound to it from everyone.
func TestAGroupThatBindingsKnowIsNotMadeByAnybody(t *testing.T) { // S6
	_, g := newWorld(t)
	for gvr, s := range g.Known.Sinks() {
		if gvr.Resource == "globalrolebindings" {
			s.Set(&store.Object{Name: "corp", Raw: []byte(bound("ab", "g:corp", "g:open2"))})
		}
	}
	g.NamedGroup = func(_ context.Context, name string) (bool, error) {
		if name == "unknown" {
			return false, errors.New("down")
		}
		return name == "native" || name == "dev", nil
	}
	of := `{"metadata":{"labels":{"kubesphere.io/workspace":"w"}}}`
	sre := write{resource: "groups", name: "sre", now: of}
	sre.check(t, g)
	g.InMembers = func(name string) bool { return name == "sre" || name == "open" }
	all(t, g, map[string]write{
		"Another":               {resource: "groups", name: "x", now: of},
		"NoNameYet":             {resource: "groups", now: of},
		"OneThatABindingNames":  {resource: "groups", name: "corp", now: of, refused: "bindings name a group of this name"},
		"OneWhoseNameWasMadeUp": {resource: "groups", now: `{"metadata":{"generateName":"co","name":"corp"}}`, refused: "bindings name a group of this name"},
		"OneOfKubernetes":       {resource: "groups", name: "native", now: of, refused: "bindings name a group of this name"},
		"OneOfAMember":          {resource: "groups", name: "sre", now: of, refused: "bindings name a group of this name already, here or in a member cluster"},
		"OneOfAMemberByRoot":    {by: "root", resource: "groups", name: "sre", now: of},
		"OneOfAMemberThatIs":    {resource: "groups", name: "sre", old: of, now: of},
		"OneOfTheSystem":        {by: "root", resource: "groups", name: "system:masters", now: of, refused: "give such groups themselves"},
		"ByWhoMayBindIt":        {resource: "groups", name: "open", now: of},
		"ByWhoHasAll":           {by: "root", resource: "groups", name: "native", now: of},
		"OneThatIsThere":        {resource: "groups", name: "corp", old: of, now: of},
		"JoiningOneOfKubernetes": {
			resource: "groupbindings",
			now:      in("w", `{"groupRef":{"name":"dev"},"users":["ann"]}`),
			refused:  "bindings of rbac.authorization.k8s.io name the group",
		},
		"InTheUser": {
			resource: "users",
			name:     "x",
			now:      `{"spec":{"groups":["dev"]}}`,
			refused:  "bindings of rbac.authorization.k8s.io name the group",
		},
		"JoiningByWhoHasAll":      {by: "root", resource: "users", name: "x", now: `{"spec":{"groups":["dev"]}}`},
		"WhoWasInItBeforeTheName": {resource: "users", name: "x", old: `{"spec":{"groups":["dev"]}}`, now: `{"spec":{"groups":["dev"]}}`},
	})
	err := g.Check(
		t.Context(),
		&Write{
			By:     &user.DefaultInfo{Name: "root"},
			Verb:   "create",
			GVR:    schema.GroupVersionResource{Group: "iam.kubesphere.io", Resource: "groups"},
			Name:   "unknown",
			Object: []byte(`{}`),
		},
	)
	if err == nil || apierrors.IsForbidden(err) {
		t.Errorf("what can't be found out is %v", err)
	}
}

func TestKnowledgeFollowsWhatChanges(t *testing.T) {
	_, g := newWorld(t)
	sinks := map[string]store.Sink{}
	for gvr, s := range g.Known.Sinks() {
		sinks[gvr.Resource] = s
	}
	ops := write{resource: "users", name: "bob", now: `{"spec":{"groups":["ops"]}}`}
	sinks["globalrolebindings"].Set(&store.Object{Name: "ops-c", Raw: []byte(bound("ab", "g:ops"))})
	ops.check(t, g)
	sinks["globalrolebindings"].Set(&store.Object{Name: "ops-c", Raw: []byte(bound("c", "g:ops", "g:ops"))})
	ops.refused = "get c"
	ops.check(t, g)
	sinks["globalrolebindings"].Delete("", "ops-c")
	ops.refused = ""
	ops.check(t, g)
	sinks["groups"].Delete("", "ops")
	ops.refused = "of no workspace"
	ops.check(t, g)
	tc := write{resource: "globalroles", name: "x", now: `{"aggregationRoleTemplates":{"templateNames":["tc"]}}`, refused: "get c"}
	tc.check(t, g)
	sinks["roletemplates"].Set(&store.Object{Name: "tc", Raw: []byte("{")})
	tc.refused = "not known yet: tc"
	tc.check(t, g)
	sinks["roletemplates"].Delete("", "tc")
	tc.check(t, g)
	if n := len(g.Known.grants); n != 2 { // dev and ops, by the workspace
		t.Errorf("%d groups have grants", n)
	}
}

// A role that was emptied, or created again under the name of a built-in one, gets its rules back within a moment.
func TestARoleIsGivenAsWhatItIsAboutToBe(t *testing.T) { // S6
	w, g := newWorld(t)
	sinks := map[string]store.Sink{}
	for gvr, s := range g.Known.Sinks() {
		sinks[gvr.Resource] = s
	}
	empty := func(role authz.RoleRef) { w.roles[role] = "" }
	ops := authz.RoleRef{Name: "ops"}
	empty(ops)
	empty(authz.RoleRef{Scope: request.Workspace, Name: "v-boss"})
	empty(authz.RoleRef{Scope: request.Workspace, Name: "w-boss"})
	empty(authz.RoleRef{Scope: request.Namespace, Namespace: "n", Name: "boss"})
	empty(authz.RoleRef{Scope: request.Namespace, Namespace: "n", Name: "fine"})
	sinks["globalroles"].Set(&store.Object{Name: "ops", Raw: []byte(`{"aggregationRoleTemplates":{"templateNames":["tc","ta"]}}`)})
	sinks["globalroles"].Set(&store.Object{Name: "ab", Raw: []byte(`{"aggregationRoleTemplates":{"templateNames":["tc"]},` + ruled(t, "ab") + `}`)})
	for name, role := range map[string]string{
		"workspace-boss": `{"kind":"WorkspaceRole","metadata":{"name":"boss"},"aggregationRoleTemplates":{"roleSelector":{"matchLabels":{"pick":"wc"}}}}`,
		"project-boss":   `{"kind":"Role","metadata":{"name":"boss"},"rules":` + text(t, rules("c")) + `}`,
		"project-fine":   `{"kind":"Role","metadata":{"name":"fine"},"rules":` + text(t, rules("a")) + `}`,
		"broken":         `{"kind":"Role","metadata":{"name":1}}`,
		"nameless":       `{"kind":"Role"}`,
	} {
		sinks["builtinroles"].Set(&store.Object{Name: name, Raw: []byte(`{"role":` + role + `}`)})
	}
	if len(g.Known.kept.patterns) != 3 || len(g.Known.kept.templates) != 1 {
		t.Errorf("%+v", g.Known.kept)
	}
	all(t, g, map[string]write{
		"ByItsTemplates":            {resource: "globalrolebindings", now: bound("ops", "ann"), refused: "get c"},
		"ByWhoHoldsThem":            {by: "root", resource: "globalrolebindings", now: bound("ops", "ann")},
		"ByTemplatesThatDoNotCount": {resource: "globalrolebindings", now: bound("ab", "ann")},
		"ByThePatternOfAWorkspace":  {resource: "workspacerolebindings", now: in("w", bound("w-boss", "ann")), refused: "get c"},
		"OfAnotherWorkspacesName":   {resource: "workspacerolebindings", now: in("w", bound("v-boss", "ann"))},
		"ByThePatternOfANamespace":  {resource: "rolebindings", namespace: "n", now: bound("boss", "ann"), refused: "get c"},
		"ByAPatternThatHeHolds":     {resource: "rolebindings", namespace: "n", now: bound("fine", "ann")},
		"ToAServiceAccount": {
			resource:  "serviceaccounts",
			namespace: "n",
			now:       `{"metadata":{"annotations":{"iam.kubesphere.io/role":"boss"}}}`,
			refused:   "get c",
		},
		"ToAUser": {resource: "users", name: "x", now: `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"ops"}}}`, refused: "get c"},
	})
	sinks["globalrolebindings"].Set(&store.Object{Name: "x", Raw: []byte(bound("ops", "g:dev"))})
	write{resource: "users", name: "x", now: `{"spec":{"groups":["dev"]}}`, refused: "get c"}.check(t, g)
	sinks["globalrolebindings"].Set(&store.Object{Name: "x", Raw: []byte(bound("later", "g:dev"))})
	write{resource: "users", name: "x", now: `{"spec":{"groups":["dev"]}}`, refused: "which is not there"}.check(t, g)
	sinks["globalroles"].Set(&store.Object{Name: "ops", Raw: []byte(`{}`)})
	write{resource: "globalrolebindings", now: bound("ops", "ann")}.check(t, g)
	sinks["globalroles"].Delete("", "ops")
	for name := range g.Known.kept.patterns {
		sinks["builtinroles"].Delete("", name)
	}
	if len(g.Known.kept.patterns)+len(g.Known.kept.templates) != 0 {
		t.Errorf("%+v", g.Known.kept)
	}
}

// D16: the members of a namespace leave it with its workspace, and bind themselves and others no more.
func TestD16NobodyIsBoundInANamespaceWhoseWorkspaceIsBeingDeleted(t *testing.T) {
	_, g := newWorld(t)
	binds := func(now string, refused string) write {
		return write{resource: "rolebindings", namespace: "n", old: bound("viewer", "bob"), now: now, refused: refused}
	}
	feed(g.Known, "workspaces", "", "w", `{}`)
	all(t, g, map[string]write{"Before": binds(bound("viewer", "bob", "eve"), "")})
	feed(g.Known, "workspaces", "", "w", `{"metadata":{"deletionTimestamp":"2026-11-21T12:00:00Z"}}`)
	all(t, g, map[string]write{
		"AnotherUser":          binds(bound("viewer", "bob", "eve"), `the workspace "w"`),
		"AGroup":               binds(bound("viewer", "bob", "g:dev"), `the workspace "w"`),
		"WhateverHeIs":         {by: "root", resource: "rolebindings", namespace: "n", now: bound("viewer", "eve"), refused: `the workspace "w"`},
		"NobodyMore":           binds(bound("viewer", "bob"), ""),
		"Fewer":                binds(bound("viewer"), ""),
		"InTheWorkspaceItself": {resource: "workspacerolebindings", now: in("w", bound("w-a", "bob"))},
	})
}

// S6: roles and templates of every installation are applied again with the next one: rules that were taken from them come back, to whom they were
// given meanwhile, too.
func TestS6RulesThatAnInstallationBringsBackAreGivenWithTheRole(t *testing.T) {
	w, g := newWorld(t)
	w.roles[authz.RoleRef{Scope: request.Cluster, Name: "cluster-admin"}] = ""
	w.roles[authz.RoleRef{Name: "platform-regular"}] = ""
	w.roles[authz.RoleRef{Name: "takes"}] = ""
	w.holds["chief@in the cluster"] = []string{"*"}
	bound := func(kind, role string) string {
		return `{"roleRef":{"kind":"` + kind + `","name":"` + role + `"},"subjects":[{"kind":"User","name":"x"}]}`
	}
	takes := `{"metadata":{"name":"takes"},"aggregationRoleTemplates":{"templateNames":["global-manage-users"]}}`
	feed(g.Known, "globalroles", "", "takes", takes)
	for state, template := range map[string]string{
		"Emptied":    `{"metadata":{"labels":{"iam.kubesphere.io/scope":"global"}}}`,
		"Unlabelled": `{}`,
		"Deleted":    `{}`,
	} {
		t.Run(state, func(t *testing.T) {
			why := "there are no role templates"
			if feed(g.Known, "roletemplates", "", "global-manage-users", template); state == "Emptied" {
				why = "users.iam.kubesphere.io"
			}
			if state == "Deleted" {
				g.Known.Sinks()[iamv1beta1.SchemeGroupVersion.WithResource("roletemplates")].Delete("", "global-manage-users")
			}
			all(t, g, map[string]write{
				"TheRole":         {resource: "clusterrolebindings", now: bound("ClusterRole", "cluster-admin"), refused: "* *.*"},
				"ByWhoHoldsIt":    {by: "chief", resource: "clusterrolebindings", now: bound("ClusterRole", "cluster-admin")},
				"ARoleForNothing": {resource: "globalrolebindings", now: bound("GlobalRole", "platform-regular")},
				"ATemplate":       {resource: "globalroles", name: "x", now: takes, refused: why},
				"ItsRole":         {resource: "globalrolebindings", now: bound("GlobalRole", "takes"), refused: "users.iam.kubesphere.io"},
			})
		})
	}
}
