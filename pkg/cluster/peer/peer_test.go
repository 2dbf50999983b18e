package peer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/cluster/peer"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/tools/pace"
)

const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"

// leases has the Lease, and refuses updates of what has changed.
type leases struct {
	mu  sync.Mutex
	now *coordinationv1.Lease
}

func newLeases() *leases {
	return &leases{now: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: peer.LeaseName, ResourceVersion: "1"}}}
}

func (l *leases) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now.DeepCopy(), nil
}

func (l *leases) Update(_ context.Context, next *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if next.ResourceVersion != l.now.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, next.Name, errors.New("it has changed"))
	}
	l.now = next.DeepCopy()
	l.now.ResourceVersion += "1"
	return l.now.DeepCopy(), nil
}

// replica is one of a hub.
type replica struct {
	*cluster.Members
	peers  *peer.Peers
	server *httptest.Server
	stop   context.CancelFunc
}

func newReplica(t *testing.T, a *linktest.Authority, l peer.Leases) *replica {
	t.Helper()
	drain, stop := context.WithCancel(t.Context())
	r := &replica{Members: &cluster.Members{Identity: a.Hub(t), Host: "host", Now: time.Now}, stop: stop}
	r.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"` + uid + `"},"spec":{"enable":true}}`)})
	r.peers = peer.New(peer.Options{Leases: l, Identity: r.Identity, Members: r.Members, Drain: drain, Now: time.Now})
	r.server = httptest.NewServer(r.peers)
	life, end := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { r.peers.Run(life, r.server.Listener.Addr().String()) })
	t.Cleanup(func() { stop(); end(); run.Wait(); r.server.CloseClientConnections(); r.server.Close() })
	return r
}

// join links the member to the replica, which has told it all.
func (r *replica) join(t *testing.T, a *linktest.Authority, h http.HandlerFunc) (end context.CancelFunc) {
	t.Helper()
	end = a.Link(t, r, uid, h)
	r.ByUID(uid).SetSynced(true, nil)
	return end
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	err := pace.Until(t.Context(), time.Minute, func(context.Context) error {
		if !is() {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// linked reports whether the replica has a way to the member, on which that has been told all.
func (r *replica) linked() bool {
	m := r.ByUID(uid)
	linked, _ := m.Linked()
	synced, _ := m.Synced()
	return linked && synced
}

func request(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://member"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ask sends a request to the member, and returns the answer's body.
func (r *replica) ask(t *testing.T, req *http.Request) (string, error) {
	t.Helper()
	resp, err := r.ByUID(uid).RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// F4: a replica that a member is not linked to reaches it by one that it is, as it would by its own link, and knows what that one knows.
func TestAMemberIsReachedByTheReplicaThatItIsLinkedTo(t *testing.T) {
	a, l := linktest.NewAuthority(t), newLeases()
	one := newReplica(t, a, l)
	end := one.join(t, a, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "test" {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
			line, _ := rw.ReadString('\n')
			_, _ = io.WriteString(conn, "you said "+line)
			return
		}
		switch r.URL.Path {
		case "/cut":
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/lie":
			w.Header().Set("X-Kapis-Replica-Refused", "unlinked")
		}
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, "%s %s %s %s %s %v", r.Method, r.RequestURI, r.Host, body, r.Header["X-Forwarded-For"], r.Header["X-Kapis-Replica-Stream"])
	})
	one.ByUID(uid).SetBound([]string{"bob"})
	one.ByUID(uid).SetBoundNames(&cluster.BoundNames{Groups: []string{"sre"}})
	one.ByUID(uid).SetSynced(true, []cluster.Pending{{Kind: "users", Name: "ann", Reason: "x"}})
	other := newReplica(t, a, l)
	eventually(t, "the other replica reaches the member", other.linked)
	m := other.ByUID(uid)
	if _, pending := m.Synced(); !m.Binds("bob") || m.Binds("ann") || !other.BindGroup("sre") || other.BindInCluster("bob") ||
		len(pending) != 1 || pending[0].Name != "ann" {
		t.Errorf("of the member is known: bound %v, pending %v", m.Binds("bob"), pending)
	}
	r := request(t, http.MethodPost, "/api/a%2Fb?x=%2F&x=2%3By", "the body")
	r.Header["X-Forwarded-For"] = []string{"192.0.2.1"}
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		t.Errorf("a replica passes a %d on", code)
		return nil
	}}))
	if got, err := other.ask(t, r); err != nil || got != "POST /api/a%2Fb?x=%2F&x=2%3By member the body [192.0.2.1] []" {
		t.Errorf("got %q, %v", got, err)
	}
	s := request(t, http.MethodGet, "/watch", "")
	if got, err := other.ask(t, s.WithContext(cluster.AsStream(s.Context()))); err != nil || !strings.HasSuffix(got, " []") {
		t.Errorf("a stream: %q, %v", got, err)
	}
	if got, err := other.ask(t, request(t, http.MethodGet, "/lie", "")); err != nil || !strings.HasPrefix(got, "GET /lie") {
		t.Errorf("a member speaks as a replica: %q, %v", got, err)
	}
	if got, err := other.ask(t, request(t, http.MethodGet, "/cut", "")); err == nil { // F22
		t.Errorf("a cut answer ends like a whole one: %q", got)
	}
	up := request(t, http.MethodGet, "/exec", "")
	up.Body = nil
	up.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"test"}}
	resp, err := m.RoundTrip(up)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("an upgrade: %v, %v", resp, err)
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("an upgrade has a %T", resp.Body)
	}
	_, _ = io.WriteString(conn, "hello\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "you said hello\n" {
		t.Errorf("an upgrade says %q, %v", line, err)
	}
	_ = conn.Close()

	one.ByUID(uid).SetSynced(false, nil) // F25: what was taken away counts first, also by this way
	if got, err := other.ask(t, request(t, http.MethodGet, "/x", "")); !errors.Is(err, cluster.ErrUnlinked) {
		t.Errorf("a member that has not been told all answers %q, %v", got, err)
	}
	eventually(t, "the other replica knows that", func() bool { synced, _ := m.Synced(); return !synced })
	end()
	eventually(t, "the other replica knows that the link has ended", func() bool { linked, _ := m.Linked(); return !linked })
	if _, err := other.ask(t, request(t, http.MethodGet, "/x", "")); !errors.Is(err, cluster.ErrUnlinked) {
		t.Errorf("without a link: %v", err)
	}
}

// F5: a replica that stops is asked nothing more, and what it has been asked ends.
func TestAReplicaThatStopsIsNotAsked(t *testing.T) {
	a, l := linktest.NewAuthority(t), newLeases()
	one := newReplica(t, a, l)
	running, release := make(chan struct{}), make(chan struct{})
	one.join(t, a, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(running)
			<-release
		}
		_, _ = io.WriteString(w, "whole")
	})
	other := newReplica(t, a, l)
	eventually(t, "the other replica reaches the member", other.linked)
	slow := make(chan string, 1)
	go func() {
		got, err := other.ask(t, request(t, http.MethodGet, "/slow", ""))
		slow <- fmt.Sprint(got, err)
	}()
	<-running
	one.stop()
	eventually(t, "it is not asked", func() bool { linked, _ := other.ByUID(uid).Linked(); return !linked })
	close(release)
	if got := <-slow; got != "whole<nil>" {
		t.Errorf("what it was asked ends with %s", got)
	}
}

// F3, F17: who is no replica of this hub gets nothing of one, and is asked nothing.
func TestOnlyReplicasOfTheHubAreConnected(t *testing.T) {
	a, l := linktest.NewAuthority(t), newLeases()
	one := newReplica(t, a, l)
	one.join(t, a, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "asked") })
	dial := func(i link.Identity, host, path string) (*http.Response, error) {
		conn, _, err := websocket.Dial(t.Context(), one.server.URL+peer.Path, nil) //nolint:bodyclose // Dial has read it
		if err != nil {
			t.Fatal(err)
		}
		conn.SetReadLimit(-1)
		opened, err := link.OpenPeer(t.Context(), websocket.NetConn(t.Context(), conn, websocket.MessageBinary), i)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = opened.Close() })
		r := request(t, http.MethodPost, path, "{}")
		r.Host = host
		return opened.RoundTrip(r)
	}
	for name, i := range map[string]link.Identity{"AMember": a.Member(t, uid), "AnotherHub": linktest.NewAuthority(t).Hub(t), "Nobody": {}} {
		if resp, err := dial(i, link.HubName(), "/states"); err == nil {
			t.Errorf("%s gets %d", name, resp.StatusCode)
			_ = resp.Body.Close()
		}
	}
	for host, want := range map[string]string{link.HubName(): "", link.MemberName(uid): "", "member": "404", link.MemberName("another"): "unlinked",
		link.MemberName(uid) + ".": "404", "a." + link.MemberName(uid): "404"} {
		resp, err := dial(a.Hub(t), host, "/states")
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		_ = resp.Body.Close()
		got := resp.Header.Get("X-Kapis-Replica-Refused")
		if resp.StatusCode == http.StatusNotFound {
			got = "404"
		}
		if got != want {
			t.Errorf("%s: %d %q, want %q", host, resp.StatusCode, got, want)
		}
	}

	// A replica that is not linked itself passes nothing on, though it knows who is.
	third := newReplica(t, a, l)
	eventually(t, "the third replica reaches the member", third.linked)
	one = third
	resp, err := dial(a.Hub(t), link.MemberName(uid), "/x")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.Header.Get("X-Kapis-Replica-Refused") != "unlinked" {
		t.Errorf("a request takes a second hop: %d", resp.StatusCode)
	}
}
