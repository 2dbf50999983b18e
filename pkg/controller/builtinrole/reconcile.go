package builtinrole

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/aggregation"
)

// AnnotationPattern is the annotation of a role with the fingerprint of its pattern.
const AnnotationPattern = iamv1beta1.AnnotationPattern

// annotationDescription was the only annotation of the patterns that earlier versions had.
const annotationDescription = "kubesphere.io/description"

// ErrTaken says that a role of another workspace has the role's name.
var ErrTaken = errors.New("the name belongs to a role of another workspace")

// Keep makes a role from the pattern, or updates the existing one. want is an empty Role or WorkspaceRole with the wanted
// name, namespace and labels. made reports whether the role had to be created.
func (p *Pattern) Keep(ctx context.Context, c client.Client, want client.Object) (made bool, err error) {
	role := want.DeepCopyObject().(client.Object)
	err = c.Get(ctx, client.ObjectKeyFromObject(want), role)
	if apierrors.IsNotFound(err) {
		if _, err := p.apply(ctx, c, want); err != nil {
			return false, err
		}
		if err := c.Create(ctx, want); err != nil {
			return false, fmt.Errorf("make built-in role %q: %w", want.GetName(), err)
		}
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read built-in role %q: %w", want.GetName(), err)
	}
	// A Role belongs to its namespace, whatever workspace its label names.
	if workspace, ok := want.GetLabels()[tenantv1beta1.LabelWorkspace]; ok && role.GetLabels()[tenantv1beta1.LabelWorkspace] != workspace {
		return false, ErrTaken
	}
	if !role.GetDeletionTimestamp().IsZero() {
		return false, nil // its deletion will be an event
	}
	before := role.DeepCopyObject().(client.Object)
	if applied, err := p.apply(ctx, c, role); err != nil || !applied {
		return false, err
	}
	if err := c.Patch(ctx, role, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("write built-in role %q: %w", want.GetName(), err)
	}
	return false, nil
}

// apply updates a role from the pattern and reports whether it changed anything. The rules of templates come in the same
// write as their names: a role that names templates and has no rules yet would deprive its members of their rights for a
// moment.
func (p *Pattern) apply(ctx context.Context, c client.Reader, role client.Object) (bool, error) {
	templates, rules := fields(role)
	was := role.GetAnnotations()[AnnotationPattern]
	if p.madeFrom(role) && p.selects(*templates) {
		completed := p.complete(role)
		if was == p.fingerprint {
			return completed, nil
		}
		// The description is in a fingerprint of an earlier version, and anyone who edits it would have the rules written again.
		role.SetAnnotations(with(role.GetAnnotations(), map[string]string{AnnotationPattern: p.fingerprint}))
		return true, nil
	}
	next := p.templates.DeepCopy()
	if was == "" { // an older installation's role, or a new one: its rules stay
		next = joined(next, *templates)
		has, _ := iamv1beta1.ValidRules(*rules) // a role with an invalid rule can't be written
		*rules = union(p.rules, has)
	} else {
		*rules = slices.Clone(p.rules)
		annotations := maps.Clone(role.GetAnnotations())
		delete(annotations, aggregation.AnnotationRecord)
		role.SetAnnotations(annotations)
	}
	*templates = next
	role.SetLabels(with(role.GetLabels(), p.labels))
	role.SetAnnotations(with(with(role.GetAnnotations(), p.annotations), map[string]string{AnnotationPattern: p.fingerprint}))
	all := &iamv1beta1.RoleTemplateList{}
	if err := c.List(ctx, all, client.MatchingLabels{iamv1beta1.LabelScope: p.scope}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list role templates of scope %s: %w", p.scope, err)
	}
	if _, err := aggregation.Aggregate(aggregation.Role{Meta: role, Templates: *templates, Rules: rules}, all.Items); err != nil {
		return false, fmt.Errorf("make the rules of built-in role %q: %w", role.GetName(), err)
	}
	return true, nil
}

// complete adds the labels and annotations of the pattern that the role lacks, and reports whether there were any. Values that differ
// stay: they may be a user's.
func (p *Pattern) complete(role client.Object) bool {
	had := len(role.GetLabels()) + len(role.GetAnnotations())
	role.SetLabels(with(p.labels, role.GetLabels()))
	role.SetAnnotations(with(p.annotations, role.GetAnnotations()))
	return len(role.GetLabels())+len(role.GetAnnotations()) != had
}

// earlierFingerprint is the length of the fingerprints of the first version, which are prefixes of those of the second.
const earlierFingerprint = 16

// madeFrom reports whether a role was made from a pattern that gives the same. Earlier versions had labels and annotations in their
// fingerprints, and these count too: otherwise the rules that a user has added to such a role would be lost.
func (p *Pattern) madeFrom(role client.Object) bool {
	was := role.GetAnnotations()[AnnotationPattern]
	if was == p.fingerprint {
		return true
	}
	if len(was) < earlierFingerprint {
		return false
	}
	described := map[string]string{}
	if text, ok := role.GetAnnotations()[annotationDescription]; ok {
		described[annotationDescription] = text
	}
	m := p.role.Metadata
	return strings.HasPrefix(p.role.fingerprint(m.Labels, m.Annotations), was) || strings.HasPrefix(p.role.fingerprint(m.Labels, described), was)
}

// selects reports whether a role's templates include those of the pattern.
func (p *Pattern) selects(has *iamv1beta1.AggregationRoleTemplates) bool {
	if p.templates == nil {
		return true
	}
	return has != nil && equality.Semantic.DeepEqual(has.RoleSelector, p.templates.RoleSelector) &&
		!slices.ContainsFunc(p.templates.TemplateNames, func(name string) bool { return !slices.Contains(has.TemplateNames, name) })
}

func joined(next, has *iamv1beta1.AggregationRoleTemplates) *iamv1beta1.AggregationRoleTemplates {
	if has == nil || next == nil {
		return next
	}
	for _, name := range has.TemplateNames {
		if !slices.Contains(next.TemplateNames, name) {
			next.TemplateNames = append(next.TemplateNames, name)
		}
	}
	return next
}

func union(rules, more []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	out := slices.Clone(rules)
	for _, r := range more {
		if !slices.ContainsFunc(out, func(o rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(o, r) }) {
			out = append(out, r)
		}
	}
	return out
}

// fields returns pointers to the fields of a role that are its own; nil for any other object.
func fields(o client.Object) (**iamv1beta1.AggregationRoleTemplates, *[]rbacv1.PolicyRule) {
	switch r := o.(type) {
	case *iamv1beta1.Role:
		return &r.AggregationRoleTemplates, &r.Rules
	case *iamv1beta1.WorkspaceRole:
		return &r.AggregationRoleTemplates, &r.Rules
	}
	return new(*iamv1beta1.AggregationRoleTemplates), new([]rbacv1.PolicyRule)
}

func with(has, more map[string]string) map[string]string {
	out := maps.Clone(has)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, more)
	return out
}
