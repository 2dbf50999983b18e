package kube_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/kube"
)

const kubeconfig = `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}],
clusters: [{name: x, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: x, user: {token: t}}]}`

func TestAccessNamesTheFileThatIsWrong(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		f := filepath.Join(dir, name)
		if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, c := range []struct{ name, file string }{
		{"missing", filepath.Join(dir, "missing.kubeconfig")},
		{"empty", write("empty.kubeconfig", "")},
		{"broken", write("broken.kubeconfig", "a: [")},
		{"no kubeconfig", write("other.kubeconfig", "authentication: {}")},
	} {
		if _, err := (kube.Access{Kubeconfig: c.file}).Config(); err == nil || !strings.Contains(err.Error(), c.file) {
			t.Errorf("%s: %v, want an error that names %s", c.name, err, c.file)
		}
	}
	cfg, err := kube.Access{Kubeconfig: write("good.kubeconfig", kubeconfig), QPS: 7, Burst: 8, UserAgent: "test"}.Config()
	if err != nil || cfg.Host != "https://127.0.0.1:1" || cfg.QPS != 7 || cfg.Burst != 8 || !strings.HasPrefix(cfg.UserAgent, "test/v4.1.") {
		t.Errorf("%+v %v", cfg, err)
	}
}

func TestReachTellsWhereNobodyAnswered(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"major":"1","minor":"37","gitVersion":"v1.37.1"}`))
	}))
	cfg := &rest.Config{Host: srv.URL}
	if v, err := kube.Reach(t.Context(), cfg); err != nil || v.GitVersion != "v1.37.1" {
		t.Errorf("%+v %v", v, err)
	}
	srv.Close()
	if _, err := kube.Reach(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), srv.URL) {
		t.Errorf("%v, want an error that names %s", err, srv.URL)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := kube.Reach(ctx, cfg); err == nil {
		t.Error("a cancelled start went on")
	}
}

func TestTheSchemeHasTheProjectsKinds(t *testing.T) {
	s := kube.Scheme()
	for _, gv := range []string{"iam.kubesphere.io/v1beta1", "tenant.kubesphere.io/v1beta1", "cluster.kubesphere.io/v1alpha1", "session.kapis.dev/v1alpha1",
		"v1"} {
		found := false
		for _, known := range s.PrioritizedVersionsAllGroups() {
			found = found || known.String() == gv
		}
		if !found {
			t.Errorf("%s is not in the scheme", gv)
		}
	}
}
