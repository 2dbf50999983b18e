package login_test

import (
	"context"
	"testing"
	"testing/synctest"

	clocktesting "k8s.io/utils/clock/testing"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/apikey"
	"kapis.dev/ks-apiserver/pkg/iam/factor/factortest"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
)

// Background loops run at their intervals, and end with their context; synctest fails if one goes on.
func TestTheBackgroundEndsWithItsContext(t *testing.T) {
	h := iamtest.Hash(t, iamtest.Password)
	synctest.Test(t, func(t *testing.T) {
		d := &doors{api: iamtest.NewObjects(func() *v1alpha1.Lockout { return &v1alpha1.Lockout{} }), clock: clocktesting.NewFakeClock(iamtest.Start())}
		d.open(t, h)
		keys, s := &apikey.Store{Users: iam.NewUserIndex(), Now: d.clock.Now}, factortest.New(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		for _, run := range []func(context.Context){d.all[0].Lockout.Run, keys.Run, s.All[0].Run} {
			go func() { run(ctx); done <- struct{}{} }()
		}
		iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, home), nil)
		synctest.Wait()
		if led := d.api.Read("uid-alice").Spec; len(led.Known) != 1 || led.Guesses.Count != 0 || d.api.Count("update") != 1 {
			t.Errorf("what waited behind the login was not written: %+v", led)
		}
		cancel()
		for range 3 {
			<-done
		}
	})
}
