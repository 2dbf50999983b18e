package admission

import (
	"encoding/json"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	kjson "sigs.k8s.io/json"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// object has the fields that are read of a guarded object of any kind and version.
type object struct {
	Metadata struct {
		Name        string                  `json:"name"`
		Labels      map[string]string       `json:"labels"`
		Annotations map[string]string       `json:"annotations"`
		Owners      []metav1.OwnerReference `json:"ownerReferences"`
		// DeletionTimestamp is nil for an object that is not being deleted.
		DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
	} `json:"metadata"`
	// Of roles.
	Rules     []rbacv1.PolicyRule                  `json:"rules"`
	Templates *iamv1beta1.AggregationRoleTemplates `json:"aggregationRoleTemplates"`
	// Of bindings.
	RoleRef  rbacv1.RoleRef   `json:"roleRef"`
	Subjects []rbacv1.Subject `json:"subjects"`
	// Of group bindings.
	GroupRef iamv1beta1.GroupRef `json:"groupRef"`
	Users    []string            `json:"users"`
	// Of built-in roles.
	TargetSelector json.RawMessage `json:"targetSelector"`
	Role           json.RawMessage `json:"role"`
	Spec           struct {
		// Of role templates.
		Rules []rbacv1.PolicyRule `json:"rules"`
		// Of users.
		Email    string   `json:"email"`
		Password string   `json:"password"`
		Groups   []string `json:"groups"`
		// Of workspaces, and of their templates.
		Manager  string `json:"manager"`
		Template struct {
			Spec struct {
				Manager string `json:"manager"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		// Of users.
		State string `json:"state"`
	} `json:"status"`
}

// decodeInto decodes as kube-apiserver does: names of fields are case-sensitive.
func decodeInto(raw []byte, into any) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

func (o *object) workspace() string { return o.Metadata.Labels[tenantv1beta1.LabelWorkspace] }

// scopeOf returns the scope at which a role or a binding counts. One of a workspace that does not say which counts as one for all of them.
func (o *object) scopeOf(scope request.Scope, namespace string) authz.BindingScope {
	switch scope {
	case request.Workspace:
		if w := o.workspace(); w != "" {
			return authz.BindingScope{Scope: scope, Workspace: w}
		}
		return authz.BindingScope{}
	case request.Namespace:
		return authz.BindingScope{Scope: scope, Namespace: namespace}
	}
	return authz.BindingScope{Scope: scope}
}

// manager returns the manager of a workspace, by its object or by its template.
func (o *object) manager() string {
	if o.Spec.Manager != "" {
		return o.Spec.Manager
	}
	return o.Spec.Template.Spec.Manager
}

// added returns the rules that are new, by their values: two different rules may read the same to people (S62). The same rights in other
// words are new ones.
func added(now, old []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if len(old) == 0 {
		return now
	}
	had := make(map[string]bool, len(old))
	for i := range old {
		had[iamv1beta1.RuleKey(&old[i])] = true
	}
	return slices.DeleteFunc(slices.Clone(now), func(r rbacv1.PolicyRule) bool { return had[iamv1beta1.RuleKey(&r)] })
}

// addedNames returns the elements of list that before does not have.
func addedNames(list, before []string) []string {
	return slices.DeleteFunc(slices.Clone(list), sets.New(before...).Has)
}
