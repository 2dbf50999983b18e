package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	rbacv1 "k8s.io/api/rbac/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/controller/aggregation"
)

// end makes a deletion of an object as a user, with its name only in the object, as in a collection.
func end(t *testing.T, g *Guard, by, resource, namespace, old string) error {
	t.Helper()
	return g.Check(t.Context(), &Write{
		By: &user.DefaultInfo{Name: by, Groups: []string{user.AllAuthenticated}}, Verb: "delete",
		GVR: schema.GroupVersionResource{Group: "iam.kubesphere.io", Version: "v1beta1", Resource: resource}, Namespace: namespace, Old: []byte(old),
	})
}

func TestADeletionIsCheckedByWhatItBringsAbout(t *testing.T) { // S72
	w, g := newWorld(t)
	feed(g.Known, "builtinroles", "", "viewer", `{"role":{"kind":"Role","metadata":{"name":"viewer"},"rules":`+text(t, rules("ac"))+`}}`)
	feed(g.Known, "builtinroles", "", "w-viewer", `{"role":{"kind":"WorkspaceRole","metadata":{"name":"viewer"},"rules":`+text(t, rules("c"))+`}}`)
	feed(g.Known, "builtinroles", "", "zz", `{"role":{"kind":"Role","metadata":{"name":"viewer"},"rules":`+text(t, rules("d"))+`}}`)
	w.holds["cleaner@in the cluster"] = []string{"clusterrolebindings"}
	feed(g.Known, "groups", "", "cluster-dev", `{}`)
	feed(g.Known, "clusterrolebindings", "", "cluster-dev-a", `{"roleRef":{"name":"a"},"subjects":[{"kind":"Group","name":"cluster-dev"}]}`)
	g.Named = func(_ context.Context, name string) (bool, error) { return name == "native", nil }
	inW := `"labels":{"kubesphere.io/workspace":"w"}`
	for name, c := range map[string]struct {
		by, resource, namespace, old string
		refused                      bool
	}{
		"AUserWithLessByWhoHoldsThat": {"root", "users", "", `{"metadata":{"name":"low"}}`, false},
		"AUserWhoIsAbove":             {"ann", "users", "", `{"metadata":{"name":"chief"}}`, true},
		"AUserInAGroupThatIsAbove":    {"ann", "users", "", `{"metadata":{"name":"x"},"spec":{"groups":["ops"]}}`, true},
		"AUserOfKubernetes":           {"ann", "users", "", `{"metadata":{"name":"native"}}`, true},
		"Oneself":                     {"root", "users", "", `{"metadata":{"name":"root"}}`, true},
		"ARoleThatIsAbove":            {"ann", "globalroles", "", `{"metadata":{"name":"x"},` + ruled(t, "cd") + `}`, false},
		"ABindingThatIsAbove":         {"ann", "globalrolebindings", "", `{"metadata":{"name":"x"},"roleRef":{"name":"c"}}`, false},
		"ABuiltInRoleThatIsAll":       {"ann", "roles", "n", `{"metadata":{"name":"viewer"},` + text(t, map[string]any{"rules": rules("acd")})[1:], false},
		"ABuiltInRoleThatIsLess":      {"ann", "roles", "n", `{"metadata":{"name":"viewer"},` + ruled(t, "a") + `}`, true},
		"ABuiltInRoleUnderACondition": {"ann", "roles", "n", `{"metadata":{"name":"viewer","annotations":{"iam.kubesphere.io/cel-condition":"false"}},` +
			ruled(t, "acd") + `}`, true},
		"AnotherRole":                    {"ann", "roles", "n", `{"metadata":{"name":"other"},` + ruled(t, "c") + `}`, false},
		"ABuiltInRoleOfAWorkspace":       {"ann", "workspaceroles", "", `{"metadata":{"name":"w-viewer",` + inW + `}}`, true},
		"ABuiltInRoleOfAWorkspaceAsItIs": {"ann", "workspaceroles", "", `{"metadata":{"name":"w-viewer",` + inW + `},` + ruled(t, "c") + `}`, false},
		"APatternBeforeAnother":          {"ann", "builtinroles", "", `{"metadata":{"name":"viewer"},"role":{"kind":"Role","metadata":{"name":"viewer"}}}`, true},
		"APatternThatIsAlone": {"ann", "builtinroles", "",
			`{"metadata":{"name":"w-viewer"},"role":{"kind":"WorkspaceRole","metadata":{"name":"viewer"}}}`, false},
		"AGroupAtHome":                    {"ann", "groups", "", `{"metadata":{"name":"dev",` + inW + `}}`, false},
		"AGroupThatIsBoundElsewhere":      {"ann", "groups", "", `{"metadata":{"name":"ops",` + inW + `}}`, true},
		"AGroupWhoseBindingsAreHisToTake": {"cleaner", "groups", "", `{"metadata":{"name":"cluster-dev"}}`, false},
		"AGroupWhoseBindingsAreNot":       {"ann", "groups", "", `{"metadata":{"name":"cluster-dev"}}`, true},
		"AGroupThatNothingNames":          {"ann", "groups", "", `{"metadata":{"name":"wide"}}`, false},
		"AMembership":                     {"ann", "groupbindings", "", `{"metadata":{"name":"x"},"users":["chief"]}`, false},
		"ATemplate":                       {"ann", "roletemplates", "", `{"metadata":{"name":"tc"}}`, false},
		"ByKubernetesWhateverItsRights":   {Controllers()[0], "users", "", `{"metadata":{"name":"chief"}}`, false},
		"ByAProgramThatIsNotOfKubernetes": {"system:serviceaccount:other:generic-garbage-collector", "users", "", `{"metadata":{"name":"chief"}}`, true},
		"WithoutTheObject":                {"root", "users", "", "", true},
		"WithAnObjectThatCantBeRead":      {"root", "users", "", "{", true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := end(t, g, c.by, c.resource, c.namespace, c.old); (err != nil) != c.refused || c.refused && !apierrors.IsForbidden(err) {
				t.Errorf("%v", err)
			}
		})
	}
}

// S6: a role that a BuiltinRole makes gets all its rules again where the note of that, or a template of it, is taken away. Who is bound to the role
// takes back by that what was taken from it.
func TestS6RulesThatWereTakenFromABuiltInRoleStayAway(t *testing.T) {
	w, g := newWorld(t)
	w.holds[`holder@in the namespace "n"`] = []string{"c", "d"}
	feed(g.Known, "builtinroles", "", "viewer",
		`{"role":{"kind":"Role","metadata":{"name":"viewer"},"aggregationRoleTemplates":{"templateNames":["nc"]},"rules":`+text(t, rules("ad"))+`}}`)
	role := func(note, templates, letters string) string {
		return `{"metadata":{"annotations":{"kapis.dev/builtin-role":"` + note + `","x":"` + letters + `"}},` +
			`"aggregationRoleTemplates":` + templates + `,` + ruled(t, letters) + `}`
	}
	const one, two = `{"templateNames":["nc"]}`, `{"templateNames":["nc","other"]}`
	change := func(by, name, old, now, refused string) write {
		return write{by: by, resource: "roles", namespace: "n", name: name, old: old, now: now, refused: refused}
	}
	noted := role("f", one, "a")
	all(t, g, map[string]write{
		"TheNote":               change("bob", "viewer", noted, role("x", one, "a"), "get d"),
		"NoNote":                change("bob", "viewer", noted, strings.Replace(noted, "kapis.dev/builtin-role", "y", 1), "get c"),
		"ItsTemplates":          change("bob", "viewer", noted, role("f", `null`, "a"), "get c"),
		"ATemplate":             change("bob", "viewer", role("f", two, "a"), role("f", `{"templateNames":["other"]}`, "a"), "get d"),
		"ItsSelector":           change("bob", "viewer", role("f", `{"roleSelector":{"matchLabels":{"a":"b"}}}`, "a"), noted, "get c"),
		"NothingWasTakenFromIt": change("bob", "viewer", role("f", one, "acd"), role("x", one, "acd"), ""),
		"SomethingElse":         change("bob", "viewer", noted, strings.Replace(noted, `"x":"a"`, `"x":"b"`, 1), ""),
		"ARule":                 change("bob", "viewer", role("f", one, "acd"), role("f", one, "a"), ""),
		"ARoleOfNoPattern":      change("bob", "mine", noted, role("x", `null`, "a"), ""),
		"ByWhoHoldsThem":        change("holder", "viewer", noted, role("x", one, "a"), ""),
		// What they were under a condition is less than what comes back under none.
		"ItsCondition": change("bob", "viewer",
			strings.Replace(role("f", one, "acd"), `"x":"acd"`, `"iam.kubesphere.io/cel-condition":"false"`, 1), `{"metadata":{}}`, "get a, get d, get c"),
	})
}

func TestAnOwnerIsForWhoMayDelete(t *testing.T) { // S72
	w, g := newWorld(t)
	w.holds["ann@on the platform"] = append(w.holds["ann@on the platform"], "globalroles", "users", "globalrolebindings")
	owned := func(name, owner string) string {
		return `{"metadata":{"name":"` + name + `","ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"` + owner + `","uid":"u"}]}}`
	}
	all(t, g, map[string]write{
		"New":                      {resource: "globalroles", name: "x", now: owned("x", "a")},
		"NewByWhoMayNotDelete":     {by: "bob", resource: "globalroles", name: "x", now: owned("x", "a"), refused: "ownerReferences"},
		"Set":                      {resource: "globalroles", name: "x", now: owned("x", "a"), old: `{}`},
		"SetByWhoMayNotDelete":     {by: "bob", resource: "globalroles", name: "x", now: owned("x", "a"), old: `{}`, refused: "ownerReferences"},
		"ChangedByWhoMayNotDelete": {by: "bob", resource: "globalroles", name: "x", now: owned("x", "a"), old: owned("x", "b"), refused: "ownerReferences"},
		"AsItWas":                  {by: "bob", resource: "globalroles", name: "x", now: owned("x", "a"), old: owned("x", "a")},
		"TakenAway":                {by: "bob", resource: "globalroles", name: "x", now: `{}`, old: owned("x", "a")},
		"OfWhoIsAbove":             {resource: "users", name: "chief", now: owned("chief", "a"), old: `{"metadata":{"name":"chief"}}`, refused: "get c"},
		"OfAnotherKindByNoRight":   {resource: "roletemplates", name: "x", now: owned("x", "a"), refused: "ownerReferences"},
		"ByTheGarbageCollector":    {by: Controllers()[0], resource: "globalroles", name: "x", now: owned("x", "a"), old: owned("x", "b")},
	})
}

const adminsRole = `"roleRef":{"kind":"GlobalRole","name":"platform-admin"}`

// shared are the Ends of two replicas.
type shared struct{ ownEnds }

func (s *shared) Add(ctx context.Context, ends []string, allowed func(map[string]bool) error) error {
	_, err := s.add(context.WithoutCancel(ctx), ends, allowed)
	return err
}

func bindingOf(name string, users ...string) string {
	subjects := ""
	for i, u := range users {
		if i > 0 {
			subjects += ","
		}
		subjects += `{"kind":"User","name":"` + u + `"}`
	}
	return `{"metadata":{"name":"` + name + `"},` + adminsRole + `,"subjects":[` + subjects + `]}`
}

// fingerprintOfAll returns what a record has for the rule for everything, as the controller writes it.
func fingerprintOfAll(t *testing.T) string {
	t.Helper()
	all := everything()[:1]
	role := &iamv1beta1.GlobalRole{AggregationRoleTemplates: &iamv1beta1.AggregationRoleTemplates{TemplateNames: []string{"all"}}}
	if _, err := aggregation.Aggregate(aggregation.Role{Meta: role, Templates: role.AggregationRoleTemplates, Rules: &role.Rules},
		[]iamv1beta1.RoleTemplate{{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: iamv1beta1.RoleTemplateSpec{Rules: all}}}); err != nil {
		t.Fatal(err)
	}
	var record struct{ Rules []string }
	if err := json.Unmarshal([]byte(role.Annotations[aggregation.AnnotationRecord]), &record); err != nil || len(record.Rules) != 1 {
		t.Fatal(role.Annotations, err)
	}
	return record.Rules[0]
}

func TestTheLastAdministratorStays(t *testing.T) { // S72
	everything := `"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]`
	recorded := `{"metadata":{"annotations":{"kapis.dev/aggregated":` + text(t, text(t, map[string]any{"rules": []string{fingerprintOfAll(t)}})) + `}},` +
		`"aggregationRoleTemplates":{"templateNames":[%s]},` + everything + `}`
	type deed struct{ verb, resource, name, now, old string }
	deeds := map[string]deed{
		"TheUser": {"delete", "users", "adm", "", `{"metadata":{"name":"adm"}}`},
		"HisState": {
			"update",
			"users",
			"adm",
			`{"metadata":{"name":"adm"},"status":{"state":"Disabled"}}`,
			`{"metadata":{"name":"adm"},"status":{"state":"Active"}}`,
		},
		"HisBinding":           {"delete", "globalrolebindings", "b", "", bindingOf("b", "adm")},
		"HisBindingIsAnothers": {"update", "globalrolebindings", "b", bindingOf("b", "stranger"), bindingOf("b", "adm")},
		"HisBindingIsNobodys":  {"update", "globalrolebindings", "b", bindingOf("b"), bindingOf("b", "adm")},
		"HisBindingIsOfNoRoleOfOurs": {"update", "globalrolebindings", "b",
			strings.Replace(bindingOf("b", "adm"), `"roleRef":{`, `"roleRef":{"apiGroup":"rbac.authorization.k8s.io",`, 1), bindingOf("b", "adm")},
		"TheOwnerOfTheUser": {"update", "users", "adm", `{"metadata":{"name":"adm","ownerReferences":[{"uid":"u"}]}}`, `{"metadata":{"name":"adm"}}`},
		"TheOwnerOfTheBinding": {
			"update",
			"globalrolebindings",
			"b",
			`{"metadata":{"name":"b","ownerReferences":[{"uid":"u"}]},` + bindingOf("b", "adm")[len(`{"metadata":{"name":"b"},`):],
			bindingOf("b", "adm"),
		},
	}
	roles := map[string]deed{
		"TheRole":       {"delete", "globalroles", "platform-admin", "", `{"metadata":{"name":"platform-admin"},` + everything + `}`},
		"TheRolesRules": {"update", "globalroles", "platform-admin", `{"rules":[]}`, `{` + everything + `}`},
		"TheRolesCondition": {
			"update",
			"globalroles",
			"platform-admin",
			`{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":"false"}},` + everything + `}`,
			`{` + everything + `}`,
		},
		"TheRolesRecord":   {"update", "globalroles", "platform-admin", fmt.Sprintf(recorded, ""), `{` + everything + `}`},
		"TheRolesTemplate": {"update", "globalroles", "platform-admin", fmt.Sprintf(recorded, ""), fmt.Sprintf(recorded, `"all"`)},
	}
	check := func(t *testing.T, g *Guard, by string, d deed) error {
		t.Helper()
		return g.Check(t.Context(), &Write{
			By: &user.DefaultInfo{Name: by}, Verb: d.verb, GVR: schema.GroupVersionResource{Group: "iam.kubesphere.io", Resource: d.resource}, Name: d.name,
			Object: []byte(d.now), Old: []byte(d.old),
		})
	}
	guard := func(t *testing.T, active ...string) *Guard {
		t.Helper()
		_, g := newWorld(t)
		feed(g.Known, "globalrolebindings", "", "b", bindingOf("b", "adm"))
		feed(g.Known, "globalrolebindings", "", "b2", bindingOf("b2", "adm2", "adm3"))
		feed(g.Known, "globalrolebindings", "", "dead",
			`{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"GlobalRole","name":"platform-admin"},"subjects":[{"kind":"User","name":"busy"}]}`)
		feed(g.Known, "globalrolebindings", "", "other", `{"roleRef":{"name":"c"},"subjects":[{"kind":"User","name":"busy"}]}`)
		feed(g.Known, "globalrolebindings", "", "groups", `{`+adminsRole+`,"subjects":[{"kind":"Group","name":"busy"}]}`)
		feed(
			g.Known,
			"globalrolebindings",
			"",
			"going",
			`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},`+adminsRole+`,"subjects":[{"kind":"User","name":"busy"}]}`,
		)
		g.Active = func(_ context.Context, _, name string) (bool, error) {
			if slices.Contains(active, "broken") {
				return false, errors.New("down")
			}
			return slices.Contains(active, name), nil
		}
		return g
	}
	for name, d := range deeds {
		t.Run(name, func(t *testing.T) {
			for _, by := range []string{"root", Controllers()[0]} {
				if by != "root" && d.verb != "delete" {
					continue
				}
				if err := check(t, guard(t, "adm", "busy"), by, d); !apierrors.IsConflict(err) {
					t.Errorf("%s ends the last one: %v", by, err)
				}
				if err := check(t, guard(t, "adm", "adm3", "busy"), by, d); err != nil {
					t.Errorf("%s ends one of two: %v", by, err)
				}
				if err := check(t, guard(t, "busy"), by, d); err != nil {
					t.Errorf("%s ends one who could not log in: %v", by, err)
				}
			}
			if err := check(t, guard(t, "broken"), "root", d); err == nil || apierrors.IsConflict(err) {
				t.Errorf("what can't be found out: %v", err)
			}
		})
	}
	for name, d := range roles {
		t.Run(name, func(t *testing.T) {
			if err := check(t, guard(t, "adm", "adm2", "adm3"), "root", d); !apierrors.IsConflict(err) {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("OneAfterTheOther", func(t *testing.T) { // the second one is checked before the first is known
		g := guard(t, "adm", "adm2")
		if err := check(t, g, "root", deeds["TheUser"]); err != nil {
			t.Error(err)
		}
		if err := check(t, g, "root", deed{"delete", "globalrolebindings", "b2", "", bindingOf("b2", "adm2", "adm3")}); !apierrors.IsConflict(err) {
			t.Errorf("both are gone: %v", err)
		}
	})
	second := deed{"delete", "globalrolebindings", "b2", "", bindingOf("b2", "adm2", "adm3")}
	t.Run("OneThatIsRefused", func(t *testing.T) { // and what was only tried: the next one is no second
		for name, first := range map[string]func(*Guard) error{
			"ForWhatItLacks": func(g *Guard) error {
				g.Holdings.(*world).bound["adm@on the platform"] = []authz.RoleRef{{Name: "c"}}
				if err := check(t, g, "ann", deeds["TheUser"]); !apierrors.IsForbidden(err) {
					return errors.Join(errors.New("ann holds less, and ends him"), err)
				}
				return nil
			},
			"ForItsOwners": func(g *Guard) error {
				if err := check(t, g, "bob", deeds["TheOwnerOfTheUser"]); !apierrors.IsForbidden(err) {
					return errors.Join(errors.New("bob may delete nobody, and ends him"), err)
				}
				return nil
			},
			"BecauseItIsADryRun": func(g *Guard) error {
				return g.Check(t.Context(), &Write{
					By: &user.DefaultInfo{Name: "root"}, Verb: "delete", GVR: schema.GroupVersionResource{Group: "iam.kubesphere.io", Resource: "users"},
					Name: "adm", Old: []byte(`{"metadata":{"name":"adm"}}`), DryRun: true,
				})
			},
		} {
			t.Run(name, func(t *testing.T) {
				g := guard(t, "adm", "adm2")
				if err := first(g); err != nil {
					t.Fatal(err)
				}
				if err := check(t, g, "root", second); err != nil {
					t.Errorf("one of two is ended: %v", err)
				}
			})
		}
	})
	t.Run("ADryRunOfTheLast", func(t *testing.T) {
		g := guard(t, "adm", "adm2")
		if err := check(t, g, "root", deeds["TheUser"]); err != nil {
			t.Fatal(err)
		}
		w := &Write{By: &user.DefaultInfo{Name: "root"}, Verb: "delete", GVR: schema.GroupVersionResource{Group: "iam.kubesphere.io",
			Resource: "globalrolebindings"}, Name: "b2", Old: []byte(second.old), DryRun: true}
		if err := g.Check(t.Context(), w); !apierrors.IsConflict(err) {
			t.Errorf("%v", err)
		}
	})
	t.Run("WhatWasNotMade", func(t *testing.T) { // after the request that asked for it, the next one is no second; after one that was made, it is
		for _, made := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				g := guard(t, "adm", "adm2")
				ctx, end := context.WithCancel(t.Context())
				first := &Write{By: &user.DefaultInfo{Name: "root"}, Verb: "delete", GVR: schema.GroupVersionResource{Group: "iam.kubesphere.io",
					Resource: "users"}, Name: "adm", Old: []byte(`{"metadata":{"name":"adm"}}`)}
				if err := g.Check(ctx, first); err != nil {
					t.Fatal(err)
				}
				if err := check(t, g, "root", second); !apierrors.IsConflict(err) {
					t.Errorf("while the first one is under way: %v", err)
				}
				if made {
					first.Made()
				}
				end()
				synctest.Wait()
				if err := check(t, g, "root", second); (err != nil) != made {
					t.Errorf("made: %t, and the next one: %v", made, err)
				}
				time.Sleep(EndsFor) // of the bubble
				if err := check(t, g, "root", second); err != nil {
					t.Errorf("after a while: %v", err)
				}
			})
		}
	})
	t.Run("WhoStaysInTheBinding", func(t *testing.T) { // is not gone with who was removed from it
		g := guard(t, "adm", "adm2", "adm3")
		removed := deed{"update", "globalrolebindings", "b2", bindingOf("b2", "adm3"), bindingOf("b2", "adm2", "adm3")}
		if err := check(t, g, "root", removed); err != nil {
			t.Fatal(err)
		}
		if err := check(t, g, "root", deeds["TheUser"]); err != nil {
			t.Errorf("adm3 remains: %v", err)
		}
		rest := deed{"delete", "globalrolebindings", "b2", "", bindingOf("b2", "adm3")}
		if err := check(t, g, "root", rest); !apierrors.IsConflict(err) {
			t.Errorf("nobody remains: %v", err)
		}
	})
	t.Run("TwoAtOnce", func(t *testing.T) { // neither is known when the other is checked; at one replica, and at two
		for _, replicas := range []int{1, 2} {
			guards := []*Guard{guard(t, "adm", "adm2"), guard(t, "adm", "adm2")}
			if replicas == 1 {
				guards[1] = guards[0]
			} else {
				both := &shared{}
				guards[0].Ends, guards[1].Ends = both, both
			}
			errs := make([]error, 2)
			var both sync.WaitGroup
			for i, d := range []deed{deeds["TheUser"], second} {
				both.Go(func() { errs[i] = check(t, guards[i], "root", d) })
			}
			both.Wait()
			if (errs[0] == nil) == (errs[1] == nil) || !apierrors.IsConflict(errors.Join(errs...)) {
				t.Errorf("%d replicas: %v", replicas, errs)
			}
		}
	})
	t.Run("AnythingElseOfThem", func(t *testing.T) {
		g := guard(t, "adm")
		feed(g.Known, "roletemplates", "", "all", `{"metadata":{"labels":{"iam.kubesphere.io/scope":"global"}},"spec":{`+everything+`}}`)
		for _, d := range []deed{
			{"update", "globalrolebindings", "b", bindingOf("b", "adm"), bindingOf("b", "adm", "stranger")},
			{"update", "globalroles", "platform-admin", `{"metadata":{"annotations":{"a":"b"}},` + everything + `}`, `{` + everything + `}`},
			{"update", "globalroles", "platform-admin", fmt.Sprintf(recorded, `"all"`), fmt.Sprintf(recorded, `"all","ta"`)},
			{"update", "globalroles", "platform-admin", `{"metadata":{"annotations":{"kapis.dev/aggregated":"{}"}},` + everything + `}`, `{` + everything + `}`},
			{"update", "users", "adm", `{"metadata":{"name":"adm","labels":{"a":"b"}}}`, `{"metadata":{"name":"adm"}}`},
			{"delete", "globalrolebindings", "other", "", `{"roleRef":{"name":"c"}}`},
			{"delete", "globalroles", "other", "", `{"metadata":{"name":"other"}}`},
		} {
			if err := check(t, g, "root", d); err != nil {
				t.Errorf("%+v: %v", d, err)
			}
		}
	})
}

func TestWhoAdministers(t *testing.T) { // S72
	now := metav1.Now()
	binding := func(change func(*iamv1beta1.GlobalRoleBinding)) *iamv1beta1.GlobalRoleBinding {
		b := &iamv1beta1.GlobalRoleBinding{RoleRef: rbacv1.RoleRef{Kind: "GlobalRole", Name: "platform-admin"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "a"}}}
		change(b)
		return b
	}
	person := func(change func(*iamv1beta1.User)) *iamv1beta1.User {
		u := &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		change(u)
		return u
	}
	same, him := func(*iamv1beta1.GlobalRoleBinding) {}, func(*iamv1beta1.User) {}
	for name, c := range map[string]struct {
		b    *iamv1beta1.GlobalRoleBinding
		u    *iamv1beta1.User
		want bool
	}{
		"Bound":          {binding(same), person(him), true},
		"Locked":         {binding(same), person(func(u *iamv1beta1.User) { u.Status.State = "AuthLimitExceeded" }), true},
		"Disabled":       {binding(same), person(func(u *iamv1beta1.User) { u.Status.State = iamv1beta1.UserDisabled }), false},
		"Going":          {binding(same), person(func(u *iamv1beta1.User) { u.DeletionTimestamp = &now }), false},
		"BindingGoing":   {binding(func(b *iamv1beta1.GlobalRoleBinding) { b.DeletionTimestamp = &now }), person(him), false},
		"AnotherRole":    {binding(func(b *iamv1beta1.GlobalRoleBinding) { b.RoleRef.Name = "x" }), person(him), false},
		"AnotherGroup":   {binding(func(b *iamv1beta1.GlobalRoleBinding) { b.RoleRef.APIGroup = rbacv1.GroupName }), person(him), false},
		"AnotherKind":    {binding(func(b *iamv1beta1.GlobalRoleBinding) { b.RoleRef.Kind = "ClusterRole" }), person(him), false},
		"ItsGroup":       {binding(func(b *iamv1beta1.GlobalRoleBinding) { b.RoleRef.APIGroup = iamv1beta1.GroupName }), person(him), true},
		"AnotherSubject": {binding(func(b *iamv1beta1.GlobalRoleBinding) { b.Subjects[0].Kind = "Group" }), person(him), false},
	} {
		if got := Administers(c.b, c.u); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
