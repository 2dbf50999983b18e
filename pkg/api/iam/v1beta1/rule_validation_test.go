package v1beta1_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	rbacv1 "k8s.io/api/rbac/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
)

// The two rules have one text by PolicyRule.String, which quotes nothing.
const (
	oneText   = `{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":["junk *],APIGroups:[*],Resources:[*],ResourceNames:[],NonResourceURLs:["]}`
	sameText  = `{"verbs":["get],APIGroups:[],Resources:[pods],ResourceNames:[junk","*"],"apiGroups":["*"],"resources":["*"],"nonResourceURLs":["],NonResourceURLs:["]}`
	ordinary1 = `{"verbs":["get","GET","*"],"apiGroups":["","*","apps","a-b.c_d"],"resources":["*","pods/log","*/scale",""],"resourceNames":["system:node","a@b.c","x_y~=+*"]}`
	ordinary2 = `{"verbs":["get"],"nonResourceURLs":["*","/healthz","/kapis/*","/a:b"]}`
)

func ruleOf(t testing.TB, text string) *rbacv1.PolicyRule {
	t.Helper()
	r := &rbacv1.PolicyRule{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRulesOfOneTextAreTwoRules(t *testing.T) { // S62
	x, y := ruleOf(t, oneText), ruleOf(t, sameText)
	if x.String() != y.String() {
		t.Fatal("the example is none")
	}
	if iamv1beta1.RuleKey(x) == iamv1beta1.RuleKey(y) {
		t.Error("they have one key")
	}
	absent, empty := &rbacv1.PolicyRule{Verbs: []string{"get"}}, &rbacv1.PolicyRule{Verbs: []string{"get"}, Resources: []string{}}
	if iamv1beta1.RuleKey(absent) != iamv1beta1.RuleKey(empty) {
		t.Error("an absent list and an empty one make two rules")
	}
}

func FuzzRuleKey(f *testing.F) { // S62
	f.Add(oneText, sameText)
	f.Add(`{"verbs":["a","b"]}`, `{"verbs":["a"],"apiGroups":["b"]}`)
	f.Add(`{"verbs":["\u0001a"]}`, `{"verbs":["","a"]}`)
	f.Add(`{"verbs":[]}`, `{}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		var x, y rbacv1.PolicyRule
		if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
			return
		}
		same := slices.Equal(x.Verbs, y.Verbs) && slices.Equal(x.APIGroups, y.APIGroups) && slices.Equal(x.Resources, y.Resources) &&
			slices.Equal(x.ResourceNames, y.ResourceNames) && slices.Equal(x.NonResourceURLs, y.NonResourceURLs)
		if got := iamv1beta1.RuleKey(&x) == iamv1beta1.RuleKey(&y); got != same {
			t.Errorf("equal keys: %t, equal values: %t\n%#v\n%#v", got, same, x, y)
		}
	})
}

func TestWordsOfRules(t *testing.T) { // S63
	for _, text := range []string{ordinary1, ordinary2, `{"verbs":[]}`} {
		if err := iamv1beta1.WrongWord(ruleOf(t, text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	hostile := []string{
		" ",
		"a b",
		"a,b",
		"[",
		"]",
		"{",
		"}",
		"(",
		")",
		`"`,
		"'",
		"`",
		"\x00",
		"\n",
		"a\n",
		"\t",
		"\x7f",
		"%",
		"%2f",
		"\\",
		"<",
		">",
		"é",
		"\u202e",
		"\u0430",
		"\ufeff",
		"\xff",
		"$",
	}
	only := map[string][]string{
		"verbs": {"a:b", "a/b", strings.Repeat("a", 64)}, "apiGroups": {"a:b", "a/b", strings.Repeat("a", 254)}, "resources": {"a:b", strings.Repeat("a", 254)},
		"resourceNames": {"a/b", strings.Repeat("a", 513)}, "nonResourceURLs": {strings.Repeat("/", 1025)},
	}
	for field, more := range only {
		for _, word := range slices.Concat(hostile, more) {
			raw, err := json.Marshal(map[string]any{"verbs": []string{"get"}, field: []string{"get", word}})
			if err != nil {
				t.Fatal(err)
			}
			r := ruleOf(t, string(raw))
			if err := iamv1beta1.WrongWord(r); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%s with %q: %v", field, word, err)
			}
		}
	}
	good, bad := *ruleOf(t, ordinary1), *ruleOf(t, oneText)
	list := []rbacv1.PolicyRule{good, bad, bad, *ruleOf(t, ordinary2)}
	if valid, wrong := iamv1beta1.ValidRules(
		list,
	); len(valid) != 2 || wrong == nil || !strings.Contains(wrong.Error(), "rule 1 ") ||
		list[1].ResourceNames[0] != bad.ResourceNames[0] {
		t.Errorf("%v, %v", valid, wrong)
	}
	if valid, wrong := iamv1beta1.ValidRules(list[:1]); len(valid) != 1 || wrong != nil {
		t.Errorf("%v, %v", valid, wrong)
	}
}

// What the definitions say is what the program says.
func FuzzWordsOfRules(f *testing.F) { // S63
	for _, word := range []string{"get", "", "a b", "a:b", "a/b", "\n", "a\n", "é", "*", "\x00", strings.Repeat("a", 253), strings.Repeat("a", 254), strings.Repeat("a", 64)} {
		f.Add(word)
	}
	set := map[string]func(*rbacv1.PolicyRule, []string){
		"verbs": func(r *rbacv1.PolicyRule, w []string) { r.Verbs = w }, "apiGroups": func(r *rbacv1.PolicyRule, w []string) { r.APIGroups = w },
		"resources": func(r *rbacv1.PolicyRule, w []string) { r.Resources = w }, "resourceNames": func(r *rbacv1.PolicyRule, w []string) { r.ResourceNames = w },
		"nonResourceURLs": func(r *rbacv1.PolicyRule, w []string) { r.NonResourceURLs = w },
	}
	f.Fuzz(func(t *testing.T, word string) {
		for _, words := range iamv1beta1.WordsOfRules() {
			r := &rbacv1.PolicyRule{}
			set[words.Field](r, []string{word})
			want := regexp.MustCompile(words.Pattern()).MatchString(word) && utf8.RuneCountInString(word) <= words.Longest
			if got := iamv1beta1.WrongWord(r) == nil; got != want {
				t.Errorf("%s of %q: %t, the definition says %t", words.Field, word, got, want)
			}
		}
	})
}

func TestDefinitionsRefuseWrongWords(t *testing.T) { // S63
	for _, plural := range []string{"globalroles", "clusterroles", "workspaceroles", "roles", "roletemplates"} {
		crd := crdtest.Load(t, plural, "iam.kubesphere.io")
		for _, v := range crd.Object.Spec.Versions {
			object := func(annotation, rules string) map[string]any {
				if plural == "roletemplates" {
					return crdtest.Object(
						t,
						`{"apiVersion":"iam.kubesphere.io/`+v.Name+`","kind":"`+crd.Object.Spec.Names.Kind+`","metadata":{"name":"x","annotations":{"a":"`+annotation+`"}},"spec":{"rules":[`+rules+`]}}`,
					)
				}
				return crdtest.Object(
					t,
					`{"apiVersion":"iam.kubesphere.io/`+v.Name+`","kind":"`+crd.Object.Spec.Names.Kind+`","metadata":{"name":"x","annotations":{"a":"`+annotation+`"}},"rules":[`+rules+`]}`,
				)
			}
			crdtest.Expect(t, crd.Create(t, object("", ordinary1+","+ordinary2)), "")
			for rule, field := range map[string]string{
				oneText: "resourceNames[0]", sameText: "verbs[0]", `{"verbs":["get"],"nonResourceURLs":["],"]}`: "nonResourceURLs[0]",
				`{"verbs":["get"],"apiGroups":["a b"]}`: "apiGroups[0]", `{"verbs":["get"],"resources":["a:b"]}`: "resources[0]",
				`{"verbs":["get"],"resources":["` + strings.Repeat("a", 254) + `"]}`: "Too long",
			} {
				crdtest.Expect(t, crd.Create(t, object("", ordinary1+","+rule)), field)
				crdtest.Expect(t, crd.Update(t, object("b", ordinary1), object("a", ordinary1+","+rule)), "")
				crdtest.Expect(t, crd.Update(t, object("b", ordinary1+","+rule), object("a", ordinary1)), field)
			}
		}
	}
}
