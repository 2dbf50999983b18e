package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubectl is a command that works through ks-apiserver, as the admin.
func kubectl(ctx context.Context, args ...string) *exec.Cmd {
	args = append([]string{"--kubeconfig", filepath.Join(product.Dir, "ks.kubeconfig"), "--cache-dir", filepath.Join(product.Dir, "kubectl-cache")}, args...)
	return exec.CommandContext(ctx, product.Program("kubectl"), args...)
}

func kubectlOutput(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := kubectl(t.Context(), args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

func TestKubectlThroughUs(t *testing.T) {
	ns := newNamespace(t)
	manifest := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"example/web"}]}}`
	if out := kubectlOutput(t, manifest, "apply", "-n", ns, "-f", "-"); !strings.Contains(out, "pod/web created") {
		t.Errorf("apply: %s", out)
	}
	if out := kubectlOutput(t, manifest, "apply", "--server-side", "-n", ns, "-f", "-"); !strings.Contains(out, "pod/web serverside-applied") {
		t.Errorf("apply --server-side: %s", out)
	}
	kubectlOutput(t, "", "wait", "-n", ns, "--for=condition=Ready", "pod/web", "--timeout=240s") // a watch
	for _, c := range []struct {
		want string
		args []string
	}{
		{"Running", []string{"get", "pods", "-n", ns}}, // a Table
		{"web", []string{"get", "pods", "-n", ns, "-o", "jsonpath={.items[*].metadata.name}"}},
		{"managedFields", []string{"get", "pod", "web", "-n", ns, "-o", "json", "--show-managed-fields"}},
		{"deployments", []string{"api-resources"}},
		{"globalroles", []string{"api-resources", "--api-group=iam.kubesphere.io"}},
		{"apps/v1", []string{"api-versions"}},
		{"replicas", []string{"explain", "deployment.spec"}},
		{"password", []string{"explain", "user.spec", "--api-version=iam.kubesphere.io/v1beta1"}},
		{"yes", []string{"auth", "can-i", "get", "pods"}},
		{"Containers:", []string{"describe", "pod", "web", "-n", ns}},
		{"hello from exec", []string{"exec", "-n", ns, "web", "--", "echo", "hello from exec"}},
		{"Server Version: v4.1.", []string{"version"}},
	} {
		if out := kubectlOutput(t, "", c.args...); !strings.Contains(out, c.want) {
			t.Errorf("kubectl %s: %s, want %q in it", strings.Join(c.args, " "), clip(out), c.want)
		}
	}
	if out := kubectlOutput(t, "", "logs", "-n", ns, "web"); out == "" {
		t.Error("logs: empty")
	}
	if out := kubectlOutput(t, "typed\n", "exec", "-i", "-n", ns, "web", "--", "cat"); out != "typed\n" {
		t.Errorf("exec -i cat: %q", out)
	}
	t.Run("validation on the client's side", func(t *testing.T) {
		cmd := kubectl(t.Context(), "apply", "-n", ns, "-f", "-")
		cmd.Stdin = strings.NewReader(strings.Replace(manifest, `"spec":{`, `"spec":{"nonsense":1,`, 1))
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "nonsense") {
			t.Errorf("a pod with an unknown field: %s %v", out, err)
		}
	})
	t.Run("watch", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := kubectl(ctx, "get", "configmaps", "-n", ns, "--watch", "-o", "name")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cancel(); _ = cmd.Wait() }()
		kubectlOutput(t, "", "create", "configmap", "seen", "-n", ns)
		for lines := bufio.NewScanner(out); ; {
			if !lines.Scan() {
				t.Fatal("the watch ended without showing the new ConfigMap")
			}
			if strings.Contains(lines.Text(), "configmap/seen") {
				return
			}
		}
	})
	t.Run("port-forward", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := kubectl(ctx, "port-forward", "-n", ns, "pod/web", "--address", "127.0.0.1", ":80")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cancel(); _ = cmd.Wait() }()
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var port int
		if _, err := fmt.Sscanf(line, "Forwarding from 127.0.0.1:%d", &port); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatalf("through the forwarded port: %v", err)
		}
		resp.Body.Close()
	})
}

func TestTheKubeconfigIsForItsOwnerOnly(t *testing.T) {
	for _, f := range []string{"ks.kubeconfig", "kubeconfig", "admin-password"} {
		st, err := os.Stat(filepath.Join(product.Dir, f))
		if err != nil || st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", f, st, err)
		}
	}
}
