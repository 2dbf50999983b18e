package hub

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/cluster/peer"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

// stalled is a body that does not come.
type stalled struct{ begun, end chan struct{} }

func (s stalled) Read([]byte) (int, error) {
	s.begun <- struct{}{}
	<-s.end
	return 0, errors.New("it did not come")
}

// F6, F39: those who prove nothing keep no member from joining and from being linked: neither by bodies that do not come nor by connections that say
// nothing, which one network has a part of.
func TestNobodyKeepsOthersFromLinking(t *testing.T) {
	members := &cluster.Members{Identity: linktest.NewAuthority(t).Hub(t), Now: time.Now, Host: "host"}
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"u-1"},"spec":{"enable":true,"connection":{"type":"proxy"}}}`)})
	h := &Hub{Options: Options{Now: time.Now}, Members: members}
	h.Peers = peer.New(peer.Options{Identity: members.Identity, Members: members, Drain: t.Context(), Now: time.Now})
	handler := NewHandler(t.Context(), h)

	late := stalled{make(chan struct{}), make(chan struct{})}
	var joins sync.WaitGroup
	defer joins.Wait()
	defer close(late.end)
	for range 2 * atOnce {
		joins.Go(func() {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, join.PathJoin, late))
		})
		select {
		case <-late.begun:
		case <-time.After(time.Minute):
			t.Fatal("a body that does not come has a slot")
		}
	}

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), request.SourceKey{}, r.Header.Get("Source"))))
	}))
	defer srv.Close()
	for _, path := range []string{join.PathLinks + "u-1", peer.Path} {
		var open []*websocket.Conn
		dial := func(source string) int {
			conn, resp, err := websocket.Dial(t.Context(), srv.URL+path, &websocket.DialOptions{HTTPHeader: http.Header{"Source": {source}}})
			switch {
			case err == nil:
				open = append(open, conn)
			case resp == nil:
				t.Fatal(err)
			default:
				_, _ = io.Copy(io.Discard, resp.Body)
			}
			return resp.StatusCode
		}
		for dial("192.0.2.1") == http.StatusSwitchingProtocols {
			if len(open) > atOnce {
				t.Fatalf("%s: one network has all there is", path)
			}
		}
		if code := dial("192.0.2.2"); len(open) < 2 || code != http.StatusSwitchingProtocols {
			t.Errorf("%s: another network gets %d after %d", path, code, len(open))
		}
		for _, conn := range open {
			_ = conn.CloseNow()
		}
	}
}
