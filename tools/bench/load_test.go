package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// targetOf is a test server as a target; the processor time is this process's.
func targetOf(t *testing.T, s *httptest.Server, path string) target {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return target{addr: u.Host, pid: os.Getpid(), path: path, status: http.StatusOK, header: http.Header{}}
}

func TestBatch(t *testing.T) {
	var requests, connections atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Header.Get("Authorization") != "Bearer t" || r.RequestURI != "/list?limit=10" {
			w.WriteHeader(http.StatusTeapot)
		}
		if r.Header.Get("Chunked") != "" {
			fmt.Fprint(w, "first")
			w.(http.Flusher).Flush()
		}
		fmt.Fprint(w, "12345")
	}))
	s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { connections.Add(1); return ctx }
	s.Start()
	defer s.Close()
	tg := targetOf(t, s, "/list?limit=10")
	tg.header.Set("Authorization", "Bearer t")
	got, err := tg.batch(t.Context(), 4, 400)
	if err != nil {
		t.Fatal(err)
	}
	if got.requests != 400 || len(got.latencies) != 400 || got.bytes != 2000 {
		t.Errorf("%d requests, %d latencies, %d bytes", got.requests, len(got.latencies), got.bytes)
	}
	if n := requests.Load(); n != 400+4*warmUp {
		t.Errorf("%d requests arrived, want the batch and %d to warm up", n, 4*warmUp)
	}
	if n := connections.Load(); n != 4 {
		t.Errorf("%d connections, want 4 that are kept", n)
	}
	if got.cpu <= 0 || got.wall <= 0 || !slices.IsSorted(got.latencies) || got.latencies[0] <= 0 {
		t.Errorf("processor time %v, wall time %v, latencies from %v", got.cpu, got.wall, got.latencies[0])
	}
	t.Run("ChunkedAnswersCountWhole", func(t *testing.T) {
		tg := tg
		tg.header = tg.header.Clone()
		tg.header.Set("Chunked", "yes")
		if got, err := tg.batch(t.Context(), 1, 10); err != nil || got.bytes != 100 {
			t.Errorf("%d bytes, %v, want 100", got.bytes, err)
		}
	})
}

func TestBatchFails(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/denied":
			http.Error(w, "not yours", http.StatusForbidden)
		case "/close":
			w.Header().Set("Connection", "close")
		case "/hang":
			<-r.Context().Done()
		}
	}))
	defer s.Close()
	tests := map[string]struct {
		path string
		pid  int
		want string
	}{
		"OnAnotherCodeWithItsText": {"/denied", os.Getpid(), "403 Forbidden, want 200: not yours"},
		"OnAClosedConnection":      {"/close", os.Getpid(), "closes the connection"},
		"OnAnUnknownProcess":       {"/", 1 << 22, "process 4194304"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tg := targetOf(t, s, tc.path)
			tg.pid = tc.pid
			if _, err := tg.batch(t.Context(), 2, 50); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
	t.Run("WhenTheContextEnds", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := targetOf(t, s, "/hang").batch(ctx, 1, 1); err == nil {
			t.Error("no error")
		}
	})
	t.Run("WhenNobodyListens", func(t *testing.T) {
		tg := targetOf(t, s, "/")
		tg.addr = "127.0.0.1:1"
		if _, err := tg.batch(t.Context(), 1, 1); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
			t.Errorf("error %v", err)
		}
	})
}

func TestCallsEndInTime(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	tg := targetOf(t, s, "/")
	requests, err := tg.wires()
	if err != nil {
		t.Fatal(err)
	}
	c, err := tg.dial(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	got, err := together([]*caller{c}, 1000, time.Now()) // which has passed when the first is answered
	if err != nil || got.requests != 1 || len(got.latencies) != 1 {
		t.Errorf("%d requests, %v, want the one that is always made", got.requests, err)
	}
}

func TestContestTakesTurns(t *testing.T) {
	var order []string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if n := len(order); n == 0 || order[n-1] != r.URL.Path { // one connection: no two at once
			order = append(order, r.URL.Path)
		}
	}))
	defer s.Close()
	c := contest{
		name: "c", conns: 1, product: side{target: targetOf(t, s, "/p"), count: 5}, yardstick: &side{target: targetOf(t, s, "/y"), count: 5},
		beside: "other", measures: []measure{cpu("g"), latency(99), throughput()},
	}
	figures, err := c.run(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/p", "/y", "/p", "/y", "/p"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v: p y, y p, p y, y p", order, want)
	}
	var names []string
	for _, f := range figures {
		names = append(names, f.name+" "+f.unit+" "+f.yardstick)
	}
	if want := []string{"c-cpu us other", "c-p99 us other", "c-rate MB/s other"}; !slices.Equal(names, want) {
		t.Errorf("figures %v, want %v", names, want)
	}
}

func TestContestAsksForNewPathsBesideSomethingElse(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = append(asked, r.URL.Path) }))
	defer s.Close()
	running := false
	c := contest{name: "c", conns: 1, measures: []measure{cpu("")}, product: side{
		target: targetOf(t, s, "/"), count: 3,
		vary: func(round int) []string {
			return []string{fmt.Sprint("/a", round), fmt.Sprint("/b", round), fmt.Sprint("/c", round)}
		},
		during: func(context.Context) (func() error, error) {
			running = true
			return func() error { running = false; return nil }, nil
		},
	}}
	if _, err := c.run(t.Context(), 2); err != nil || running {
		t.Errorf("%v, still running: %v", err, running)
	}
	if want := []string{"/a0", "/b0", "/c0", "/a1", "/b1", "/c1"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %v, want %v, each once", asked, want)
	}
	c.product.during = func(context.Context) (func() error, error) {
		return func() error { return errors.New("it broke") }, nil
	}
	if _, err := c.run(t.Context(), 1); err == nil {
		t.Error("what broke beside the requests is no error")
	}
}

func TestContestWithoutAYardstick(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	c := contest{name: "c", conns: 1, product: side{target: targetOf(t, s, "/"), count: 5}, beside: "other", measures: []measure{cpu("")}}
	figures, err := c.run(t.Context(), 1)
	if err != nil || figures[0].yardstick != "" {
		t.Errorf("figures %v, %v", figures, err)
	}
}

func TestMeasures(t *testing.T) {
	s := sample{
		requests: 4, cpu: 100 * time.Microsecond, wall: 2 * time.Second, bytes: 10e6,
		latencies: []time.Duration{1000, 2000, 3000, 9000},
	}
	tests := map[string]struct {
		m    measure
		want float64
	}{
		"ProcessorTimeIsOfARequest": {cpu(""), 25},
		"LatencyIsAQuantile":        {latency(50), 2},
		"TheLastOfFourIsP99":        {latency(99), 9},
		"ThroughputIsOfBodies":      {throughput(), 5},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.m.of(s); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWaitsEndWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := shares(ctx, quietWindow, os.Getpid()); !errors.Is(err, context.Canceled) {
		t.Errorf("shares: %v", err)
	}
	b := &bench{client: client{pid: os.Getpid()}}
	if err := b.quiet(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("quiet: %v", err)
	}
}
