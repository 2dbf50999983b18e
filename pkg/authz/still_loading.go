package authz

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// Loaded distinguishes "you may not" from "roles and bindings are not known yet": a refusal by an index that is still loading would send
// a client to its login page for nothing.
type Loaded struct {
	Authorizer
	// Known returns nil once all roles and bindings are known.
	Known func() error
}

// Authorize asks the index; what it allows is allowed, even while the index is loading.
func (l Loaded) Authorize(ctx context.Context, u user.Info, r *request.Info) (Decision, error) {
	d, err := l.Authorizer.Authorize(ctx, u, r)
	if err != nil || d.Allowed() {
		return d, err
	}
	if missing := l.Known(); missing != nil {
		e := apierrors.NewServiceUnavailable(fmt.Sprintf("roles and bindings are not loaded yet: %v", missing))
		e.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
		return Decision{}, e
	}
	return d, nil
}
