package aggregation_test

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/aggregation"
)

func rule(resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}}
}

// template returns a template with a rule for each of the resources, and the label pick=name.
func template(name, pick string, resources ...string) iamv1beta1.RoleTemplate {
	t := iamv1beta1.RoleTemplate{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pick": pick}}}
	for _, r := range resources {
		t.Spec.Rules = append(t.Spec.Rules, rule(r))
	}
	return t
}

func selector(pick string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"pick": pick}}
}

// subject returns a GlobalRole with rules for the resources.
func subject(t *iamv1beta1.AggregationRoleTemplates, resources ...string) *iamv1beta1.GlobalRole {
	r := &iamv1beta1.GlobalRole{AggregationRoleTemplates: t}
	for _, x := range resources {
		r.Rules = append(r.Rules, rule(x))
	}
	return r
}

func named(names ...string) *iamv1beta1.AggregationRoleTemplates {
	return &iamv1beta1.AggregationRoleTemplates{TemplateNames: names}
}

func aggregate(t *testing.T, r *iamv1beta1.GlobalRole, templates ...iamv1beta1.RoleTemplate) bool {
	t.Helper()
	of := func() aggregation.Role {
		return aggregation.Role{Meta: r, Templates: r.AggregationRoleTemplates, Rules: &r.Rules}
	}
	changed, err := aggregation.Aggregate(of(), templates)
	if err != nil {
		t.Fatal(err)
	}
	if changed && r.Annotations[aggregation.AnnotationRecord] != "" && !aggregation.Wanted(of()) {
		t.Error("a role with a record is not looked at again")
	}
	if again, err := aggregation.Aggregate(of(), templates); err != nil || again {
		t.Errorf("a second time: changed %t, %v", again, err)
	}
	return changed
}

func resources(r *iamv1beta1.GlobalRole) []string {
	var out []string
	for _, x := range r.Rules {
		out = append(out, x.Resources...)
	}
	return out
}

func check(t *testing.T, r *iamv1beta1.GlobalRole, want ...string) {
	t.Helper()
	if got := resources(r); !slices.Equal(got, want) {
		t.Errorf("the rules are for %v, want %v", got, want)
	}
}

func TestARoleOfNamesOnlyGetsTheirRules(t *testing.T) {
	r := subject(named("b", "a", "missing"))
	aggregate(t, r, template("a", "", "pods", "nodes"), template("b", "", "secrets", "pods"), template("c", "", "events"))
	check(t, r, "secrets", "pods", "nodes")
	if !slices.Equal(r.AggregationRoleTemplates.TemplateNames, []string{"b", "a", "missing"}) {
		t.Errorf("the names became %v", r.AggregationRoleTemplates.TemplateNames)
	}
}

func TestRemovalsAreFollowed(t *testing.T) {
	a, b := template("a", "", "pods"), template("b", "", "secrets")
	t.Run("OfARuleOfATemplate", func(t *testing.T) {
		r := subject(named("a"))
		aggregate(t, r, template("a", "", "pods", "nodes"))
		aggregate(t, r, a)
		check(t, r, "pods")
	})
	t.Run("OfATemplate", func(t *testing.T) {
		r := subject(named("a", "b"))
		aggregate(t, r, a, b)
		aggregate(t, r, b)
		check(t, r, "secrets")
	})
	t.Run("OfATemplateThatIsBeingDeleted", func(t *testing.T) {
		r := subject(named("a", "b"))
		aggregate(t, r, a, b)
		going := a
		going.DeletionTimestamp = &metav1.Time{}
		going.DeletionTimestamp.Time = going.DeletionTimestamp.AddDate(1, 0, 0)
		aggregate(t, r, going, b)
		check(t, r, "secrets")
	})
	t.Run("OfAName", func(t *testing.T) {
		r := subject(named("a", "b"))
		aggregate(t, r, a, b)
		r.AggregationRoleTemplates.TemplateNames = []string{"b"}
		aggregate(t, r, a, b)
		check(t, r, "secrets")
	})
	t.Run("OfALabel", func(t *testing.T) {
		r := subject(&iamv1beta1.AggregationRoleTemplates{RoleSelector: selector("me")})
		aggregate(t, r, template("a", "me", "pods"), template("b", "me", "secrets"))
		check(t, r, "pods", "secrets")
		aggregate(t, r, template("a", "not me", "pods"), template("b", "me", "secrets"))
		check(t, r, "secrets")
		if names := r.AggregationRoleTemplates.TemplateNames; !slices.Equal(names, []string{"b"}) {
			t.Errorf("the names are %v", names)
		}
	})
	t.Run("OfTheSelector", func(t *testing.T) {
		r := subject(&iamv1beta1.AggregationRoleTemplates{RoleSelector: selector("me")}, "nodes")
		aggregate(t, r, template("a", "me", "pods"))
		r.AggregationRoleTemplates = nil
		aggregate(t, r, template("a", "me", "pods"))
		check(t, r, "nodes")
		if len(r.Annotations) != 0 {
			t.Errorf("the record stayed: %v", r.Annotations)
		}
	})
	t.Run("ByTheAnnotation", func(t *testing.T) {
		r := subject(named("a"))
		aggregate(t, r, a)
		r.Annotations[iamv1beta1.AnnotationAutoAggregate] = "false"
		aggregate(t, r, a)
		check(t, r)
	})
}

func TestATemplateThatComesBackGivesItsRulesAgain(t *testing.T) {
	r := subject(named("a"))
	aggregate(t, r, template("a", "", "pods"))
	r.Rules = append(r.Rules, rule("nodes"))
	aggregate(t, r)
	check(t, r, "nodes")
	aggregate(t, r, template("a", "", "pods"))
	check(t, r, "nodes", "pods")
}

func TestOwnRulesAreNeverLost(t *testing.T) {
	t.Run("BesideASelector", func(t *testing.T) {
		r := subject(&iamv1beta1.AggregationRoleTemplates{RoleSelector: selector("me")}, "nodes", "events")
		aggregate(t, r, template("a", "me", "pods"))
		check(t, r, "nodes", "events", "pods")
		aggregate(t, r)
		check(t, r, "nodes", "events")
	})
	t.Run("AddedLater", func(t *testing.T) {
		r := subject(named("a"))
		aggregate(t, r, template("a", "", "pods"))
		r.Rules = append([]rbacv1.PolicyRule{rule("nodes")}, r.Rules...)
		aggregate(t, r, template("a", "", "pods"))
		aggregate(t, r)
		check(t, r, "nodes")
	})
	t.Run("OfAnInstallationThatOnlyLists", func(t *testing.T) {
		// Names without the annotation, next to rules that a user wrote: a list for pages.
		r := subject(named("a"), "nodes")
		if aggregate(t, r, template("a", "", "pods")) {
			t.Error("the role was changed")
		}
		check(t, r, "nodes")
	})
	t.Run("WithTheAnnotation", func(t *testing.T) {
		r := subject(named("a"), "nodes", "pods")
		r.Annotations = map[string]string{iamv1beta1.AnnotationAutoAggregate: "true"}
		aggregate(t, r, template("a", "", "pods"))
		check(t, r, "nodes", "pods")
		aggregate(t, r)
		check(t, r, "nodes")
	})
	t.Run("WithARecordThatCannotBeRead", func(t *testing.T) {
		r := subject(named("a"), "nodes")
		r.Annotations = map[string]string{aggregation.AnnotationRecord: "{"}
		aggregate(t, r, template("a", "", "pods"))
		check(t, r, "nodes", "pods")
	})
}

func TestNamesWrittenByHandStayBesideASelector(t *testing.T) {
	r := subject(&iamv1beta1.AggregationRoleTemplates{TemplateNames: []string{"hand", "not-shipped"}, RoleSelector: selector("me")})
	aggregate(t, r, template("z", "me", "pods"), template("b", "me", "events"), template("hand", "", "secrets"))
	if names := r.AggregationRoleTemplates.TemplateNames; !slices.Equal(names, []string{"hand", "not-shipped", "b", "z"}) {
		t.Errorf("the names are %v", names)
	}
	check(t, r, "secrets", "events", "pods")
	aggregate(t, r, template("hand", "", "secrets"))
	if names := r.AggregationRoleTemplates.TemplateNames; !slices.Equal(names, []string{"hand", "not-shipped"}) {
		t.Errorf("the names are %v", names)
	}
	check(t, r, "secrets")
}

func TestASelectorThatFindsNothingGivesNothing(t *testing.T) {
	r := subject(&iamv1beta1.AggregationRoleTemplates{RoleSelector: selector("nobody")})
	aggregate(t, r, template("a", "me", "pods"))
	check(t, r)
}

func TestWithoutTemplatesNothingChanges(t *testing.T) {
	for name, r := range map[string]*iamv1beta1.GlobalRole{
		"NoField":    subject(nil, "pods"),
		"NoNames":    subject(named()),
		"EmptyField": subject(&iamv1beta1.AggregationRoleTemplates{}, "pods"),
	} {
		t.Run(name, func(t *testing.T) {
			role := aggregation.Role{Meta: r, Templates: r.AggregationRoleTemplates, Rules: &r.Rules}
			if aggregation.Wanted(role) || aggregate(t, r, template("a", "", "nodes")) {
				t.Error("the role was touched")
			}
		})
	}
}

func TestABadSelectorChangesNothing(t *testing.T) {
	r := subject(
		&iamv1beta1.AggregationRoleTemplates{RoleSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}},
		"pods",
	)
	if _, err := aggregation.Aggregate(aggregation.Role{Meta: r, Templates: r.AggregationRoleTemplates, Rules: &r.Rules}, nil); err == nil {
		t.Error("no error")
	}
	check(t, r, "pods")
}

func TestTemplatesAreNotSharedWithRoles(t *testing.T) {
	a := template("a", "", "pods")
	r := subject(named("a"))
	aggregate(t, r, a)
	r.Rules[0].Resources[0] = "changed"
	if a.Spec.Rules[0].Resources[0] != "pods" {
		t.Error("an edit of the role changed the template in the cache")
	}
}
