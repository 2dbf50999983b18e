package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	kapisrequest "kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"

// object is a Cluster as the store has it.
func object(t *testing.T, name, uid string, change func(*clusterv1alpha1.Cluster)) *store.Object {
	t.Helper()
	c := &clusterv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)},
		Spec:       clusterv1alpha1.ClusterSpec{Enable: true},
		Status: clusterv1alpha1.ClusterStatus{Conditions: []clusterv1alpha1.ClusterCondition{
			{Type: clusterv1alpha1.ClusterReady, Status: corev1.ConditionTrue}}},
	}
	if change != nil {
		change(c)
	}
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return &store.Object{Name: name, Raw: raw}
}

// join links a member, and returns what ends its side.
func join(t *testing.T, m *cluster.Members, a *linktest.Authority, uid string, h http.HandlerFunc) (end context.CancelFunc, served <-chan error) {
	t.Helper()
	hub, member := linktest.Pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _ = (&link.Handler{Identity: a.Member(t, uid), Handler: h}).Serve(ctx, member, 0) }()
	done := make(chan error, 1)
	go func() { done <- m.Serve(t.Context(), hub, uid, func() {}) }()
	return cancel, done
}

func request(t *testing.T) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://member/api", nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRequestsGoToTheMemberThatIsLinked(t *testing.T) {
	a := linktest.NewAuthority(t)
	changes := make(chan bool, 8)
	m := &cluster.Members{Identity: a.Hub(t), Host: "host", Now: time.Now}
	m.Changed = func(c *cluster.Member) {
		linked, _ := c.Linked()
		changes <- linked
	}
	m.Set(object(t, "m1", uid, nil))
	one := m.ByName("m1")
	if _, err := one.RoundTrip(request(t)); !errors.Is(err, cluster.ErrUnlinked) {
		t.Errorf("without a link the error is %v", err)
	}
	end, served := join(t, m, a, uid, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "m1") })
	if !<-changes {
		t.Error("the member is not linked")
	}
	resp, err := one.RoundTrip(request(t))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if _ = resp.Body.Close(); string(body) != "m1" || err != nil {
		t.Errorf("got %q, %v", body, err)
	}
	m.Set(object(t, "m1", uid, func(c *clusterv1alpha1.Cluster) { c.Spec.Enable = false })) // its links stay
	if linked, _ := m.ByName("m1").Linked(); !linked || m.ByName("m1").Trouble == "" {
		t.Errorf("a disabled cluster: linked %v, trouble %q", linked, m.ByName("m1").Trouble)
	}
	end()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if <-changes {
		t.Error("the member is linked after its end")
	}
}

// F4: a replica that is linked to a member, but has not told it everything yet, sends requests by another one that has.
func TestRequestsGoByTheReplicaThatHasToldTheMemberEverything(t *testing.T) {
	a := linktest.NewAuthority(t)
	changes := make(chan bool, 8)
	m := &cluster.Members{Identity: a.Hub(t), Host: "host", Now: time.Now}
	m.Changed = func(*cluster.Member) { changes <- true }
	m.Set(object(t, "m1", uid, nil))
	join(t, m, a, uid, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })
	<-changes
	one := m.ByName("m1")
	other := func(synced bool) *cluster.Elsewhere {
		return &cluster.Elsewhere{
			Send: func(string, *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("there"))}, nil
			},
			Members: map[string]cluster.State{uid: {UID: uid, Synced: synced, Bound: []string{"ann"}}},
		}
	}
	for _, c := range []struct {
		name                 string
		here, there, isReady bool
		by                   string
	}{
		{name: "neither has", by: "here"},
		{name: "the other one has", there: true, isReady: true, by: "there"},
		{name: "both have", here: true, there: true, isReady: true, by: "here"},
		{name: "this one has", here: true, isReady: true, by: "here"},
	} {
		m.SetElsewhere("b", other(c.there))
		one.SetSynced(c.here, nil)
		resp, err := one.RoundTrip(request(t))
		if err != nil {
			t.Fatal(c.name, err)
		}
		body, err := io.ReadAll(resp.Body)
		if _ = resp.Body.Close(); string(body) != c.by || err != nil {
			t.Errorf("%s: a request goes %q, want %q: %v", c.name, body, c.by, err)
		}
		if ready, _ := one.Synced(); ready != c.isReady || one.Binds("ann") != (c.by == "there") {
			t.Errorf("%s: ready %v, want %v; binds ann %v", c.name, ready, c.isReady, one.Binds("ann"))
		}
	}
}

func TestNobodyIsLinkedWhoIsNoMember(t *testing.T) {
	a := linktest.NewAuthority(t)
	m := &cluster.Members{Identity: a.Hub(t), Host: "host", Now: time.Now}
	m.Set(object(t, "host", "u-host", nil))
	m.Set(object(t, "own", "u-own", func(c *clusterv1alpha1.Cluster) { c.Labels = map[string]string{clusterv1alpha1.LabelHostCluster: ""} }))
	for _, uid := range []string{uid, "u-host", "u-own", ""} {
		conn, other := net.Pipe()
		if err := m.Serve(t.Context(), conn, uid, func() {}); !errors.Is(err, cluster.ErrUnknown) {
			t.Errorf("%q: %v", uid, err)
		}
		if _, err := other.Read(make([]byte, 1)); err == nil {
			t.Errorf("%q: the connection stays open", uid)
		}
	}
	if m.ByName("host") != nil || m.ByName("own") != nil {
		t.Error("this cluster is a member of itself")
	}
}

func TestTheLinksOfAClusterEndWithIt(t *testing.T) {
	a := linktest.NewAuthority(t)
	for name, end := range map[string]func(*cluster.Members){
		"Deleted":  func(m *cluster.Members) { m.Delete("", "m1") },
		"Replaced": func(m *cluster.Members) { m.Set(object(t, "m1", "another", nil)) },
		"NowOurs": func(m *cluster.Members) {
			m.Set(object(t, "m1", uid, func(c *clusterv1alpha1.Cluster) { c.Labels = map[string]string{clusterv1alpha1.LabelHostCluster: ""} }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			linked := make(chan struct{}, 8)
			m := &cluster.Members{Identity: a.Hub(t), Now: time.Now, Changed: func(*cluster.Member) { linked <- struct{}{} }}
			m.Set(object(t, "m1", uid, nil))
			_, served := join(t, m, a, uid, func(http.ResponseWriter, *http.Request) {})
			<-linked
			end(m)
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

// F39: one user has a part of what runs at a member at once, and this server itself has room that users can't take.
func TestAMemberHasABoundOfRequestsAndLinks(t *testing.T) {
	a := linktest.NewAuthority(t)
	linked := make(chan struct{}, 8)
	m := &cluster.Members{Identity: a.Hub(t), Now: time.Now, Changed: func(*cluster.Member) { linked <- struct{}{} }}
	m.Set(object(t, "m1", uid, nil))
	h := func(http.ResponseWriter, *http.Request) {}
	join(t, m, a, uid, h)
	<-linked
	refused := make(chan error, 1)
	go func() {
		for {
			_, served := join(t, m, a, uid, h)
			select {
			case err := <-served:
				refused <- err
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	if err := <-refused; !errors.Is(err, cluster.ErrLinks) {
		t.Errorf("one link too many: %v", err)
	}
	member := m.ByName("m1")
	var open []io.Closer
	ask := func(ctx context.Context) error {
		resp, err := member.RoundTrip(request(t).WithContext(ctx))
		if err == nil {
			open = append(open, resp.Body)
		}
		return err
	}
	as := func(uid string) context.Context {
		return kapisrequest.WithUser(t.Context(), &user.DefaultInfo{Name: "ann", UID: uid})
	}
	for i := 0; ; i++ {
		who := as(strconv.Itoa(i))
		before := len(open)
		var err error
		for err == nil {
			err = ask(who)
		}
		if !errors.Is(err, cluster.ErrBusy) {
			t.Error(err)
		}
		if len(open) == before {
			break
		}
		if i == 0 && ask(as("another")) != nil {
			t.Error("one user has all the room there is")
		}
	}
	for _, c := range open {
		_ = c.Close()
	}
	open = nil
	account := func(i int) context.Context { // of one namespace
		name := strconv.Itoa(i)
		return kapisrequest.WithUser(t.Context(), &user.DefaultInfo{Name: "kubesphere:serviceaccount:shop:" + name, UID: name})
	}
	var err error
	for i := 0; err == nil; i++ {
		err = ask(account(i))
	}
	if !errors.Is(err, cluster.ErrBusy) || len(open) != 64 {
		t.Errorf("%d requests of service accounts of one namespace run: %v", len(open), err)
	}
	if err := ask(as("another")); err != nil {
		t.Errorf("service accounts of one namespace have all the room there is: %v", err)
	}
	if err := ask(cluster.AsStream(as("0"))); err != nil {
		t.Errorf("a stream has no room, where requests have none: %v", err)
	}
	if err := ask(cluster.AsHub(t.Context())); err != nil { // F25
		t.Errorf("this server has no room, where users have none: %v", err)
	}
	for _, c := range open {
		_ = c.Close()
	}
	if err := ask(as("0")); err != nil {
		t.Errorf("after they have ended: %v", err)
	}
	_ = open[len(open)-1].Close()
}

// F21: a member whose links fail each request is spared, and asked by one request from time to time until one is answered; what callers are the
// reason of counts for nothing.
func TestAMemberThatFailsIsSpared(t *testing.T) {
	a := linktest.NewAuthority(t)
	var asked, late atomic.Int64
	var well atomic.Bool
	linked := make(chan struct{}, 4)
	m := &cluster.Members{Identity: a.Hub(t), Changed: func(*cluster.Member) { linked <- struct{}{} },
		Now: func() time.Time { return time.Unix(late.Load(), 0) }}
	m.Set(object(t, "m1", uid, nil))
	join(t, m, a, uid, func(http.ResponseWriter, *http.Request) {
		if asked.Add(1); !well.Load() {
			panic(http.ErrAbortHandler)
		}
	})
	<-linked
	member := m.ByName("m1")
	ask := func(r *http.Request) error {
		resp, err := member.RoundTrip(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	for range 10 {
		r := request(t)
		r.Body = io.NopCloser(strings.NewReader("it may be the reason"))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := ask(r); err == nil || errors.Is(err, cluster.ErrSpared) {
			t.Fatalf("a request with a body: %v", err)
		}
		if err := ask(request(t).WithContext(gone)); err == nil || errors.Is(err, cluster.ErrSpared) {
			t.Fatalf("a request that was given up: %v", err)
		}
	}
	for range 5 {
		if err := ask(request(t)); err == nil || errors.Is(err, cluster.ErrSpared) {
			t.Fatalf("a request that fails: %v", err)
		}
	}
	for range 3 {
		before := asked.Load()
		if err := ask(request(t)); !errors.Is(err, cluster.ErrSpared) || asked.Load() != before {
			t.Fatalf("it is not spared: %v, asked %d times", err, asked.Load()-before)
		}
		late.Add(20) // longer than any pause
		if err := ask(request(t)); errors.Is(err, cluster.ErrSpared) || asked.Load() != before+1 {
			t.Fatalf("it is not asked again: %v, asked %d times", err, asked.Load()-before)
		}
	}
	late.Add(20)
	well.Store(true)
	for range 2 {
		if err := ask(request(t)); err != nil {
			t.Errorf("it is back, and: %v", err)
		}
	}
}

// F25: a member that is linked again takes no request before it has been told what users lost meanwhile: what it was told over a former link does not count,
// nor what is said of that link late.
func TestWhatWasToldOverAFormerLinkDoesNotCount(t *testing.T) {
	a := linktest.NewAuthority(t)
	changes, follows := make(chan bool, 8), make(chan context.Context, 8)
	m := &cluster.Members{Identity: a.Hub(t), Host: "host", Now: time.Now,
		Follow: func(ctx context.Context, _ *cluster.Member) { follows <- ctx }}
	m.Changed = func(c *cluster.Member) {
		linked, _ := c.Linked()
		changes <- linked
	}
	m.Set(object(t, "m1", uid, nil))
	one, nothing := m.ByName("m1"), func(http.ResponseWriter, *http.Request) {}
	synced := func(want bool, when string) {
		t.Helper()
		if is, _ := one.Synced(); is != want {
			t.Errorf("%s: has it been told everything: %v", when, is)
		}
	}
	end, served := join(t, m, a, uid, nothing)
	if !<-changes {
		t.Error("the member is not linked")
	}
	first := <-follows
	synced(false, "at first")
	one.SetSyncedWhile(first, true, nil)
	synced(true, "once it has been told")
	end()
	if err := <-served; err != nil || <-changes {
		t.Errorf("the link has not ended: %v", err)
	}
	join(t, m, a, uid, nothing)
	if !<-changes {
		t.Error("the member is not linked again")
	}
	synced(false, "linked again")
	second := <-follows
	one.SetSyncedWhile(first, true, nil)
	synced(false, "by who followed the former link")
	one.SetSyncedWhile(second, true, nil)
	synced(true, "once it has been told again")
}

// F17, F39: what a member says is pending is bounded, in number and in length.
func TestWhatAMemberSaysIsPendingHasABound(t *testing.T) {
	m := &cluster.Members{Host: "host", Now: time.Now}
	m.Set(object(t, "m1", uid, nil))
	long := strings.Repeat("é", 100_000)
	said := slices.Repeat([]cluster.Pending{{Kind: long, Name: long, Reason: "\xff" + long}}, 5000)
	m.ByName("m1").SetSynced(true, said)
	_, pending := m.ByName("m1").Synced()
	if len(pending) != 1000 || said[0].Kind != long {
		t.Errorf("%d are remembered, and what was said has %d bytes", len(pending), len(said[0].Kind))
	}
	for _, p := range pending {
		if max(len(p.Kind), len(p.Name), len(p.Reason)) > 512 || !utf8.ValidString(p.Kind+p.Name+p.Reason) {
			t.Fatalf("%.600v", p)
		}
	}
}
