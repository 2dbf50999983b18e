package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/stack"
)

func TestSoakCountsWhatFails(t *testing.T) {
	s := &soak{client: serveProduct(t, fakeProduct{})}
	if err := s.follow(t.Context(), podLists+"?limit=10"); err != nil || s.events.Load() != 1 {
		t.Errorf("%d lines, %v, want one and an end", s.events.Load(), err)
	}
	s.token = "wrong"
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for failed := 0; failed < 2 && ctx.Err() == nil; {
			time.Sleep(time.Millisecond) //nolint:forbidigo // waits for a condition
			s.mu.Lock()
			failed = s.failed
			s.mu.Unlock()
		}
	}()
	s.list(ctx)
	if s.failed < 2 || len(s.errs) == 0 || !strings.Contains(s.errs[0].Error(), "who are you?") {
		t.Errorf("%d failed: %v", s.failed, s.errs)
	}
}

func TestSoakReadsTheMetricsOfTheProduct(t *testing.T) {
	text := `# HELP go_goroutines Number of goroutines that currently exist.
go_goroutines 122
go_memstats_next_gc_bytes 2.5e+07
ks_cache_events_total{gvr="v1/pods",type="added"} 3
ks_cache_events_total{gvr="v1/pods",type="modified"} 1.5e+03
ks_cache_events_total{gvr="v1/configmaps",type="deleted"} 4
ks_cache_events_total{gvr="v1/pods",type="bookmark"} 1000
ks_cache_events_total{gvr="v1/pods",type="listed"} 10000
`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" || r.Header.Get("Authorization") != "Bearer secret" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(text))
	}))
	defer s.Close()
	m, err := (&soak{client: client{Server: stack.Server{URL: s.URL}, token: "secret"}}).metrics(t.Context())
	if err != nil || m != (metrics{goroutines: 122, events: 1507, heap: 25e6}) {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestSoakCountsDataRaces(t *testing.T) {
	dir := t.TempDir()
	if _, err := races(dir); err == nil {
		t.Error("no error where there is no log to look into")
	}
	log := filepath.Join(dir, "log", "ks-apiserver.log")
	if err := os.Mkdir(filepath.Dir(log), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, []byte("x\n==================\nWARNING: DATA RACE\nRead at\nWARNING: DATA RACE\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := races(dir); n != 2 || err != nil {
		t.Errorf("%d, %v, want 2", n, err)
	}
}

// The document says how many follow what.
func TestSoakWatchersAreAsTheDocumentSays(t *testing.T) {
	got := map[string]int{}
	for i := range soakWatchers {
		path, query, _ := strings.Cut(soakWatch(i), "?")
		kind := path[strings.LastIndexByte(path, '/')+1:]
		for _, part := range []string{"view=live", "labelSelector"} {
			if strings.Contains(query, part) {
				kind += " " + part
			}
		}
		if strings.Contains(path, "/namespaces/") {
			kind += " in a namespace"
		}
		got[kind]++
	}
	for kind, want := range map[string]int{
		"pods in a namespace": 50, "pods labelSelector": 25, "leases labelSelector": 25, "configmaps in a namespace": 25,
		"pods view=live": 50, "configmaps view=live": 25,
	} {
		if got[kind] != want {
			t.Errorf("%d watchers of %s, want %d; all: %v", got[kind], kind, want, got)
		}
	}
}

func TestSoakTable(t *testing.T) {
	if err := writeSoak("", "# machine: a", time.Minute, nil); err != nil {
		t.Errorf("no file is no table: %v", err)
	}
	name := filepath.Join(t.TempDir(), "soak.md")
	runs := []soakRun{
		{name: "as released", changes: 999, seen: seen{rss: []float64{100 * mebibyte, 101 * mebibyte}, goroutines: []float64{500, 501}}},
		{name: "with -race", raced: true, changes: 700, races: 1},
	}
	if err := writeSoak(name, "# machine: a", 10*time.Minute, runs); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"loaded for 10m0s", mixed, "machine: a\n", "| figure | unit | as released | with -race |\n|---|---|---:|---:|\n",
		"| changes-made | 1/s | 999 | 700 |", "| data-races | races |  | 1.00 |", "| rss-at-the-end | MiB | 101 | - |",
		"| goroutines-at-the-end | goroutines | 501 | - |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in the table:\n%s", want, text)
		}
	}
	var out strings.Builder
	runs[1].say(&report{to: &out})
	if !strings.Contains(out.String(), "soak-race-data-races 1.00 races - - - # goal: <= 0\n") {
		t.Errorf("reported %s", out.String())
	}
}

func TestSoakJudgesMemoryByItsQuietestMoments(t *testing.T) {
	var o seen
	if g := o.grown(false); g == g {
		t.Errorf("it grew by %v before anybody looked", g)
	}
	for i, rss := range []float64{120, 100, 130, 140, 110} { // two minutes
		o.sample(i/3, rss, metrics{heap: rss / 2, goroutines: float64(i)})
	}
	o.heap[1] = 40
	if plain, raced := o.grown(false), o.grown(true); plain != 1.1 || raced != 0.8 {
		t.Errorf("grown to %v, with the race detector to %v, want 1.1 and 0.8", plain, raced)
	}
	if o.goroutines[1] != 4 {
		t.Errorf("goroutines %v", o.goroutines)
	}
}
