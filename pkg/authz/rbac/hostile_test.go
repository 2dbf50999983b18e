package rbac

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/tools/hostile"
)

// The index grants only bound subjects what the parsed words of a rule say, and never more: a word is compared whole. A rule with a word that can't be a name
// may grant nothing.
func TestTheIndexGivesWhatHostileWordsSay(t *testing.T) {
	vocabulary := &hostile.Vocabulary{
		Verbs: []string{"get", "list", "*"}, Groups: []string{"", "apps", "*"}, Resources: []string{"pods", "pods/log", "*", "*/log"}, Names: []string{"a", "b"},
		Paths: []string{"/x", "/x/*"},
	}
	allowed, asked := 0, 0
	for seed := range uint64(400) {
		g, w := hostile.New(seed), newWorld(t)
		rules := stored(t, append(g.Rules(3, vocabulary), g.Rule(vocabulary)))
		who, other := stored(t, []string{g.Mixed("bob")})[0], stored(t, []string{g.Mixed("bob", "ann")})[0]
		plain := slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool { return !isPlain(&r) })
		w.role("globalroles", "r", rules...)
		w.set("globalrolebindings", "", "b", map[string]any{
			"roleRef":  rbacv1.RoleRef{APIGroup: "iam.kubesphere.io", Kind: "GlobalRole", Name: "r"},
			"subjects": []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: who}},
		})
		words := func(plain []string, of func(*rbacv1.PolicyRule) []string) []string {
			out := append(slices.Clone(plain), g.Word())
			for i := range rules {
				out = append(out, of(&rules[i])...)
			}
			return out
		}
		verbs := words(vocabulary.Verbs, func(r *rbacv1.PolicyRule) []string { return r.Verbs })
		groups := words(vocabulary.Groups, func(r *rbacv1.PolicyRule) []string { return r.APIGroups })
		kinds := words(vocabulary.Resources, func(r *rbacv1.PolicyRule) []string { return r.Resources })
		names := words([]string{"", "a", "b"}, func(r *rbacv1.PolicyRule) []string { return r.ResourceNames })
		for range 200 {
			what, verb := g.One(kinds...), g.One(verbs...)
			if kind, sub, slash := strings.Cut(what, "/"); kind == "" || slash && sub == "" || verb == "" {
				continue // no one can make such a request
			}
			r := &request.Info{Verb: verb, APIGroup: g.One(groups...), Name: g.One(names...), IsResource: true, Scope: request.Cluster}
			r.Resource, r.Subresource, _ = strings.Cut(what, "/")
			asked++
			want := naiveAllows(rules, r)
			least := naiveAllows(plain, r)
			if want {
				allowed++
			}
			if d := w.decide(person(who), r); d.Allowed() && (!want || who == "") || !d.Allowed() && least && who != "" {
				t.Fatalf("seed %d: %q asks for %+v: %t, by %+v", seed, who, r, d.Allowed(), rules)
			}
			if other != who && w.decide(person(other), r).Allowed() {
				t.Fatalf("seed %d: %q has what %q is bound to", seed, other, who)
			}
		}
	}
	if allowed < asked/20 || allowed > asked*19/20 {
		t.Errorf("%d of %d requests were allowed: too few of one to say anything", allowed, asked)
	}
}

// isPlain reports whether a rule has only words that are names.
func isPlain(r *rbacv1.PolicyRule) bool {
	return !slices.ContainsFunc(slices.Concat(r.Verbs, r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs), func(word string) bool {
		return len(word) > 63 || strings.Trim(strings.ReplaceAll(word, "pods/log", ""), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789*._-") != ""
	})
}

// stored returns a text as kube-apiserver stores it: JSON has no bytes that are not UTF-8.
func stored[T any](t *testing.T, v T) (out T) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
