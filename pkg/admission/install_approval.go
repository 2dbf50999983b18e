package admission

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	kubespherev1alpha1 "kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Installation is what the InstallPlan of a name lets a chart do.
type Installation struct {
	Plan string
	// ClusterRules are for the whole cluster, and Rules for Namespace, where its release is.
	ClusterRules []rbacv1.PolicyRule
	Namespace    string
	Rules        []rbacv1.PolicyRule
}

// MissingToApprove returns what a user would have to hold to let a chart be installed; nil if the user may. Those may who hold all that
// the chart may do, and those who hold the verb approve on the plan by that name. In a namespace of the system, other than the plan's own,
// the chart may do everything, whatever its rules say.
func (g *Guard) MissingToApprove(ctx context.Context, by user.Info, i *Installation) ([]rbacv1.PolicyRule, error) {
	if by == nil || by.GetName() == "" {
		return everything(), nil
	}
	cluster := authz.BindingScope{Scope: request.Cluster}
	approve := rbacv1.PolicyRule{
		Verbs: []string{"approve"}, APIGroups: []string{kubespherev1alpha1.GroupName}, Resources: []string{"installplans"},
		ResourceNames: []string{i.Plan},
	}
	if len(g.Holdings.Missing(by, authz.BindingScope{Scope: request.Global}, []rbacv1.PolicyRule{approve})) == 0 {
		return nil, nil
	}
	if g.Native != nil {
		ok, err := g.Native(ctx, by, "approve", kubespherev1alpha1.SchemeGroupVersion.WithResource("installplans"), "", i.Plan)
		if err != nil {
			return nil, fmt.Errorf("ask kube-apiserver whether %s may approve the InstallPlan %q: %w", by.GetName(), i.Plan, err)
		}
		if ok {
			return nil, nil
		}
	}
	rules := i.ClusterRules
	if g.isOfSystem(i) {
		rules = everything()
	}
	missing := g.Holdings.Missing(by, cluster, rules)
	return append(missing, g.Holdings.Missing(by, authz.BindingScope{Scope: request.Namespace, Namespace: i.Namespace}, i.Rules)...), nil
}

// isOfSystem reports whether a release is in a namespace that the system has for itself. The one that an extension gets for itself alone is
// in the system's workspace, too, and is not one of those.
func (g *Guard) isOfSystem(i *Installation) bool {
	return tenantv1beta1.IsSystemNamespace(i.Namespace) ||
		i.Namespace != kubespherev1alpha1.ExtensionNamespace(i.Plan) && g.Holdings.WorkspaceOf(i.Namespace) == tenantv1beta1.SystemWorkspace
}
