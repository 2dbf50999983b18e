package scope_test

import (
	"context"
	"testing"
	"testing/synctest"

	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
)

func TestWhoWaitsBeginsWhenAnotherLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := scope.NewLimit(3, 2)
		for _, user := range []string{"ann", "ann", "bob"} {
			if !l.Enter(user) {
				t.Fatalf("%s may not begin", user)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		began := make(chan string, 3)
		for _, user := range []string{"ann", "eve"} {
			go func() {
				if l.Wait(ctx, user) {
					began <- user
				}
			}()
		}
		synctest.Wait()
		if len(began) != 0 {
			t.Fatalf("%s begins beyond the bound", <-began)
		}
		l.Leave("bob")
		synctest.Wait()
		if len(began) != 1 || <-began != "eve" { // ann has as many as one user may have
			t.Error("the one who may begin does not")
		}
		l.Leave("ann")
		synctest.Wait()
		if len(began) != 1 || <-began != "ann" {
			t.Error("ann does not begin once she has left")
		}
		cancel()
		if l.Wait(ctx, "bob") {
			t.Error("it begins beyond the bound, after the end")
		}
	})
}
