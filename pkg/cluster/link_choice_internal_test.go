package cluster

import (
	"context"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
)

// A link that its member is ending carries nothing new while another is open, however long what runs on it takes.
func TestALinkThatIsEndingIsNotChosen(t *testing.T) {
	const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
	a := linktest.NewAuthority(t)
	s := &links{members: &Members{}}
	open := func(h http.HandlerFunc) (end context.CancelFunc) {
		one, other := linktest.Pair(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = (&link.Handler{Identity: a.Member(t, uid), Handler: h}).Serve(ctx, other, time.Hour) }()
		l, err := link.Open(t.Context(), one, uid, a.Hub(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		s.all = append(s.all, l)
		return cancel
	}
	ask := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://member/api", nil)
		if err != nil {
			return err
		}
		resp, err := s.turn().RoundTrip(r)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	begun, on := make(chan struct{}), make(chan struct{})
	end := open(func(http.ResponseWriter, *http.Request) { close(begun); <-on })
	held := make(chan error, 1)
	go func() { held <- ask() }()
	<-begun
	open(func(http.ResponseWriter, *http.Request) {})
	end()
	ending := func(context.Context) (bool, error) { return s.all[0].Available() == 0, nil }
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, ending); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := ask(); err != nil {
			t.Fatal(err)
		}
	}
	close(on)
	if err := <-held; err != nil {
		t.Errorf("what ran on the link: %v", err)
	}
}
