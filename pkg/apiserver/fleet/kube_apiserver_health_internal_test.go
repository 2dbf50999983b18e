package fleet

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// F29: what is wrong with a member's kube-apiserver is said without addresses, and it is not asked for each replica of a hub.
func TestWhatIsWrongWithKubeAPIServerIsSaid(t *testing.T) {
	type answer struct {
		code       int
		text, want string
	}
	var now atomic.Pointer[answer]
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1); r.URL.Path != "/prefix/readyz" {
			t.Errorf("it is asked for %s", r.URL.Path)
		}
		w.WriteHeader(now.Load().code)
		_, _ = io.WriteString(w, now.Load().text)
	}))
	defer srv.Close()
	h, err := newHealth(&rest.Config{Host: srv.URL + "/prefix"})
	if err != nil {
		t.Fatal(err)
	}
	says := func(want string) {
		t.Helper()
		for range 2 {
			if got, err := h.now(t.Context()); err != nil || got.KubeAPIServer != want {
				t.Errorf("it says %+v, %v, want %q", got, err, want)
			}
			h.until = h.until.Add(time.Hour) // however slow this machine is
		}
		h.until = time.Time{}
	}
	for i, x := range []answer{
		{http.StatusOK, "ok", ""},
		{http.StatusForbidden, "no", ""},
		{http.StatusTooManyRequests, "no", ""},
		{http.StatusInternalServerError, "[+]ping ok\n[-]etcd failed: reason withheld\n[-]shutdown failed: x\nreadyz check failed\n",
			"is not ready (etcd, shutdown)"},
		{http.StatusServiceUnavailable, "<html>", "is not ready (503)"},
	} {
		now.Store(&x)
		if says(x.want); asked.Load() != int64(i)+1 {
			t.Errorf("%d: it was asked %d times", x.code, asked.Load())
		}
	}
	srv.Close()
	says("does not answer")
}
