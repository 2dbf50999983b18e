package apprelease

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// author is the user that a release is done as, with the groups of this moment.
type author struct {
	user   string
	groups []string
}

// author returns the user who changed a release last. The error is a Forbidden of package helm where nobody can be it.
func (r *Reconciler) author(ctx context.Context, rel *v2.ApplicationRelease) (*author, error) {
	refuse := func(format string, args ...any) *helm.Error {
		return &helm.Error{Reason: helm.ReasonForbidden, Message: fmt.Sprintf(format, args...) +
			": a release is installed with the rights of the user who changed it last. Save it again as a user who has them"}
	}
	name := rel.Annotations[v2.AnnotationUser]
	if name == "" || name == release.Nobody {
		return nil, refuse("the annotation %s names nobody", v2.AnnotationUser)
	}
	if strings.HasPrefix(name, "system:") || strings.HasPrefix(name, "kapis:") { // no User has such a name
		return nil, refuse("%.253q is no user of this platform", name)
	}
	u, err := present(ctx, r, name, func(u *iamv1beta1.User) bool { return cantBe(u, rel) == "" })
	if apierrors.IsNotFound(err) {
		refused := refuse("there is no user %.253q%s", name, r.here())
		refused.Transient = r.Sent != nil // a hub brings users by another way than releases, and may bring them later
		return nil, refused
	} else if err != nil {
		return nil, fmt.Errorf("read the user %s: %w", name, err)
	}
	if why := cantBe(u, rel); why != "" {
		return nil, refuse("the user %s %s", name, why)
	}
	// Nobody is given the system's groups by being named as a member.
	groups := slices.DeleteFunc(slices.Clone(u.Spec.Groups), func(g string) bool {
		return g == "" || strings.HasPrefix(g, "system:") || strings.HasPrefix(g, "kapis:")
	})
	return &author{user: name, groups: groups}, nil
}

// cantBe returns why a release is not done as a user; "" where it is.
func cantBe(u *iamv1beta1.User, rel *v2.ApplicationRelease) string {
	sent := release.IsSent(rel)
	switch state := u.Status.State; {
	case sent && u.Labels[clusterv1alpha1.LabelFleet] != rel.Labels[clusterv1alpha1.LabelFleet]:
		return "of this cluster is not the one of the hub that the release is from"
	case !u.DeletionTimestamp.IsZero():
		return "is being deleted"
	case sent && state != iamv1beta1.UserDisabled: // they log in at the hub, which sends nothing of users who may not
	case state != iamv1beta1.UserActive && state != iamv1beta1.UserAuthLimitExceeded:
		return "is disabled, or not active yet"
	}
	return ""
}

// here says where a user was looked for, where that is not where they log in.
func (r *Reconciler) here() string {
	if r.Sent == nil {
		return ""
	}
	return " in this cluster, to which nothing binds them"
}
