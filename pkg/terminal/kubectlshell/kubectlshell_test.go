package kubectlshell_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"kapis.dev/ks-apiserver/pkg/terminal/kubectlshell"
)

const bob = "0b0b0b0b-1111-4222-8333-444444444444"

// The admission policy in config/rbac has the same shape.
func TestTheShapeOfThePod(t *testing.T) { // O8
	p := kubectlshell.Shell{Image: "i", User: "bob (Ü)", UID: bob, Max: time.Hour}.Pod()
	const want = `{"volumes":[{"name":"sessions","emptyDir":{"medium":"Memory","sizeLimit":"64Mi"}}],"containers":[{"name":"kubectl","image":"i",` +
		`"command":["sleep","infinity"],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"10m","memory":"64Mi"}},` +
		`"volumeMounts":[{"name":"sessions","mountPath":"/run/ks"}],"securityContext":{"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":true,` +
		`"allowPrivilegeEscalation":false}}],"restartPolicy":"Never","terminationGracePeriodSeconds":1,"activeDeadlineSeconds":7260,` +
		`"automountServiceAccountToken":false,"securityContext":{"runAsUser":65532,"runAsGroup":65532,"runAsNonRoot":true,"fsGroup":65532,` +
		`"seccompProfile":{"type":"RuntimeDefault"}},"enableServiceLinks":false}`
	if got, err := json.Marshal(p.Spec); err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	const meta = `{"name":"kubectl-` + bob + `","namespace":"kubesphere-terminals","labels":{"app.kubernetes.io/name":"kubectl-shell",` +
		`"kubesphere.io/kubectl-pod":"true","terminal.kapis.dev/user-uid":"` + bob + `"},"annotations":{"terminal.kapis.dev/user":"bob (Ü)"}}`
	if got, err := json.Marshal(p.ObjectMeta); err != nil || string(got) != meta {
		t.Errorf("%v\n%s\nwant\n%s", err, got, meta)
	}
	if d := (kubectlshell.Shell{}).Pod().Spec.ActiveDeadlineSeconds; d != nil {
		t.Errorf("without a limit it has the deadline %d", *d)
	}
}

// run runs a command of a session on this machine, with a folder of its own for that of the pod.
func run(t *testing.T, root string, command []string, input string) string {
	t.Helper()
	var argv []string
	for _, a := range command {
		argv = append(argv, strings.Replace(a, "/run/ks", root, 1))
	}
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...) //nolint:gosec // of this package
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%q: %v %s", command, err, out)
	}
	return string(out)
}

func TestACredentialComesByTheInputAlone(t *testing.T) { // O9
	const user = "bob: $(id) 'Ü' \\n %s"
	root, s := t.TempDir(), kubectlshell.NewSession()
	for _, access := range []string{"first", "second.token"} { // the second is a renewal
		input, err := kubectlshell.Input(kubectlshell.Target{Server: "https://ks.example:9443", Authority: []byte("PEM\n")}, user, access)
		if err != nil {
			t.Fatal(err)
		}
		write := s.WriteQuery()
		if write.Get("stdin") != "true" || write.Get("tty") != "" || strings.Contains(write.Encode(), access) {
			t.Errorf("%v", write)
		}
		if said := run(t, root, write["command"], input); said != "" {
			t.Errorf("it says %q", said)
		}
		files, err := filepath.Glob(root + "/*/*")
		if err != nil || len(files) != 2 {
			t.Fatalf("%q %v", files, err)
		}
		for _, f := range append(files, filepath.Dir(files[0])) {
			if i, err := os.Stat(f); err != nil || i.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v %v", f, i.Mode(), err)
			}
		}
		kubectl := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: files[0]}, nil)
		c, err := kubectl.RawConfig()
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubectl.ClientConfig()
		if err != nil || client.Host != "https://ks.example:9443" || client.BearerTokenFile != files[1] || string(client.CAData) != "PEM\n" ||
			c.AuthInfos[user] == nil || c.AuthInfos[user].Token != "" {
			t.Errorf("%+v %v", client, err)
		}
		if text, err := os.ReadFile(files[1]); err != nil || string(text) != access {
			t.Errorf("the token is %q: %v", text, err)
		}
	}
	shell := s.ShellQuery("sh")
	if shell.Get("tty") != "true" || shell.Get("stdin") != "true" || shell.Get("container") != "kubectl" {
		t.Errorf("%v", shell)
	}
	said := run(t, root, shell["command"], `pwd; echo "$HOME $TMPDIR $KUBECONFIG"; cat token`)
	dir := strings.SplitN(said, "\n", 2)[0]
	if filepath.Dir(dir) != root || said != dir+"\n"+dir+" "+dir+" "+dir+"/config\nsecond.token" {
		t.Errorf("the shell says %q", said)
	}
	run(t, root, s.RemoveQuery()["command"], "")
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	if kubectlshell.NewSession() == s {
		t.Error("two sessions are the same")
	}
}
