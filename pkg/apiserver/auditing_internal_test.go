package apiserver

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/config"
)

// O15: a configuration of release 3 or 4 posts events in the form of its release, or in that of Kubernetes, and the file has them as well.
func TestAConfigurationOfEachReleasePostsEventsInItsForm(t *testing.T) {
	posted := make(chan string, 1)
	webhook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) //nolint:errcheck // then it begins otherwise
		posted <- string(body)
	}))
	defer webhook.Close()
	for name, c := range map[string]struct{ keys, want string }{
		"Release3":   {"webhookUrl: '" + webhook.URL + "'", `{"Items":[{"Devops":"","Workspace":"w",`},
		"Release4":   {"webhookOptions: {webhookUrl: '" + webhook.URL + "'}", `{"Workspace":"w",`},
		"Kubernetes": {"webhookOptions: {webhookUrl: '" + webhook.URL + "', format: audit.k8s.io/v1}", `{"kind":"EventList",`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "audit.log")
			cfg, err := config.Parse([]byte("auditing: {enable: true, eventBatchSize: 1, logOptions: {path: "+file+"}, "+c.keys+"}"), nil)
			if err != nil {
				t.Fatal(err)
			}
			p := &components{cfg: cfg, metrics: prometheus.NewRegistry()}
			ctx, stop := context.WithCancel(t.Context())
			defer func() { stop(); p.running.Wait() }()
			if err := p.makeAudit(ctx); err != nil {
				t.Fatal(err)
			}
			p.audit.Record(&audit.Event{Workspace: "w", Verb: "get"})
			select {
			case got := <-posted:
				if !strings.HasPrefix(got, c.want) {
					t.Errorf("got %s, want %s...", got, c.want)
				}
			case <-time.After(time.Minute):
				t.Error("nothing is posted")
			}
			stop()
			p.running.Wait()
			if got, err := os.ReadFile(file); err != nil || !strings.Contains(string(got), `"kapis.dev/workspace":"w"`) {
				t.Errorf("the file has %s: %v", got, err)
			}
			if err := p.audit.fault(); err != nil {
				t.Error(err)
			}
		})
	}
}

// O18: the mode of each backend decides whether requests wait for it, and whether nothing is done without its event.
func TestTheModesOfTheAuditDecideWhatWaits(t *testing.T) {
	hangs := make(chan struct{})
	webhook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hangs }))
	defer webhook.Close()
	defer close(hangs)
	for name, c := range map[string]struct {
		keys                  string
		waits, strict, failed bool
	}{
		"Batch":        {"logOptions: {path: FILE}", false, false, false},
		"Blocking":     {"logOptions: {path: FILE, mode: blocking}", true, false, false},
		"Strict":       {"logOptions: {path: FILE, mode: blocking-strict}", true, true, false},
		"LateIsNoFail": {"logOptions: {path: FILE, mode: blocking-strict}, webhookOptions: {webhookUrl: URL, mode: blocking}", true, true, false},
		"StrictlyLate": {"logOptions: {path: FILE}, webhookOptions: {webhookUrl: URL, mode: blocking-strict}", true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			keys := strings.NewReplacer("FILE", filepath.Join(t.TempDir(), "audit.log"), "URL", "'"+webhook.URL+"'").Replace(c.keys)
			cfg, err := config.Parse([]byte("auditing: {enable: true, recent: 1Mi, "+keys+"}"), nil)
			if err != nil {
				t.Fatal(err)
			}
			p := &components{cfg: cfg, metrics: prometheus.NewRegistry()}
			ctx, stop := context.WithCancel(t.Context())
			defer func() { stop() }() // the webhook hangs longer than the test
			if err := p.makeAudit(ctx); err != nil {
				t.Fatal(err)
			}
			waits, strict := p.audit.waits()
			if waits != c.waits || strict != c.strict {
				t.Errorf("waits %v, strict %v", waits, strict)
			}
			if !c.waits {
				return
			}
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if !strings.Contains(keys, "webhookUrl") { // nothing is late
				cancel()
				short, cancel = context.WithTimeout(t.Context(), time.Minute)
			}
			defer cancel()
			if name == "LateIsNoFail" { // the file is written, before the time ends that the webhook takes
				if err := p.audit.backends[0].Submit(&audit.Event{Verb: "get"}).Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				p.audit.backends = p.audit.backends[1:]
			}
			if err := p.audit.Commit(short, &audit.Event{Verb: "get"}); (err != nil) != c.failed {
				t.Errorf("the event is written: %v", err)
			}
			if all, _ := p.audit.recent.Events(); len(all) != 1 {
				t.Errorf("%d recent events", len(all))
			}
		})
	}
}
