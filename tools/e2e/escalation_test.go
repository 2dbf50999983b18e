package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"kapis.dev/ks-apiserver/tools/hostile"
)

// probe is a request that somebody may make or not.
type probe struct{ verb, group, resource, namespace, name string }

// probes are every request of a small universe, in some namespaces and in all.
func probes(namespaces ...string) []probe {
	var out []probe
	for _, namespace := range namespaces {
		for _, kind := range [][2]string{{"", "pods"}, {"", "secrets"}, {"", "configmaps"}, {"apps", "deployments"}} {
			for _, verb := range []string{"get", "list", "create", "delete"} {
				out = append(out, probe{verb: verb, group: kind[0], resource: kind[1], namespace: namespace})
			}
		}
	}
	return out
}

// attributes are those of a SubjectAccessReview.
func (p probe) attributes() obj {
	resource, sub, _ := strings.Cut(p.resource, "/")
	return obj{"verb": p.verb, "group": p.group, "resource": resource, "subresource": sub, "namespace": p.namespace, "name": p.name}
}

// byIndex asks ks-apiserver which of some requests somebody may make.
func byIndex(ctx context.Context, t *testing.T, user string, of []probe) (map[probe]bool, error) {
	out := map[probe]bool{}
	for some := range slices.Chunk(of, 200) {
		var reviews []obj
		for _, p := range some {
			reviews = append(reviews, obj{"spec": obj{"user": user, "groups": []string{"system:authenticated"}, "resourceAttributes": p.attributes()}})
		}
		r, err := admin(t).do(ctx, http.MethodPost, iamRoutes+"/subjectaccessreviews", reviews)
		if err != nil || r.code != http.StatusOK {
			return nil, fmt.Errorf("%d %s %w", r.code, clip(r.body), err)
		}
		var answers []authorizationv1.SubjectAccessReview
		if err := json.Unmarshal([]byte(r.body), &answers); err != nil || len(answers) != len(some) {
			return nil, fmt.Errorf("%d answers to %d reviews: %w", len(answers), len(some), err)
		}
		for i, p := range some {
			if out[p] = answers[i].Status.Allowed; answers[i].Status.EvaluationError != "" {
				return nil, fmt.Errorf("%+v: %s", p, answers[i].Status.EvaluationError)
			}
		}
	}
	return out, nil
}

// byKubernetes asks kube-apiserver itself the same.
func byKubernetes(ctx context.Context, t *testing.T, user string, of []probe) (map[probe]bool, error) {
	out := map[probe]bool{}
	for _, p := range of {
		r, err := admin(t).do(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", obj{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
			"spec": obj{"user": user, "groups": []string{"system:authenticated"}, "resourceAttributes": p.attributes()},
		})
		if err != nil || r.code != http.StatusCreated {
			return nil, fmt.Errorf("%+v: %d %s %w", p, r.code, clip(r.body), err)
		}
		out[p] = decode[authorizationv1.SubjectAccessReview](t, r.body).Status.Allowed
	}
	return out, nil
}

// judges are who is asked what somebody may do.
var judges = map[string]func(context.Context, *testing.T, string, []probe) (map[probe]bool, error){"the index": byIndex, "kube-apiserver": byKubernetes}

// allowedBy is what people may do, by each judge.
func allowedBy(t *testing.T, people []string, of []probe) map[string]map[string]map[probe]bool {
	t.Helper()
	out := map[string]map[string]map[probe]bool{}
	for judge, ask := range judges {
		out[judge] = map[string]map[probe]bool{}
		for _, name := range people {
			allowed, err := ask(t.Context(), t, name, of)
			if err != nil {
				t.Fatalf("%s, of %s: %v", judge, name, err)
			}
			out[judge][name] = allowed
		}
	}
	return out
}

// arena is where people write roles and bindings at random.
type arena struct {
	*hostile.Generator
	t          *testing.T
	people     []string
	ways       []map[string]way
	holds      [][]rbacv1.PolicyRule // what each of the people holds in the namespace, at least
	namespace  string
	prefix     string
	roles      map[string][]string // names by plural, of those that are there
	accepted   int
	refused    int
	vocabulary *hostile.Vocabulary
}

// scopesOfRoles are the plurals of roles and of their bindings, and the kind of role.
var scopesOfRoles = [][3]string{
	{"globalroles", "globalrolebindings", "GlobalRole"}, {"clusterroles", "clusterrolebindings", "ClusterRole"}, {"roles", "rolebindings", "Role"},
}

func (a *arena) path(plural, name string) string {
	path := "/" + plural
	if plural == "roles" || plural == "rolebindings" {
		path = "/namespaces/" + a.namespace + path
	}
	if name != "" {
		path += "/" + name
	}
	return path
}

// write sends a write of somebody by a random way, and notes what came of it.
func (a *arena) write(who int, method, path string, body any, headers ...string) bool {
	a.t.Helper()
	door := a.One(slices.Sorted(maps.Keys(a.ways[who]))...)
	if validation := a.One("", "Ignore", "Warn", "Strict"); validation != "" {
		before, query, _ := strings.Cut(path, "?")
		path = before + "?fieldValidation=" + validation + "&" + query
	}
	code, answer := a.ways[who][door](a.t, method, path, encode(a.t, body), headers...)
	switch {
	case code >= 200 && code < 300:
		a.accepted++
	case code >= 400 && code < 500:
		a.refused++
	default:
		a.t.Errorf("%s %s %s of %s: %d %s", door, method, path, a.people[who], code, clip(answer))
	}
	return code >= 200 && code < 300
}

// role creates a role of some rules, or changes one that is there: by a POST, a PATCH of its rules, or by server-side apply.
func (a *arena) role(who int, scope [3]string, name string, rules []rbacv1.PolicyRule) {
	there, written := slices.Contains(a.roles[scope[0]], name), false
	switch object := iamObject(scope[2], name, obj{"rules": rules}); {
	case a.N(3) == 0:
		written = a.write(who, http.MethodPatch, a.path(scope[0], name)+"?fieldManager=random&force=true", object, asApply)
	case there:
		a.write(who, http.MethodPatch, a.path(scope[0], name), obj{"rules": rules}, asMerge)
	default:
		written = a.write(who, http.MethodPost, a.path(scope[0], ""), object)
	}
	if written && !there {
		a.roles[scope[0]] = append(a.roles[scope[0]], name)
		a.t.Cleanup(func() {
			_, _ = admin(a.t).do(context.Background(), http.MethodDelete, iamAPI+a.path(scope[0], name), nil)
		})
	}
}

// template creates a RoleTemplate of some rules, or changes the rules of one that is there.
func (a *arena) template(who int, name string, rules []rbacv1.PolicyRule) {
	if slices.Contains(a.roles["roletemplates"], name) {
		a.write(who, http.MethodPatch, "/roletemplates/"+name, obj{"spec": obj{"rules": rules}}, "Content-Type: application/merge-patch+json")
		return
	}
	if a.write(who, http.MethodPost, "/roletemplates", iamObject("RoleTemplate", name, obj{"spec": obj{"rules": rules}})) {
		a.roles["roletemplates"] = append(a.roles["roletemplates"], name)
		a.t.Cleanup(func() {
			_, _ = admin(a.t).do(context.Background(), http.MethodDelete, iamAPI+"/roletemplates/"+name, nil)
		})
	}
}

// aggregate lets a role that is there take the rules of a RoleTemplate, which may be made or changed later.
func (a *arena) aggregate(who int, scope [3]string, role, template string) {
	if slices.Contains(a.roles[scope[0]], role) {
		a.write(who, http.MethodPatch, a.path(scope[0], role), obj{"aggregationRoleTemplates": obj{"templateNames": []string{template}}},
			"Content-Type: application/merge-patch+json")
		return
	}
	a.role(who, scope, role, nil)
}

// bind binds a random person to a role that is there.
func (a *arena) bind(who int, scope [3]string, role string) {
	name := unique(a.prefix)
	binding := globalBinding(name, role, a.One(a.people...))
	binding["kind"], binding["roleRef"] = scope[2]+"Binding", obj{"apiGroup": "iam.kubesphere.io", "kind": scope[2], "name": role}
	if a.write(who, http.MethodPost, a.path(scope[1], ""), binding) {
		a.t.Cleanup(func() {
			_, _ = admin(a.t).do(context.Background(), http.MethodDelete, iamAPI+a.path(scope[1], name), nil)
		})
	}
}

// step makes one random write of somebody, or two that one text stands for.
func (a *arena) step(who int) {
	scope := scopesOfRoles[a.N(len(scopesOfRoles))]
	name := fmt.Sprint(a.prefix, "-", a.N(4))
	switch a.N(9) {
	case 6:
		a.template(who, fmt.Sprint(a.prefix, "-t", a.N(3)), append(a.Rules(1, a.vocabulary), a.Rule(a.vocabulary)))
		return
	case 7:
		a.aggregate(who, scope, name, fmt.Sprint(a.prefix, "-t", a.N(3)))
		return
	case 8:
		if there := a.roles["globalroles"]; len(there) > 0 {
			a.write(who, http.MethodPatch, "/users/"+a.One(a.people...), obj{"metadata": obj{"annotations": obj{"iam.kubesphere.io/globalrole": a.One(there...)}}},
				"Content-Type: application/merge-patch+json")
			return
		}
	case 0, 1:
		if there := a.roles[scope[0]]; len(there) > 0 {
			a.bind(who, scope, a.One(there...))
			return
		}
	case 2:
		powerful := rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{a.One("", "*")}, Resources: []string{a.One("secrets", "*")}}
		held := a.holds[who][a.N(len(a.holds[who]))]
		quiet, loud := a.Twins(&held, &powerful)
		a.role(who, scope, name, []rbacv1.PolicyRule{quiet})
		a.role(who, scope, name, []rbacv1.PolicyRule{loud})
		return
	case 3:
		held := a.holds[who][a.N(len(a.holds[who]))]
		a.role(who, scope, name, []rbacv1.PolicyRule{held})
		return
	}
	a.role(who, scope, name, append(a.Rules(1, a.vocabulary), a.Rule(a.vocabulary)))
}

// settle waits until what was written before counts: a role of each kind, made after it, does by then, and one that takes its rules from a template.
func (a *arena) settle() {
	a.t.Helper()
	ad, who := admin(a.t), unique("sentinel")
	var seen []probe
	sentinel := func(scope [3]string, grants func(name string, rules []rule) obj) {
		name := unique("sentinel")
		p := probe{"get", name + ".example.com", "things", a.namespace, ""}
		seen = append(seen, p)
		given := grants(name, []rule{{[]string{p.group}, []string{p.resource}, []string{p.verb}}})
		ad.create(a.t, iamAPI+a.path(scope[0], ""), iamObject(scope[2], name, given))
		binding := globalBinding(name, name, who)
		binding["kind"], binding["roleRef"] = scope[2]+"Binding", obj{"apiGroup": "iam.kubesphere.io", "kind": scope[2], "name": name}
		ad.create(a.t, iamAPI+a.path(scope[1], ""), binding)
	}
	for _, scope := range scopesOfRoles {
		sentinel(scope, func(_ string, rules []rule) obj { return obj{"rules": rules} })
	}
	sentinel(scopesOfRoles[0], func(name string, rules []rule) obj {
		ad.create(a.t, iamAPI+"/roletemplates", iamObject("RoleTemplate", name, obj{
			"metadata": obj{"name": name, "labels": obj{"iam.kubesphere.io/scope": "global"}}, "spec": obj{"rules": rules}}))
		return obj{"aggregationRoleTemplates": obj{"templateNames": []string{name}}}
	})
	for judge, ask := range judges {
		eventually(a.t, judge+" knows what was written", func(ctx context.Context) error {
			allowed, err := ask(ctx, a.t, who, seen)
			for p, ok := range allowed {
				if !ok {
					err = cmp.Or(err, fmt.Errorf("%s may not yet %+v", who, p))
				}
			}
			return err
		})
	}
}

// S77: people who may write roles, templates, bindings and users, and hold a little each, write them at random: with hostile words, by every way. What any of
// them may do afterwards, as ks-apiserver and kube-apiserver say, he could do before, or the writer could.
func TestNoRandomWriteGivesWhatItsWriterDoesNotHold(t *testing.T) {
	proves(t, "S77")
	a := &arena{
		Generator: hostile.New(77), t: t, namespace: newNamespace(t), prefix: unique("random"), roles: map[string][]string{},
		vocabulary: &hostile.Vocabulary{
			Verbs: []string{"get", "list", "create", "*", "get"}, Groups: []string{"", "", "apps", "*"},
			Resources: []string{"pods", "secrets", "configmaps", "deployments", "*"}, Names: []string{"a", "b"},
		},
	}
	of := func(verb, group, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
	}
	a.holds = [][]rbacv1.PolicyRule{
		{of("get", "", "pods"), of("list", "", "configmaps")}, {of("get", "", "pods"), of("create", "apps", "deployments")}, {of("list", "", "pods")},
	}
	for i, rules := range a.holds {
		name := unique("writer")
		u := newUser(t, name)
		a.people, a.ways = append(a.people, name), append(a.ways, ways(u, name))
		grantGlobally(t, name, managesRoles...)
		own := unique("own")
		admin(t).create(t, iamAPI+a.path("roles", ""), iamObject("Role", own, obj{"rules": rules}))
		bind(t, a.namespace, own, obj{"kind": "User", "name": name})
		eventually(t, name+" may write roles", u.is(http.StatusOK, http.MethodGet, iamAPI+"/globalroles?limit=1"))
		if i == 0 {
			grantGlobally(t, name, rule{Groups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}})
		}
	}
	a.settle()
	universe := probes("", a.namespace, "default", "kube-system")
	for who, writer := range a.people {
		before := allowedBy(t, a.people, universe)
		for range 50 {
			a.step(who)
		}
		a.settle()
		gained(t, writer, before, allowedBy(t, a.people, universe))
	}
	if a.accepted < 10 || a.refused < 10 {
		t.Errorf("%d writes were accepted and %d refused: too few of one to say anything", a.accepted, a.refused)
	}
	t.Logf("%d writes were accepted, and %d refused", a.accepted, a.refused)
}

// says is what rules say of a request, as they read.
func says(rules []rbacv1.PolicyRule, p probe) bool {
	has := func(list []string, words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
	}
	_, sub, isSub := strings.Cut(p.resource, "/")
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return has(r.Verbs, "*", p.verb) && has(r.APIGroups, "*", p.group) && (has(r.Resources, "*", p.resource) || isSub && has(r.Resources, "*/"+sub)) &&
			(len(r.ResourceNames) == 0 || p.name != "" && has(r.ResourceNames, p.name))
	})
}

// probesOf are requests that the words of rules could mean.
func (a *arena) probesOf(rules []rbacv1.PolicyRule) []probe {
	verbs, groups, kinds, names := []string{"get", "list"}, []string{"", "apps"}, []string{"pods", "secrets"}, []string{"", "a"}
	for i := range rules {
		r := &rules[i]
		verbs, groups, kinds, names = append(verbs, r.Verbs...), append(groups, r.APIGroups...), append(kinds, r.Resources...), append(names, r.ResourceNames...)
	}
	var out []probe
	for range 30 {
		p := probe{a.One(verbs...), a.One(groups...), a.One(kinds...), a.namespace, a.One(names...)}
		kind, sub, slash := strings.Cut(p.resource, "/")
		if p.verb != "" && p.verb != "*" && p.group != "*" && kind != "" && kind != "*" && (!slash || sub != "" && sub != "*") && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// What is let in gives what it reads as: a role of hostile words that is accepted allows what its words say one by one, and nothing else: by ks-apiserver,
// by kube-apiserver, and by its list of somebody's rules.
func TestARoleOfHostileWordsGivesWhatItReadsAs(t *testing.T) {
	a := &arena{Generator: hostile.New(62), t: t, namespace: newNamespace(t), vocabulary: &hostile.Vocabulary{
		Verbs: []string{"get", "list", "get", "*"}, Groups: []string{"", "apps", "", "*"},
		Resources: []string{"pods", "secrets", "pods/log", "deployments", "*/log"}, Names: []string{"a", "b", "c"},
	}}
	ad, accepted, refused, nobody := admin(t), 0, 0, unique("nobody")
	for i := range 40 {
		name, who := fmt.Sprint("r", i), unique("reader")
		rules := append(a.Rules(1, a.vocabulary), a.Rule(a.vocabulary))
		r, err := ad.do(t.Context(), http.MethodPost, iamAPI+a.path("roles", ""), iamObject("Role", name, obj{"rules": rules}))
		if err != nil || r.code != http.StatusCreated {
			if refused++; err != nil || r.code < 400 || r.code > 499 {
				t.Errorf("%q: %d %s %v", rules, r.code, clip(r.body), err)
			}
			continue
		}
		accepted++
		rules = decode[rbacv1.Role](t, r.body).Rules // as they are stored: JSON has no bytes that are not UTF-8
		bind(t, a.namespace, name, obj{"kind": "User", "name": who})
		asked := a.probesOf(rules)
		for judge, ask := range judges {
			eventually(t, judge+" gives what the role says", func(ctx context.Context) error {
				allowed, err := ask(ctx, t, who, asked)
				for p, may := range allowed {
					if !may && says(rules, p) {
						err = cmp.Or(err, fmt.Errorf("%s may not %+v, by %+v", who, p, rules))
					}
				}
				return err
			})
			allowed, err := ask(t.Context(), t, who, asked)
			if err != nil {
				t.Fatal(err)
			}
			for p, may := range allowed {
				if may && !says(rules, p) {
					t.Errorf("%s: %s may %+v, by %+v", judge, who, p, rules)
				}
			}
		}
		own := a.listed(nobody)
		for _, listed := range a.listed(who) {
			for _, p := range expanded(a.namespace, &listed) {
				if literal := says(own, p) || says(rules, p); !literal {
					t.Errorf("kube-apiserver lists %+v among the rights of %s, by %+v", p, who, rules)
				}
			}
		}
	}
	if accepted < 5 || refused < 5 {
		t.Errorf("%d roles were accepted and %d refused: too few of one to say anything", accepted, refused)
	}
	t.Logf("%d roles were accepted, and %d refused", accepted, refused)
}

// listed are the rules that kube-apiserver says somebody has in the namespace.
func (a *arena) listed(who string) []rbacv1.PolicyRule {
	a.t.Helper()
	code, body := pastIt(a.t, who, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
		`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectRulesReview","spec":{"namespace":"`+a.namespace+`"}}`)
	if code != http.StatusCreated {
		a.t.Fatalf("%d %s", code, clip(body))
	}
	var out []rbacv1.PolicyRule
	for _, r := range decode[authorizationv1.SelfSubjectRulesReview](a.t, body).Status.ResourceRules {
		out = append(out, rbacv1.PolicyRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames})
	}
	return out
}

// expanded is every request that a rule names word by word.
func expanded(namespace string, r *rbacv1.PolicyRule) []probe {
	names := r.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var out []probe
	for _, verb := range r.Verbs {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, name := range names {
					out = append(out, probe{verb, group, resource, namespace, name})
				}
			}
		}
	}
	return out
}
