package link_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coder/websocket"

	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
)

// Whoever dials, both ends of a link know the address of the other one, and requests come from it.
func TestWhoDialsKnowsTheAddressOfTheOtherEnd(t *testing.T) {
	fleet := linktest.NewAuthority(t)
	from := make(chan string, 1)
	member := &link.Handler{Identity: fleet.Member(t, uid), Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { from <- r.RemoteAddr })}
	// The hub is dialled, and makes the link.
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		conn.SetReadLimit(-1)
		l, err := link.Open(t.Context(), websocket.NetConn(t.Context(), conn, websocket.MessageBinary), uid, fleet.Hub(t))
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = l.Close() }()
		resp, err := l.RoundTrip(get(t, "/"))
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
	}))
	defer hub.Close()
	over := &link.Addresses{}
	conn, _, err := websocket.Dial(over.Record(t.Context()), hub.URL, nil) //nolint:bodyclose // Dial has read it
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(-1)
	bare := websocket.NetConn(t.Context(), conn, websocket.MessageBinary)
	if by := (&link.Addresses{}).Of(bare); by != bare {
		t.Error("a connection of which nothing is known is another one")
	}
	by := over.Of(bare)
	if got, want := by.RemoteAddr().String(), hub.Listener.Addr().String(); got != want || by.LocalAddr().String() == want {
		t.Errorf("the addresses are %s and %s, want %s", by.LocalAddr(), got, want)
	}
	_ = member.Serve(t.Context(), by, 0)
	if got := <-from; got != hub.Listener.Addr().String() {
		t.Errorf("the request is from %s", got)
	}
}
