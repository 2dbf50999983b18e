package controllermanager

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/admission"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// administrators reads the platform's administrators without the cache: of two deletions in a row, the second has to see the first.
type administrators struct{ live client.Reader }

func (a administrators) active(ctx context.Context, binding, name string) (bool, error) {
	b, u := &iamv1beta1.GlobalRoleBinding{}, &iamv1beta1.User{}
	b.Name, u.Name = binding, name
	for _, o := range []client.Object{b, u} {
		if err := a.live.Get(ctx, client.ObjectKeyFromObject(o), o); apierrors.IsNotFound(err) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("read %q: %w", o.GetName(), err)
		}
	}
	return admission.Administers(b, u), nil
}
