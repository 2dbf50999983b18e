package hookjob_test

import (
	"context"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kapis.dev/ks-apiserver/pkg/controller/hookjob"
)

// X21: a Job that somebody deletes ends its operation at once, and not when its time is over; a kube-apiserver that does not answer for a while does not: the
// image runs meanwhile.
func TestX21AHookEndsWithItsJobAndNotWithKubeAPIServer(t *testing.T) {
	hook := &hookjob.Hook{Namespace: "extension-shop", Name: "shop-hook", Image: "registry.example/hook:1", Labels: map[string]string{"of": "shop"}}
	for claim, c := range map[string]struct {
		reads func(n int, o client.Object) error // what the n-th read says, once the Job is there
		fails string
	}{
		"kube-apiserver is away once": {func(n int, o client.Object) error {
			if n == 1 {
				return apierrors.NewInternalError(context.DeadlineExceeded)
			}
			o.(*batchv1.Job).Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			return nil
		}, ""},
		"the Job is deleted": {func(int, client.Object) error { return apierrors.NewNotFound(batchv1.Resource("jobs"), "shop-hook") }, "was deleted"},
		"another one is made in its place": {func(_ int, o client.Object) error {
			o.SetUID("another")
			return nil
		}, "was deleted"},
		"the right to read it is gone": {func(int, client.Object) error {
			return apierrors.NewForbidden(batchv1.Resource("jobs"), "shop-hook", nil)
		}, "forbidden"},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel() // each waits for a moment
			made, n := false, 0
			as := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					made = true
					return w.Create(ctx, o, opts...)
				},
				Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if err := w.Get(ctx, key, o, opts...); err != nil || !made {
						return err
					}
					n++
					return c.reads(n, o)
				},
			}).Build()
			err := hook.Run(t.Context(), as)
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%v", err)
			}
		})
	}
}
