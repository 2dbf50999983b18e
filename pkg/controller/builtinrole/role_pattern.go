// Package builtinrole makes the roles that every workspace and every managed namespace has, from the patterns in
// BuiltinRoles, and updates them when a pattern changes.
//
// A role has the fingerprint of the rights of its pattern in an annotation. So nothing is computed while these do not change,
// and rules that a user added to a built-in role of an older installation stay until they do. Labels and annotations that a role
// lacks are added at any time. A deleted
// pattern deletes no role: with the definition of BuiltinRoles all patterns are deleted, and all users would lose their
// rights.
package builtinrole

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// Pattern is the content of a BuiltinRole.
type Pattern struct {
	// Name is the name of the role, such as "admin". A workspace's role is called <workspace>-<name>.
	Name string

	builtin     string // the name of the BuiltinRole
	target      labels.Selector
	scope       string // of the templates that count
	labels      map[string]string
	annotations map[string]string
	templates   *iamv1beta1.AggregationRoleTemplates
	rules       []rbacv1.PolicyRule
	fingerprint string   // of what it gives
	role        embedded // as it is in the BuiltinRole
}

// embedded is the role in a BuiltinRole. The two kinds have the same fields.
type embedded struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Templates *iamv1beta1.AggregationRoleTemplates `json:"aggregationRoleTemplates,omitempty"`
	Rules     []rbacv1.PolicyRule                  `json:"rules,omitempty"`
}

// Patterns reads the BuiltinRoles for roles of a kind, Role or WorkspaceRole, ordered by the names of their roles and by their own.
// Unreadable ones and invalid rules are left out; broken describes them by name, since only an edit can repair them.
func Patterns(ctx context.Context, c client.Reader, kind string) (out []Pattern, broken, err error) {
	list := &iamv1beta1.BuiltinRoleList{}
	if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list built-in roles: %w", err)
	}
	// The cache lists them in a different order each time. Errors go into conditions, which must not change without a reason.
	all := make([]*iamv1beta1.BuiltinRole, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	slices.SortFunc(all, func(a, b *iamv1beta1.BuiltinRole) int { return strings.Compare(a.Name, b.Name) })
	for _, b := range all {
		p, ok, err := read(b, kind)
		if err != nil {
			broken = errors.Join(broken, fmt.Errorf("read built-in role %q: %w", b.Name, err))
		}
		if ok {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Pattern) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.builtin, b.builtin))
	})
	return out, broken, nil
}

// KindOf returns the kind of role that a BuiltinRole is a pattern of; "" if it can't be read.
func KindOf(b *iamv1beta1.BuiltinRole) string {
	var t metav1.TypeMeta
	if json.Unmarshal(b.Role.Raw, &t) != nil {
		return ""
	}
	return t.Kind
}

// read returns the pattern in a BuiltinRole; ok is false unless it is for roles of the kind. An invalid rule is left out, and reported
// as an error too.
func read(b *iamv1beta1.BuiltinRole, kind string) (p Pattern, ok bool, err error) {
	var e embedded
	if !b.DeletionTimestamp.IsZero() || len(b.Role.Raw) == 0 {
		return p, false, nil
	}
	if err := json.Unmarshal(b.Role.Raw, &e); err != nil {
		return p, false, fmt.Errorf("decode its role: %w", err)
	}
	if e.Kind != kind {
		return p, false, nil
	}
	if e.Metadata.Name == "" {
		return p, false, fmt.Errorf("its role has no name")
	}
	target, err := metav1.LabelSelectorAsSelector(&b.TargetSelector)
	if err != nil {
		return p, false, fmt.Errorf("read targetSelector: %w", err)
	}
	rules, wrong := iamv1beta1.ValidRules(e.Rules)
	p = Pattern{
		Name: e.Metadata.Name, builtin: b.Name, target: target, scope: iamv1beta1.ScopeNamespace, labels: e.Metadata.Labels,
		annotations: e.Metadata.Annotations,
		templates:   e.Templates, rules: rules, fingerprint: e.fingerprint(nil, nil), role: e,
	}
	if kind == iamv1beta1.KindWorkspaceRole {
		p.scope = iamv1beta1.ScopeWorkspace
	}
	// The label says where the role belongs: a pattern must not set it.
	p.labels = maps.Clone(p.labels)
	delete(p.labels, tenantv1beta1.LabelWorkspace)
	return p, true, wrong
}

// fingerprint identifies the role by all that it gives, and by these labels and annotations in the place of its own.
func (e embedded) fingerprint(labels, annotations map[string]string) string {
	e.Metadata.Labels, e.Metadata.Annotations = labels, annotations
	text, err := json.Marshal(e)
	if err != nil {
		return "" // impossible: it was decoded from JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// For returns the patterns whose roles are for an object with these labels. Of several patterns for a role of one name the
// first counts, in the order of Patterns: two that wrote the same role in turn would never end.
func For(patterns []Pattern, set map[string]string) []*Pattern {
	var out []*Pattern
	for i := range patterns {
		p := &patterns[i]
		if p.target.Matches(labels.Set(set)) && (len(out) == 0 || out[len(out)-1].Name != p.Name) {
			out = append(out, p)
		}
	}
	return out
}
