package informer

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

// A watch goes on from its version after a short outage, and everything is read again after a long one.
func TestAWatchGoesOnAfterAShortOutageOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		away  time.Duration
		reads bool // all objects are read before the next watch
		gone  bool
	}{
		"None":             {},
		"AsLongAsItMayBe":  {away: MaxOutage},
		"Longer":           {away: MaxOutage + time.Millisecond, gone: true},
		"LongerButReadNow": {away: time.Hour, reads: true},
	} {
		t.Run(name, func(t *testing.T) {
			fails := errors.New("connection refused")
			now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			var opened *watch.FakeWatcher
			s := &afterOutages{most: MaxOutage, clock: now, source: cache.ToListerWatcherWithContext(&cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, nil },
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
					if fails != nil {
						return nil, fails
					}
					opened = watch.NewFake()
					return opened, nil
				},
			})}
			from := metav1.ListOptions{ResourceVersion: "7"}
			if tc.away > 0 {
				if _, err := s.Watch(from); !errors.Is(err, fails) {
					t.Fatal(err)
				}
				now.SetTime(now.Now().Add(tc.away))
			}
			fails = nil
			if tc.reads {
				_, _ = s.List(metav1.ListOptions{}) // it is empty
			}
			_, err := s.Watch(from)
			if apierrors.IsResourceExpired(err) != tc.gone || err != nil && !tc.gone {
				t.Fatalf("got %v", err)
			}
			if opened.IsStopped() != tc.gone {
				t.Error("the refused watch is left open, or the other is not")
			}
			if _, err := s.Watch(from); err != nil {
				t.Errorf("the next: %v", err)
			}
		})
	}
}

// A reflector that stops leaves a list that it has begun behind, beside whatever the next one does.
func TestAnOutageIsMeasuredByTwoAtOnce(t *testing.T) {
	var o Outage
	now := time.Unix(0, 0)
	both := make(chan error)
	for range 2 {
		go func() {
			o.Begin(now)
			err := o.End(now, MaxOutage)
			o.Reset()
			both <- err
		}()
	}
	for range 2 {
		<-both // the race detector is what fails
	}
}
