package apprelease

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// author is the user that a release is done as, with the groups of this moment.
type author struct {
	user   string
	groups []string
}

// author returns the user who changed a release last. The error is a Forbidden of package helm where nobody can be it.
func (r *Reconciler) author(ctx context.Context, rel *v2.ApplicationRelease) (*author, error) {
	refuse := func(format string, args ...any) error {
		return &helm.Error{Reason: helm.ReasonForbidden, Message: fmt.Sprintf(format, args...) +
			": a release is installed with the rights of the user who changed it last. Save it again as a user who has them"}
	}
	name := rel.Annotations[v2.AnnotationUser]
	if name == "" {
		return nil, refuse("the annotation %s names nobody", v2.AnnotationUser)
	}
	if strings.HasPrefix(name, "system:") || strings.HasPrefix(name, "kapis:") { // no User has such a name
		return nil, refuse("%.253q is no user of this platform", name)
	}
	u := &iamv1beta1.User{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, u); apierrors.IsNotFound(err) {
		return nil, refuse("there is no user %.253q", name)
	} else if err != nil {
		return nil, fmt.Errorf("read the user %s: %w", name, err)
	}
	switch state := u.Status.State; {
	case !u.DeletionTimestamp.IsZero():
		return nil, refuse("the user %s is being deleted", name)
	case state != iamv1beta1.UserActive && state != iamv1beta1.UserAuthLimitExceeded:
		return nil, refuse("the user %s is disabled, or not active yet", name)
	}
	// Nobody is given the system's groups by being named as a member.
	groups := slices.DeleteFunc(slices.Clone(u.Spec.Groups), func(g string) bool {
		return g == "" || strings.HasPrefix(g, "system:") || strings.HasPrefix(g, "kapis:")
	})
	return &author{user: name, groups: groups}, nil
}
