package fleetlist

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/merge"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// asking is what lists ask: it records the paths, and answers as a cluster without objects.
type asking struct {
	mu    sync.Mutex
	paths []string
	hold  chan struct{}
}

func (a *asking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.paths = append(a.paths, r.URL.Path)
	a.mu.Unlock()
	if a.hold != nil {
		select {
		case <-a.hold:
		case <-r.Context().Done():
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"totalItems":0,"start":0,"metadata":{"resourceVersion":"1"},"rows":[]}`)
}

// newLists returns lists over the host and the members m1 and m2, which a user enters whose groups have the name; neither has a link.
func newLists(t *testing.T, ask http.Handler) http.Handler {
	t.Helper()
	members := &cluster.Members{Host: "host", Now: time.Now}
	for _, name := range []string{"m1", "m2"} {
		raw := fmt.Sprintf(`{"metadata":{"name":%q,"uid":"u-%s","labels":{"region":%q}},"spec":{"enable":true}}`, name, name, name)
		members.Set(&store.Object{Name: name, Raw: []byte(raw)})
	}
	may := authz.Func(func(_ context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
		if slices.Contains(u.GetGroups(), r.Cluster) {
			return authz.Allow("", ""), nil
		}
		return authz.Decision{}, nil
	})
	return New(Options{Members: members, Host: "host", May: may, Streams: stream.New(stream.Options{}), Asked: NewAsked(),
		Known:      func() error { return nil },
		HostLabels: func(context.Context) map[string]string { return map[string]string{"region": "here"} }}, ask)
}

func askAs(t *testing.T, h http.Handler, method, target string, groups ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	info, err := request.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	u := &user.DefaultInfo{Name: "ann", UID: "1", Groups: groups}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(request.WithUser(request.WithInfo(t.Context(), info), u)))
	return w
}

// F14, F36: a list asks the host, and of the members those that its caller may enter; another one is as one that does not exist.
func TestAListAsksWhereItsCallerMayEnter(t *testing.T) {
	const path = "/fleet/kapi/v1/pods"
	for _, c := range []struct {
		query, asked, missing, refused string
		groups                         []string
	}{
		{"", "/kapi/v1/pods", "", "", nil},
		{"", "/kapi/v1/pods", "m1", "", []string{"m1"}},
		{"", "/kapi/v1/pods", "m1 m2", "", []string{"m1", "m2"}},
		{"?clusters=*", "/kapi/v1/pods", "m1", "", []string{"m1"}},
		{"?clusters=host", "/kapi/v1/pods", "", "", []string{"m1"}},
		{"?clusters=host,m1,m2,m3", "/kapi/v1/pods", "m1", "m2 m3", []string{"m1"}},
		{"?clusterSelector=region%3Dhere", "/kapi/v1/pods", "", "", []string{"m1"}},
	} {
		a := &asking{}
		w := askAs(t, newLists(t, a), http.MethodGet, path+c.query, c.groups...)
		var got struct {
			Clusters struct {
				Missing []struct{ Name, Reason string }
				Refused []string
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%+v: %d %s", c, w.Code, w.Body)
		}
		var missing []string
		for _, m := range got.Clusters.Missing {
			if missing = append(missing, m.Name); m.Reason != "Unreachable" {
				t.Errorf("%+v: %+v", c, m)
			}
		}
		if strings.Join(missing, " ") != c.missing || strings.Join(got.Clusters.Refused, " ") != c.refused || strings.Join(a.paths, " ") != c.asked {
			t.Errorf("%+v: %s, asked was %v", c, w.Body, a.paths)
		}
	}
}

// F18: only the paths of lists are asked, and nothing is written.
func TestOnlyListsAreAskedOverClusters(t *testing.T) {
	a := &asking{}
	h := newLists(t, a)
	for target, code := range map[string]int{
		"POST /fleet/kapi/v1/namespaces/n/pods": 405, "DELETE /fleet/kapi/v1/namespaces/n/pods/p": 405, "GET /fleet/kapi/v1/namespaces/n/pods/p": 404,
		"GET /fleet/api/v1/pods": 404, "GET /fleet/oauth/token": 404, "GET /fleet/kapis": 404, "GET /fleet/kapis/clusters/m2/apps/v1/deployments": 404,
		"GET /fleet/kapi/v1/watch/pods": 404, "GET /fleet/fleet/kapi/v1/pods": 404, "GET /fleet/kapi/v1/pods?limit=x": 400,
		"GET /fleet/kapi/v1/proxy/pods": 404,
	} {
		method, path, _ := strings.Cut(target, " ")
		if w := askAs(t, h, method, path, "m1", "m2"); w.Code != code {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if len(a.paths) > 0 {
		t.Errorf("asked was %v", a.paths)
	}
}

// What is below /fleet and no list is left to others: clusters join there, before anybody knows them.
func TestTheWayInIsNoList(t *testing.T) {
	for path, want := range map[string]bool{"/fleet/kapi/v1/pods": true, "/fleet/kapis/apps/v1/deployments": true, "/fleet/join": false, "/fleet/link": false,
		"/fleet": false, "/fleet/": false, "/fleet/kapis": false, "/kapi/v1/pods": false, "/fleet/api/v1/pods": false} {
		if got := Owns(&request.Info{Path: path}); got != want {
			t.Errorf("%s: %v", path, got)
		}
		if Owns(&request.Info{Path: path, Cluster: "m1"}) {
			t.Errorf("%s of a member is taken for a list", path)
		}
	}
	if Owns(nil) {
		t.Error("nothing is taken for a list")
	}
}

// F39: of one user and in all, lists that are answered at once have a bound.
func TestListsHaveABound(t *testing.T) {
	a := &asking{hold: make(chan struct{})}
	h := newLists(t, a)
	var wait sync.WaitGroup
	codes := make(chan int, 2*ofOne)
	for range 2 * ofOne {
		wait.Go(func() { codes <- askAs(t, h, http.MethodGet, "/fleet/kapi/v1/pods?memberTimeout=10s").Code })
	}
	for range ofOne {
		if code := <-codes; code != http.StatusTooManyRequests {
			t.Errorf("one beyond the bound is %d", code)
		}
	}
	close(a.hold)
	wait.Wait()
	if w := askAs(t, h, http.MethodGet, "/fleet/kapi/v1/pods"); w.Code != http.StatusOK {
		t.Errorf("afterwards: %d", w.Code)
	}
}

// F39: the service accounts of a namespace count as one user.
func TestServiceAccountsOfANamespaceShareABound(t *testing.T) {
	l := &lists{running: map[cluster.Caller]int{}, followed: map[cluster.Caller]following{}}
	of := func(namespace string, n int) user.Info {
		return &user.DefaultInfo{Name: fmt.Sprintf("kubesphere:serviceaccount:%s:%d", namespace, n)}
	}
	clusters := func(context.Context) ([]merge.Source, error) { return make([]merge.Source, 1), nil }
	for i := range max(ofOne, watchesOfOne) {
		if _, err := l.enter(of("shop", i), 1); (err != nil) != (i >= ofOne) {
			t.Errorf("list %d: got %v", i, err)
		}
		if _, err := l.begin(t.Context(), of("shop", i), clusters); (err != nil) != (i >= watchesOfOne) {
			t.Errorf("watch %d: got %v", i, err)
		}
	}
	if _, err := l.begin(t.Context(), of("shop", watchesOfOne), clusters); err == nil {
		t.Error("they have more watches than one user may have")
	}
	if _, err := l.enter(of("else", 0), 1); err != nil {
		t.Errorf("lists of another namespace: %v", err)
	}
	if _, err := l.begin(t.Context(), of("else", 0), clusters); err != nil {
		t.Errorf("watches of another namespace: %v", err)
	}
}

// F22: a handler that breaks off gives no whole answer, and one that nobody reads any more ends.
func TestARequestWithinARequest(t *testing.T) {
	ended := make(chan error, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			_, _ = io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		case "/panic":
			panic("no")
		case "/endless":
			for {
				if _, err := io.WriteString(w, "x"); err != nil {
					ended <- err
					return
				}
			}
		case "/silent":
			<-r.Context().Done()
			ended <- r.Context().Err()
		default:
			w.Header().Set("X-Answer", "1")
			w.WriteHeader(http.StatusTeapot)
			w.Header().Set("X-Answer", "late")
			_, _ = io.WriteString(w, "whole")
		}
	})
	get := func(ctx context.Context, path string) (*http.Response, error) {
		return Serve(h, (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}}).WithContext(ctx))
	}
	resp, err := get(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "whole" || resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Answer") != "1" {
		t.Errorf("%d %v %s %v", resp.StatusCode, resp.Header, text, err)
	}
	_ = resp.Body.Close()
	for _, path := range []string{"/abort", "/panic"} {
		resp, err := get(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%s is a whole answer: %s", path, text)
		}
		_ = resp.Body.Close()
	}
	if resp, err = get(t.Context(), "/endless"); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if err := <-ended; err == nil {
		t.Error("it goes on")
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if resp, err := get(ctx, "/silent"); err == nil {
		_ = resp.Body.Close()
		t.Error("a handler that says nothing has answered")
	}
	<-ended
}
