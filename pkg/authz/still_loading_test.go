package authz_test

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

func TestARefusalBeforeRolesAreLoadedIsNoRefusal(t *testing.T) {
	var missing error
	decision := authz.Decision{}
	l := authz.Loaded{Known: func() error { return missing },
		Authorizer: authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) { return decision, nil })}
	ask := func() (authz.Decision, error) {
		return l.Authorize(t.Context(), &user.DefaultInfo{Name: "bob"}, &request.Info{})
	}
	missing = errors.New("list globalroles: not complete yet")
	if _, err := ask(); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("while roles load: %v, want 503", err)
	}
	decision = authz.Allow("", "")
	if d, err := ask(); err != nil || !d.Allowed() {
		t.Errorf("allowed by what is loaded: %+v %v", d, err)
	}
	decision, missing = authz.Decision{}, nil
	if d, err := ask(); err != nil || d.Allowed() {
		t.Errorf("all is loaded: %+v %v", d, err)
	}
}
