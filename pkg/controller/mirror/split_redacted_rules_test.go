package mirror

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/redaction"
)

func TestKindsWithHiddenFieldsAreNotForOnesOwnCredentials(t *testing.T) { // S3
	rule := func(groups, resources string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: strings.Split(groups, " "), Resources: strings.Split(resources, " ")}
	}
	for name, c := range map[string]struct {
		in   rbacv1.PolicyRule
		open []rbacv1.PolicyRule
	}{
		"OthersStayAsTheyAre": {rule("apps iam.kubesphere.io", "roles deployments"),
			[]rbacv1.PolicyRule{rule("apps iam.kubesphere.io", "roles deployments")}},
		"AKindOfThatNameElsewhere":    {rule("example.com", "users"), []rbacv1.PolicyRule{rule("example.com", "users")}},
		"TheKindGoes":                 {rule("iam.kubesphere.io", "users"), nil},
		"BesideOthers":                {rule("iam.kubesphere.io", "users roles"), []rbacv1.PolicyRule{rule("iam.kubesphere.io", "roles")}},
		"BesideOtherGroups":           {rule("iam.kubesphere.io apps", "users"), []rbacv1.PolicyRule{rule("apps", "users")}},
		"ItsStatusIsTheWholeObject":   {rule("iam.kubesphere.io", "users/status"), nil},
		"AndTheStatusOfAll":           {rule("*", "*/status */scale"), []rbacv1.PolicyRule{rule("*", "*/scale")}},
		"InAnyGroup":                  {rule("*", "users nodes"), []rbacv1.PolicyRule{rule("*", "nodes")}},
		"AStarIsTheOthers":            {rule("cluster.kubesphere.io", "*"), []rbacv1.PolicyRule{rule("cluster.kubesphere.io", "labels")}},
		"AGroupOfNothingElse":         {rule("session.kapis.dev", "*"), nil},
		"WhoReadsEverythingReadsThem": {rule("*", "*"), []rbacv1.PolicyRule{rule("*", "*")}},
		"PathsStay": {rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}},
			[]rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			open, redacted := splitRedacted([]rbacv1.PolicyRule{c.in})
			if !equality.Semantic.DeepEqual(open, c.open) {
				t.Errorf("people hold %v, want %v", open, c.open)
			}
			if all := equality.Semantic.DeepEqual(open, []rbacv1.PolicyRule{c.in}); all == (len(redacted) > 0) {
				t.Errorf("what they hold is all: %v, and redacted is %v", all, redacted)
			}
		})
	}
}

// Users are bound to the kinds without redacted fields, and the synthetic group to all kinds, by two native roles.
func TestWhatIsWithheldIsTheSyntheticGroupsOnly(t *testing.T) { // S3
	users := rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{"iam.kubesphere.io"}, Resources: []string{"users", "roles"}}
	g := &grant{
		Bound: true, Rules: []rbacv1.PolicyRule{users}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}},
		Scope: NativeScope{Everywhere: true, Name: "kapis:global:viewer", Group: "kapis:global:viewer"},
	}
	may := func(one share) bool {
		return slices.ContainsFunc(one.rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "users") })
	}
	forGroup := false
	for _, one := range shares(g) {
		if len(one.subjects) > 0 && may(one) {
			t.Errorf("%s is bound to %v, with %v", one.name, one.subjects, one.rules)
		}
		forGroup = forGroup || may(one) && one.group == g.Scope.Group
	}
	if !forGroup {
		t.Errorf("nobody may: %v", shares(g))
	}
}

// The kinds for which "*" stands in a group are those that are installed.
func TestOrdinaryKindsAreThoseOfTheDefinitions(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d definitions: %v", len(files), err)
	}
	hidden := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			t.Fatal(err)
		}
		group, plural := crd.Spec.Group, crd.Spec.Names.Plural
		others, some := ordinary[group]
		if redaction.Hidden(schema.GroupResource{Group: group, Resource: plural}) != nil {
			hidden++
			if !some || slices.Contains(others, plural) {
				t.Errorf("%s.%s has hidden fields: people must not hold it", plural, group)
			}
			if crd.Spec.Scope != apiextensionsv1.ClusterScoped {
				t.Errorf("%s.%s is in namespaces, where nothing is redacted", plural, group)
			}
		} else if some && !slices.Contains(others, plural) {
			t.Errorf("%s.%s has no hidden fields, and is not among the others of its group", plural, group)
		}
	}
	if hidden < 5 {
		t.Errorf("only %d kinds have hidden fields", hidden)
	}
}
