package link_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/request"
)

// F39: what anybody may begin has a bound, and one network has a part of it.
func TestOneNetworkLeavesOthersSlots(t *testing.T) {
	s := link.NewHandshakeSlots(8)
	from := func(claimed, peer string) (func(), error) {
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), request.SourceKey{}, claimed), "GET", "/", nil)
		r.RemoteAddr = peer
		return s.Enter(r)
	}
	var leave []func()
	enter := func(claimed, peer string, want bool) {
		t.Helper()
		l, err := from(claimed, peer)
		if got := err == nil; got != want || err != nil && !apierrors.IsTooManyRequests(err) {
			t.Errorf("%s %s: %v", claimed, peer, err)
		}
		if err == nil {
			leave = append(leave, l)
		}
	}
	enter("", "192.0.2.1:1", true)
	enter("192.0.2.1", "192.0.2.9:1", true)
	enter("", "192.0.2.1:2", false)
	enter("2001:db8::1", "192.0.2.9:1", true)
	enter("", "[2001:db8::2]:1", true)
	enter("2001:db8::3", "192.0.2.9:1", false)
	for i := range 4 {
		enter(fmt.Sprintf("198.51.100.%d", i), "", true)
	}
	enter("203.0.113.1", "", false)
	leave[0]()
	leave[0]()
	enter("203.0.113.1", "", true)
	enter("203.0.113.2", "", false)
	for _, l := range leave {
		l()
	}
	enter("192.0.2.1", "", true)
	enter("192.0.2.1", "", true)
}
