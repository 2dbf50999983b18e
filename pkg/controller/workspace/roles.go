package workspace

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/builtinrole"
)

// roles makes the roles that the workspace lacks and updates the others. wrong is an error that a user has to correct.
func (r *Reconciler) roles(ctx context.Context, w *tenantv1beta1.Workspace) (wrong, err error) {
	patterns, wrong, err := builtinrole.Patterns(ctx, r.Client, iamv1beta1.KindWorkspaceRole)
	if err != nil {
		return nil, err
	}
	for _, p := range builtinrole.For(patterns, w.Labels) {
		role := &iamv1beta1.WorkspaceRole{ObjectMeta: metav1.ObjectMeta{
			Name: w.Name + "-" + p.Name, Labels: map[string]string{tenantv1beta1.LabelWorkspace: w.Name},
		}}
		if _, err := p.Keep(ctx, r.Client, role); errors.Is(err, builtinrole.ErrTaken) {
			wrong = errors.Join(wrong, fmt.Errorf("there is no role %q for the workspace: %w", role.Name, err))
		} else if err != nil {
			return nil, err
		}
	}
	return wrong, nil
}
