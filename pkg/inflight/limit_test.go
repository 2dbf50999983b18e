package inflight_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"kapis.dev/ks-apiserver/pkg/inflight"
)

func TestOneOwnerLeavesRoomForOthers(t *testing.T) {
	l := inflight.New[string](3, 2)
	enter := func(owner string, want error) (leave func()) {
		t.Helper()
		leave, err := l.Enter(owner)
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", owner, err, want)
		}
		return leave
	}
	annLeaves := enter("ann", nil)
	enter("ann", nil)
	enter("ann", inflight.ErrFullForOwner)
	enter("bob", nil)
	enter("eve", inflight.ErrFull)
	annLeaves()
	annLeaves()
	if got := l.Running(); got != 2 {
		t.Errorf("%d run after one of three has left twice, want 2", got)
	}
	leave, err := l.EnterWithoutOwner()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.EnterWithoutOwner(); !errors.Is(err, inflight.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	leave()
	leave()
	if got := l.Owners(); got != 2 {
		t.Errorf("%d owners are remembered, want ann and bob", got)
	}
}

func TestOwnersAreForgotten(t *testing.T) {
	l := inflight.New[int](1, 1)
	for owner := range 100 {
		leave, err := l.Enter(owner)
		if err != nil {
			t.Fatal(err)
		}
		leave()
	}
	if got := l.Owners(); got != 0 {
		t.Errorf("%d owners are remembered, want none", got)
	}
}

func TestWhoWaitsBeginsWhenAnotherLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inflight.New[string](3, 2)
		leave := map[string]func(){}
		for _, owner := range []string{"ann", "ann", "bob"} {
			left, err := l.Enter(owner)
			if err != nil {
				t.Fatalf("%s: %v", owner, err)
			}
			leave[owner] = left
		}
		ctx, cancel := context.WithCancel(t.Context())
		began := make(chan string, 3)
		for _, owner := range []string{"ann", "eve"} {
			go func() {
				if _, err := l.Wait(ctx, owner); err == nil {
					began <- owner
				}
			}()
		}
		synctest.Wait()
		if len(began) != 0 {
			t.Fatalf("%s begins beyond the bound", <-began)
		}
		leave["bob"]()
		synctest.Wait()
		if len(began) != 1 || <-began != "eve" { // ann has as many as one may have
			t.Error("the one who may begin does not")
		}
		leave["ann"]()
		synctest.Wait()
		if len(began) != 1 || <-began != "ann" {
			t.Error("ann does not begin once she has left")
		}
		cancel()
		if _, err := l.Wait(ctx, "bob"); !errors.Is(err, context.Canceled) {
			t.Errorf("beyond the bound, after the end: got %v, want context.Canceled", err)
		}
	})
}

// Whoever has many waiting is not ahead of who has none, and service accounts leave room for people.
func TestWhoHasTheFewestIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inflight.NewByUser(4, 3)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var leave []func()
		for _, owner := range []string{"ann", "ann", "system:serviceaccount:a", "system:serviceaccount:b"} {
			left, err := l.Enter(owner)
			if err != nil {
				t.Fatalf("%s: %v", owner, err)
			}
			leave = append(leave, left)
		}
		began := make(chan string, 10)
		for _, owner := range []string{"ann", "ann", "system:serviceaccount:c", "bob"} {
			go func() {
				if left, err := l.Wait(ctx, owner); err == nil {
					began <- owner
					<-ctx.Done()
					left()
				}
			}()
			synctest.Wait()
		}
		leave[0]()
		synctest.Wait()
		if len(began) != 1 || <-began != "bob" {
			t.Error("who has the fewest is not next")
		}
		leave[1]()
		synctest.Wait()
		if len(began) != 1 || <-began != "ann" { // service accounts have half already
			t.Error("an account of a third namespace goes ahead of ann")
		}
		leave[2]()
		synctest.Wait()
		if len(began) != 1 || <-began != "system:serviceaccount:c" {
			t.Error("the account does not begin when another has ended")
		}
		cancel()
		synctest.Wait()
		leave[3]()
		if n := l.Running(); n != 0 || l.Owners() != 0 {
			t.Errorf("%d run in the end, of %d owners", n, l.Owners())
		}
	})
}

// A slot that comes at the moment when its waiter gives up is not lost.
func TestAWaiterThatLeavesHoldsNothing(t *testing.T) {
	for range 200 {
		l := inflight.New[string](1, 1)
		left, err := l.Enter("ann")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if leave, err := l.Wait(ctx, "bob"); err == nil {
				leave()
			}
		}()
		go cancel()
		left()
		<-done
		if n := l.Running(); n != 0 {
			t.Fatalf("%d run", n)
		}
	}
}
