package builtinrole_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/aggregation"
	"kapis.dev/ks-apiserver/pkg/controller/builtinrole"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
)

var ctx = context.Background()

func builtin(name, role string) *iamv1beta1.BuiltinRole {
	b := &iamv1beta1.BuiltinRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if role != "" {
		b.Role = runtime.RawExtension{Raw: []byte(role)}
	}
	return b
}

const dev = `{"kind":"Role","metadata":{"name":"dev","labels":{"kubesphere.io/workspace":"x","l":"1"},"annotations":{"kubesphere.io/creator":"system","a":"1"}},
"aggregationRoleTemplates":{"templateNames":["named"],"roleSelector":{"matchLabels":{"to":"dev"}}},"rules":[{"verbs":["own"],"apiGroups":[""],"resources":["pods"]}]}`

func template(name, to string) *iamv1beta1.RoleTemplate {
	return &iamv1beta1.RoleTemplate{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{iamv1beta1.LabelScope: "namespace", "to": to}},
		Spec: iamv1beta1.RoleTemplateSpec{Rules: []rbacv1.PolicyRule{{Verbs: []string{name}, APIGroups: []string{""}, Resources: []string{"pods"}}}}}
}

func verbs(rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, r := range rules {
		out = append(out, r.Verbs...)
	}
	return slices.Sorted(slices.Values(out))
}

func patterns(t *testing.T, c client.Reader, kind string) []builtinrole.Pattern {
	t.Helper()
	out, broken, err := builtinrole.Patterns(ctx, c, kind)
	if broken != nil || err != nil {
		t.Fatal(broken, err)
	}
	return out
}

func TestPatternsAreThoseOfTheKind(t *testing.T) {
	c := controllertest.New(t, nil, builtin("b", dev), builtin("a", `{"kind":"Role","metadata":{"name":"admin"}}`),
		builtin("w", `{"kind":"WorkspaceRole","metadata":{"name":"admin"}}`), builtin("none", ""))
	var names []string
	for _, p := range patterns(t, c.Client, "Role") {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"admin", "dev"}) {
		t.Errorf("they are %v", names)
	}
}

func TestOneOfSeveralPatternsCounts(t *testing.T) {
	some := builtin("c", dev)
	some.TargetSelector.MatchLabels = map[string]string{"some": "yes"}
	c := controllertest.New(t, nil, builtin("b", dev), builtin("d", dev), some, builtin("a", `{"kind":"Role","metadata":{"name":"other"}}`))
	all := patterns(t, c.Client, "Role")
	for claim, set := range map[string]map[string]string{"WhoHasTheLabel": {"some": "yes"}, "WhoHasNot": nil} {
		got := builtinrole.For(all, set)
		if len(got) != 2 || got[0] != &all[0] || got[0].Name != "dev" || got[1].Name != "other" {
			t.Errorf("%s gets %d roles", claim, len(got))
		}
	}
	if got := builtinrole.For(patterns(t, controllertest.New(t, nil, some).Client, "Role"), nil); len(got) != 0 {
		t.Errorf("a pattern for others counts")
	}
}

func TestABrokenPatternKeepsNobodyElseFromItsRole(t *testing.T) {
	selector := builtin("selector", dev)
	selector.TargetSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "like"}}
	for claim, broken := range map[string]*iamv1beta1.BuiltinRole{
		"NoName": builtin("x", `{"kind":"Role"}`), "NoObject": builtin("x", `{"kind":"Role","metadata":[]}`), "NoSelector": selector,
	} {
		t.Run(claim, func(t *testing.T) {
			c := controllertest.New(t, nil, broken, builtin("good", `{"kind":"Role","metadata":{"name":"good"}}`))
			got, said, err := builtinrole.Patterns(ctx, c.Client, "Role")
			if len(got) != 1 || got[0].Name != "good" || said == nil || err != nil {
				t.Errorf("%d patterns, %v, %v", len(got), said, err)
			}
		})
	}
}

// The cache lists in any order, and a condition that differs each time would be written each time.
func TestWhatIsBrokenIsToldInOneOrder(t *testing.T) {
	a, b := *builtin("a", `{"kind":"Role"}`), *builtin("b", `{"kind":"Role"}`)
	_, one, _ := builtinrole.Patterns(ctx, listed{a, b}, "Role")
	_, other, _ := builtinrole.Patterns(ctx, listed{b, a}, "Role")
	if one == nil || one.Error() != other.Error() || !strings.Contains(one.Error(), `"a"`) || !strings.Contains(one.Error(), `"b"`) {
		t.Errorf("%v, then %v", one, other)
	}
}

func TestARoleIsMadeWhole(t *testing.T) {
	c := controllertest.New(t, nil, builtin("b", dev), template("named", ""), template("selected", "dev"), template("other", "x"))
	p := patterns(t, c.Client, "Role")[0]
	role := &iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "dev"}}
	if made, err := p.Keep(ctx, c.Client, role.DeepCopy()); !made || err != nil {
		t.Fatal(made, err)
	}
	c.Has(role)
	if got := verbs(role.Rules); !slices.Equal(got, []string{"named", "own", "selected"}) {
		t.Errorf("it grants %v", got)
	}
	if role.Labels["kubesphere.io/workspace"] != "" || role.Annotations["kubesphere.io/creator"] != "system" || role.Labels["l"] != "1" || role.Annotations["a"] != "1" {
		t.Errorf("its metadata is %+v", role.ObjectMeta)
	}
	if changed, err := aggregation.Aggregate(aggregation.Role{Meta: role, Templates: role.AggregationRoleTemplates, Rules: &role.Rules},
		[]iamv1beta1.RoleTemplate{*template("named", ""), *template("selected", "dev")}); changed || err != nil {
		t.Errorf("the role's own controller changes it again: %t, %v", changed, err)
	}
}

func TestARoleIsKeptTrue(t *testing.T) {
	for claim, c := range map[string]struct {
		change string // of the role
		raw    string // of the pattern
		want   []string
		writes int64
	}{
		"NothingChanged":             {"", dev, []string{"named", "own", "selected"}, 0},
		"SomebodyTookAnAnnotation":   {`{"metadata":{"annotations":{"kubesphere.io/creator":null}}}`, dev, []string{"named", "own", "selected"}, 1},
		"SomebodyDescribedIt":        {`{"metadata":{"annotations":{"a":"2"}}}`, dev, []string{"named", "own", "selected"}, 0},
		"SomebodyTookItsSelector":    {`{"aggregationRoleTemplates":{"roleSelector":null}}`, dev, []string{"named", "own", "selected"}, 1},
		"SomebodyTookANamedTemplate": {`{"aggregationRoleTemplates":{"templateNames":["selected"]}}`, dev, []string{"named", "own", "selected"}, 1},
		"ThePatternGrantsLess": {"", `{"kind":"Role","metadata":{"name":"dev"},"aggregationRoleTemplates":{"templateNames":["named"]},"rules":[]}`,
			[]string{"named"}, 1},
		"ThePatternHasNoTemplates": {"", `{"kind":"Role","metadata":{"name":"dev"},"rules":[{"verbs":["v"],"apiGroups":[""],"resources":["pods"]}]}`, []string{"v"},
			1},
	} {
		t.Run(claim, func(t *testing.T) {
			f := controllertest.New(t, nil, builtin("b", dev), template("named", ""), template("selected", "dev"))
			role := &iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "dev"}}
			keep := func() {
				p := patterns(t, f.Client, "Role")[0]
				if _, err := p.Keep(ctx, f.Client, &iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "dev"}}); err != nil {
					t.Fatal(err)
				}
			}
			keep()
			if c.change != "" {
				f.Patch(role.DeepCopy(), c.change)
			}
			f.Patch(builtin("b", ""), `{"role":null}`)
			f.Patch(builtin("b", ""), `{"role":`+c.raw+`}`)
			if n := f.Written(keep); n != c.writes {
				t.Errorf("%d writes, want %d", n, c.writes)
			}
			if f.Has(role); !slices.Equal(verbs(role.Rules), c.want) {
				t.Errorf("it grants %v, want %v", verbs(role.Rules), c.want)
			}
			if n := f.Written(keep); n != 0 {
				t.Errorf("a second time wrote %d times", n)
			}
		})
	}
}

// A role of an earlier version, to which a user added a rule: its fingerprint has the annotations of the pattern of its time, and the
// present pattern has more of them. It is completed, and keeps the rule and its own description.
func TestARoleOfAnEarlierVersionIsCompleted(t *testing.T) {
	pattern := func(annotations string) string {
		return `{"kind":"Role","metadata":{"name":"dev","annotations":` + annotations + `},"rules":[{"verbs":["own"],"apiGroups":[""],"resources":["pods"]}]}`
	}
	earlier := sha256.Sum256([]byte(`{"kind":"Role","metadata":{"name":"dev","annotations":{"kubesphere.io/description":"Old."}},` +
		`"rules":[{"verbs":["own"],"apiGroups":[""],"resources":["pods"]}]}`))
	rule := func(verb string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods"}}
	}
	for _, length := range []int{16, 64} {
		role := &iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "dev", Annotations: map[string]string{
			builtinrole.AnnotationPattern: hex.EncodeToString(earlier[:])[:length], "kubesphere.io/description": "Old."}},
			Rules: []rbacv1.PolicyRule{rule("own"), rule("added")}}
		f := controllertest.New(t, nil, builtin("b", pattern(`{"kubesphere.io/creator":"system","kubesphere.io/description":"New."}`)), role)
		p := patterns(t, f.Client, "Role")[0]
		keep := func() {
			if _, err := p.Keep(ctx, f.Client, &iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "dev"}}); err != nil {
				t.Fatal(err)
			}
		}
		keep()
		f.Has(role)
		if got := verbs(role.Rules); !slices.Equal(got, []string{"added", "own"}) {
			t.Errorf("%d digits: it grants %v", length, got)
		}
		if a := role.Annotations; a["kubesphere.io/creator"] != "system" || a["kubesphere.io/description"] != "Old." {
			t.Errorf("%d digits: its annotations are %v", length, a)
		}
		if n := f.Written(keep); n != 0 {
			t.Errorf("%d digits: a second time wrote %d times", length, n)
		}
		f.Patch(role.DeepCopy(), `{"metadata":{"annotations":{"kubesphere.io/description":"Another."}}}`)
		keep()
		if f.Has(role); !slices.Equal(verbs(role.Rules), []string{"added", "own"}) {
			t.Errorf("%d digits: described again, it grants %v", length, verbs(role.Rules))
		}
	}
}

func TestS6ARoleOfAnotherWorkspaceIsTaken(t *testing.T) {
	theirs := &iamv1beta1.WorkspaceRole{ObjectMeta: metav1.ObjectMeta{Name: "a-b-admin", Labels: map[string]string{"kubesphere.io/workspace": "a"}}}
	f := controllertest.New(
		t,
		nil,
		builtin("w", `{"kind":"WorkspaceRole","metadata":{"name":"admin"},"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}`),
		theirs,
	)
	want := &iamv1beta1.WorkspaceRole{ObjectMeta: metav1.ObjectMeta{Name: "a-b-admin", Labels: map[string]string{"kubesphere.io/workspace": "a-b"}}}
	p := patterns(t, f.Client, "WorkspaceRole")[0]
	if _, err := p.Keep(ctx, f.Client, want); !errors.Is(err, builtinrole.ErrTaken) {
		t.Errorf("the error is %v", err)
	}
	if f.Has(theirs); len(theirs.Rules) != 0 {
		t.Error("their role was written")
	}
}

// A user who may label a Role must not separate its namespace from its roles.
func TestARoleOfANamespaceIsTakenByNoLabel(t *testing.T) {
	labelled := &iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "dev", Labels: map[string]string{"kubesphere.io/workspace": "x"}}}
	f := controllertest.New(t, nil, builtin("b", dev), template("named", ""), template("selected", "dev"), labelled)
	p := patterns(t, f.Client, "Role")[0]
	if _, err := p.Keep(ctx, f.Client, &iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "dev"}}); err != nil {
		t.Fatal(err)
	}
	if f.Has(labelled); !slices.Equal(verbs(labelled.Rules), []string{"named", "own", "selected"}) {
		t.Errorf("it grants %v", verbs(labelled.Rules))
	}
}

// Anyone who may write BuiltinRoles chooses the pattern's text: no text may crash the controller.
func FuzzPatterns(f *testing.F) {
	f.Add(dev)
	f.Add(`{"kind":"WorkspaceRole","metadata":{"name":"x"}}`)
	f.Add(`{"kind":"Role","metadata":{"name":"x","labels":null},"rules":null,"aggregationRoleTemplates":null}`)
	f.Fuzz(func(t *testing.T, raw string) {
		b := builtin("b", raw)
		_ = builtinrole.KindOf(b)
		for _, kind := range []string{"Role", "WorkspaceRole"} {
			got, _, _ := builtinrole.Patterns(ctx, oneOf{b}, kind)
			for _, p := range got {
				if p.Name == "" {
					t.Error("a pattern of no name")
				}
			}
		}
	})
}

// oneOf is a reader with one BuiltinRole.
type oneOf struct{ b *iamv1beta1.BuiltinRole }

func (oneOf) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func (o oneOf) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*iamv1beta1.BuiltinRoleList).Items = []iamv1beta1.BuiltinRole{*o.b}
	return nil
}

// The cost of a start for each workspace and namespace, besides reads of the cache: seven patterns are read.
func BenchmarkPatterns(b *testing.B) {
	var list listed
	for range 7 {
		list = append(list, *builtin("b", dev))
	}
	b.ReportAllocs()
	for b.Loop() {
		if out, _, err := builtinrole.Patterns(ctx, list, "Role"); err != nil || len(builtinrole.For(out, nil)) != 1 {
			b.Fatal(err)
		}
	}
}

// listed is a reader of BuiltinRoles, which lists them in this order.
type listed []iamv1beta1.BuiltinRole

func (listed) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func (s listed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*iamv1beta1.BuiltinRoleList).Items = s
	return nil
}

func TestARuleWithAWrongWordIsLeftOutAndTold(t *testing.T) { // S63
	c := controllertest.New(t, nil, builtin("b", `{"kind":"Role","metadata":{"name":"dev"},"rules":[{"verbs":["get],x:["]},{"verbs":["get"]}]}`))
	all, broken, err := builtinrole.Patterns(ctx, c.Client, "Role")
	if err != nil || len(all) != 1 || broken == nil || !strings.Contains(broken.Error(), `"b"`) || !strings.Contains(broken.Error(), "rule 0 gives nothing") {
		t.Fatalf("%v, %v, %v", all, broken, err)
	}
	made := &iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "dev"}}
	if _, err := all[0].Keep(ctx, c.Client, made); err != nil || !slices.Equal(verbs(made.Rules), []string{"get"}) {
		t.Errorf("%v, %v", made.Rules, err)
	}
	// A role of an earlier version has its pattern's fingerprint: rules that a user has added stay.
	now := &iamv1beta1.Role{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(made), now); err != nil {
		t.Fatal(err)
	}
	before := now.DeepCopy()
	now.Annotations[builtinrole.AnnotationPattern] = now.Annotations[builtinrole.AnnotationPattern][:16]
	now.Rules = append(now.Rules, rbacv1.PolicyRule{Verbs: []string{"list"}})
	if err := c.Client.Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		t.Fatal(err)
	}
	if _, err := all[0].Keep(ctx, c.Client, &iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "dev"}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(made), now); err != nil || len(now.Rules) != 2 {
		t.Errorf("%v, %v", now.Rules, err)
	}
}
