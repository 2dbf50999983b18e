package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/port"
	"kapis.dev/ks-apiserver/tools/stack"
)

// A start that can't succeed ends by itself, not with 0, and with one line that says why.
func TestAStartThatCannotSucceedSaysWhyInOneLine(t *testing.T) {
	proves(t, "S76")
	dir := t.TempDir()
	write := func(name, text string) string {
		f := filepath.Join(dir, name)
		if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	good := write("kubesphere.yaml", "authentication: {issuer: {url: http://127.0.0.1:9090}}")
	hook := func(name, file string) string {
		return write(name, "authorization: {modes: [Webhook, RBAC], webhook: {failurePolicy: Deny, kubeconfigFile: "+file+"}}")
	}
	badPolicies := write("bad.jsonl", "# one\n{}\n")
	unknown := write("unknown.yaml", "authentication: {isuer: {}}")
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := fmt.Sprint(taken.Addr().(*net.TCPAddr).Port)
	nowhere := write("nowhere.kubeconfig", `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}],
clusters: [{name: x, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: x, user: {}}]}`)
	cluster := filepath.Join(product.Dir, "kubeconfig")
	on := func(config string) []string {
		return []string{"--config", config, "--kubeconfig", cluster, "--bind-address", "127.0.0.1", "--insecure-port", reservedPort(t)}
	}
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"unknown key", `unknown key "authentication.isuer"; did you mean "authentication.issuer"?`, []string{"--config", unknown, "--kubeconfig", cluster}},
		{"issuer over http", "authentication.issuer.allowInsecureURL", on(write("http.yaml", "authentication: {issuer: {url: http://ks.example.com}}"))},
		{"issuer over http, accepted by name, and then the port is taken", port, []string{"--config", write("named.yaml",
			"authentication: {issuer: {url: http://ks.example.com, allowInsecureURL: true}}"), "--kubeconfig", cluster, "--bind-address", "127.0.0.1",
			"--insecure-port", port}},
		{"no configuration", "none.yaml", []string{"--config", filepath.Join(dir, "none.yaml"), "--kubeconfig", cluster}},
		{"no kubeconfig", "none.kubeconfig", []string{"--config", good, "--kubeconfig", filepath.Join(dir, "none.kubeconfig")}},
		{"unreadable kubeconfig", "unknown.yaml", []string{"--config", good, "--kubeconfig", unknown}},
		{"cluster down", "https://127.0.0.1:1", []string{"--config", good, "--kubeconfig", nowhere, "--bind-address", "127.0.0.1", "--insecure-port", reservedPort(t)}},
		{"port taken", port, []string{"--config", good, "--kubeconfig", cluster, "--bind-address", "127.0.0.1", "--insecure-port", port}},
		{"no certificate", "--tls-cert-file", []string{"--config", good, "--kubeconfig", cluster, "--bind-address", "127.0.0.1", "--insecure-port", "0",
			"--secure-port", "1"}},
		{"no kubeconfig of the webhook", "none.hook", on(hook("nohook.yaml", filepath.Join(dir, "none.hook")))},
		{"bad kubeconfig of the webhook", "unknown.yaml of the authorization webhook", on(hook("badhook.yaml", unknown))},
		{"bad policies", "bad.jsonl: line 2: ", on(write("abac.yaml", "authorization: {modes: [ABAC], abac: {policyFile: "+badPolicies+"}}"))},
		{"webhook of no file", "authorization.webhook.kubeconfigFile is missing", on(write("nofile.yaml", "authorization: {modes: [Webhook]}"))},
		{"unknown flag", "--colour", []string{"--colour"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, product.Program("ks-apiserver"), c.args...)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() <= 0 || ctx.Err() != nil {
				t.Fatalf("ended with %v: %s", err, out)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			last := lines[len(lines)-1]
			if !strings.HasPrefix(last, "ks-apiserver: ") || !strings.Contains(last, c.want) || strings.Contains(string(out), "goroutine") {
				t.Errorf("%s, want a last line with %q", out, c.want)
			}
		})
	}
}

func reservedPort(t *testing.T) string {
	t.Helper()
	p, err := port.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(p)
}

func TestADeadAPIServiceConcernsItselfAlone(t *testing.T) { // U14, U15
	a := admin(t)
	group := unique("dead") + ".example.com"
	a.create(t, "/apis/apiregistration.k8s.io/v1/apiservices", map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1." + group},
		"spec": map[string]any{"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true,
			"service": map[string]any{"name": "nobody", "namespace": "default"}},
	})
	eventually(t, "kube-apiserver knows that it is dead", a.is(http.StatusServiceUnavailable, http.MethodGet, "/apis/"+group+"/v1"))
	r, err := a.do(t.Context(), http.MethodGet, "/kapis/"+group+"/v1/things", nil)
	if err != nil || r.code != http.StatusNotFound && r.code != http.StatusServiceUnavailable {
		t.Errorf("the dead group: %d %s %v", r.code, r.body, err)
	}
	a.must(t, http.StatusOK, http.MethodGet, kapis+"/pods?limit=1", nil)
	anonymous().must(t, http.StatusOK, http.MethodGet, "/readyz", nil)
	// A replica starts beside it as well.
	other, err := product.Replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Stop(); err != nil {
		t.Error(err)
	}
}

// Reads go on from the cache while kube-apiserver is away; what needs it says so; all heals.
func TestALostClusterDegradesAndHeals(t *testing.T) { // U53
	a := admin(t)
	a.must(t, http.StatusOK, http.MethodGet, kapis+"/namespaces?limit=1", nil)
	pid, ok := product.Process("kube-apiserver")
	if !ok {
		t.Fatal("no kube-apiserver among the processes of this instance")
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resumed := false
	resume := func() {
		if !resumed {
			resumed = true
			_ = syscall.Kill(pid, syscall.SIGKILL) // the supervisor starts another one
		}
	}
	defer resume()
	if l := a.list(t, kapis+"/namespaces?limit=1"); *l.TotalItems == 0 {
		t.Error("nothing is listed from the cache")
	}
	anonymous().must(t, http.StatusOK, http.MethodGet, "/livez", nil)
	within(t, revocation, "/readyz answers while kube-apiserver hangs", anonymous().is(http.StatusOK, http.MethodGet, "/readyz?verbose"))
	resume()
	eventually(t, "what is passed on says that the cluster is away", func(ctx context.Context) error {
		r, err := a.do(ctx, http.MethodGet, "/api/v1/namespaces", nil)
		if err == nil && r.code != http.StatusServiceUnavailable && r.code != http.StatusBadGateway && r.code != http.StatusGatewayTimeout &&
			r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	eventually(t, "it is back", a.is(http.StatusOK, http.MethodGet, "/api/v1/namespaces"))
	// It admits nothing before it has read its policies and webhooks.
	eventually(t, "it takes writes", a.accepts(http.StatusCreated, http.MethodPost, "/api/v1/namespaces?dryRun=All",
		obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": unique("try")}}))
	name := newNamespace(t)
	eventually(t, "and the caches follow again", a.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/"+name))
	eventually(t, "ready", anonymous().is(http.StatusOK, http.MethodGet, "/readyz"))
}

func TestSIGTERMDrains(t *testing.T) {
	other, err := product.Replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := loginAt(t, other.URL, "admin", product.AdminPassword)
	ended := c.watch(t, "/api/v1/namespaces?watch=true")
	done := make(chan error, 1)
	go func() { done <- other.Stop() }()
	within(t, 5*time.Second, "/readyz says that it stops, or the port is closed", func(ctx context.Context) error {
		r, err := caller{base: other.URL}.do(ctx, http.MethodGet, "/readyz", nil)
		if err == nil && r.code != http.StatusServiceUnavailable {
			return fmt.Errorf("%d", r.code)
		}
		return nil
	})
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the watch was not ended")
	}
	if err := <-done; err != nil {
		t.Errorf("it did not end with 0: %v", err)
	}
}

// A second instance beside the first one: it is killed without warning, starts again on the state that
// is left, and is gone when it is stopped.
func TestAKilledInstanceStartsAgainAndLeavesNothing(t *testing.T) {
	t.Parallel() // it has a control plane of its own
	options := options
	options.Dir = filepath.Join(t.TempDir(), "dev")
	first, err := stack.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	a := loginAt(t, first.URL, "admin", first.AdminPassword)
	a.must(
		t,
		http.StatusCreated,
		http.MethodPost,
		"/api/v1/namespaces",
		map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "kept"}},
	)
	first.Kill()
	eventually(t, "nothing of it is left", func(context.Context) error { return nothingOf(options.Dir) })
	again, err := stack.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if again.AdminPassword != first.AdminPassword {
		t.Error("the admin has another password now")
	}
	loginAt(t, again.URL, "admin", again.AdminPassword).must(t, http.StatusOK, http.MethodGet, kapis+"/namespaces/kept", nil)
	if err := again.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := nothingOf(options.Dir); err != nil {
		t.Errorf("after the stop: %v", err)
	}
	admin(t).must(t, http.StatusOK, http.MethodGet, "/api/v1/namespaces", nil) // the first one was not disturbed
}

// nothingOf says which process still has dir in its command line.
func nothingOf(dir string) error {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, f := range files {
		if raw, err := os.ReadFile(f); err == nil && strings.Contains(string(raw), dir) {
			return fmt.Errorf("still there: %s", strings.ReplaceAll(string(raw), "\x00", " "))
		}
	}
	return nil
}
