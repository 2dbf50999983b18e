package iam

import (
	"context"
	"testing"
	"testing/synctest"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
)

// What runs in the background does its work at its times, and ends with its context; synctest fails where one goes on.
func TestTheBackgroundEndsWithItsContext(t *testing.T) {
	h := hash(t, secret)
	synctest.Test(t, func(t *testing.T) {
		d := &doors{api: newObjects(func() *v1alpha1.Lockout { return &v1alpha1.Lockout{} }), clock: &clock{t: start()}}
		d.open(t, h)
		k, s := newKeyring(t), newSafe(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		for _, run := range []func(context.Context){d.all[0].Lockout.Run, k.all[0].Run, s.all[0].Run} {
			go func() { run(ctx); done <- struct{}{} }()
		}
		want(t, d.try(t, 0, "alice", secret, home), nil)
		synctest.Wait()
		if led := d.all[0].Lockout.byUser["uid-alice"]; led == nil || len(led.known) != 1 || led.guesses.count != 0 || d.api.count("update") != 1 {
			t.Errorf("what waited behind the login was not written: %+v", led)
		}
		cancel()
		for range 3 {
			<-done
		}
	})
}
