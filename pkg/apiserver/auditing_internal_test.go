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
