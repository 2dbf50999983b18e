package fleetlist

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/cluster/merge"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/status"
)

// slowClient reads nothing until it is told to.
type slowClient struct {
	discarding
	once         sync.Once
	begun, reads chan struct{}
}

func (s *slowClient) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.reads
	return s.discarding.Write(p)
}

// send has a list answered to a client.
func (w *fleetWorld) send(t *testing.T, out http.ResponseWriter, who, path string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if err != nil {
		t.Error(err)
		return
	}
	info, err := request.Parse(r)
	if err != nil {
		t.Error(err)
		return
	}
	u := &user.DefaultInfo{Name: who, UID: "uid-" + who}
	w.lists.ServeHTTP(out, r.WithContext(request.WithUser(request.WithInfo(t.Context(), info), u)))
}

// F35: a list is not answered before it is known which clusters there are: it would lack some, and not name them.
func TestAListIsNotAnsweredBeforeItsClustersAreKnown(t *testing.T) {
	w := newFleetWorld(t, "m1")
	known := false
	w.lists.Known = func() error {
		if known {
			return nil
		}
		return status.Errorf(http.StatusServiceUnavailable, "not yet")
	}
	for _, path := range []string{"/fleet/kapi/v1/nodes?limit=3", "/fleet/kapi/v1/nodes?limit=3&clusters=m1", "/fleet/kapi/v1/nodes?watch=true",
		"/fleet/kapi/v1/nodes?view=live&limit=3", "/fleet/search?q=x&kinds=v1/nodes"} {
		out := &discarding{header: http.Header{}}
		if w.send(t, out, "ann", path); out.code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", path, out.code)
		}
	}
	known = true
	out := &discarding{header: http.Header{}}
	if w.send(t, out, "ann", "/fleet/kapi/v1/nodes?limit=3"); out.code != http.StatusOK {
		t.Errorf("once they are known: %d", out.code)
	}
}

// F39: a client that reads its answer slowly, or never, keeps it in memory: all answers that are on their way have a bound, and are refused beyond that.
func TestAnswersToSlowClientsHaveABound(t *testing.T) {
	w := newFleetWorld(t, "m1")
	w.all["m1"].serves = http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		var rows, items []string
		for i := range 3 {
			key := base64.RawStdEncoding.EncodeToString(fmt.Appendf(nil, "\x03o-%d\x00\x01", i))
			rows = append(rows, fmt.Sprintf(`["%s","","o-%d","u-%d","7"]`, key, i, i))
			items = append(items, fmt.Sprintf(`{"metadata":{"name":"o-%d","uid":"u-%d","resourceVersion":"7"},"data":"%s"}`, i, i, strings.Repeat("x", 40<<10)))
		}
		out.Header().Set("Content-Type", "application/json")
		out.Header().Set("Etag", `W/"7"`)
		_, _ = io.WriteString(out, `{"totalItems":3,"start":0,"metadata":{"resourceVersion":"7"},"rows":[`+strings.Join(rows, ",")+`],"items":[`+
			strings.Join(items, ",")+`]}`)
	})
	w.lists.sends = httpcache.NewResponses(200<<10, 140<<10)
	ask := func(out http.ResponseWriter, who string) {
		t.Helper()
		w.send(t, out, who, "/fleet/kapi/v1/nodes?limit=3&sortBy=name&ascending=true&clusters=m1")
	}
	slow := &slowClient{discarding: discarding{header: http.Header{}}, begun: make(chan struct{}), reads: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ask(slow, "ann")
	}()
	<-slow.begun
	refused := &discarding{header: http.Header{}}
	ask(refused, "bob")
	if refused.code != http.StatusTooManyRequests || refused.header.Get("Etag") != "" || refused.header.Get("Retry-After") == "" {
		t.Errorf("%d %v", refused.code, refused.header)
	}
	close(slow.reads)
	<-done
	again := &discarding{header: http.Header{}}
	ask(again, "bob")
	for _, out := range []*discarding{&slow.discarding, again} {
		if out.code != http.StatusOK || out.bytes < 120<<10 || fmt.Sprint(out.bytes) != out.header.Get("Content-Length") {
			t.Errorf("%d, %d bytes, %v", out.code, out.bytes, out.header)
		}
	}
}

// F39: what lists over clusters hold of their answers has a bound for all of them together, until they are sent; beyond that it is said when to ask again.
func TestWhatListsOfSlowClientsHoldHasABound(t *testing.T) {
	w := newFleetWorld(t, "m1")
	w.all["m1"].serves = http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(out, `{"totalItems":0,"start":0,"metadata":{"resourceVersion":"7"},"rows":[],"pad":"`+strings.Repeat("x", 60<<10)+`"}`)
	})
	w.lists.reads = merge.NewBudget(100<<10, 100<<10)
	ask := func(out http.ResponseWriter, who string) {
		t.Helper()
		w.send(t, out, who, "/fleet/kapi/v1/nodes?limit=30&clusters=m1&memberTimeout=10s")
	}
	slow := &slowClient{discarding: discarding{header: http.Header{}}, begun: make(chan struct{}), reads: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ask(slow, "ann")
	}()
	<-slow.begun
	refused := &discarding{header: http.Header{}}
	if ask(refused, "bob"); refused.code != http.StatusServiceUnavailable || refused.header.Get("Retry-After") == "" {
		t.Errorf("%d %v", refused.code, refused.header)
	}
	close(slow.reads)
	<-done
	again := &discarding{header: http.Header{}}
	if ask(again, "bob"); again.code != http.StatusOK || slow.code != http.StatusOK {
		t.Errorf("%d, %d", again.code, slow.code)
	}
}
