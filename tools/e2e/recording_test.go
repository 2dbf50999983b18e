package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recordedSession is a recording that has ended.
type recordedSession struct {
	User  struct{ Username string }
	Where struct{ Node, Namespace, Pod string }
	Code  int
	Exit  *int
	Cast  struct {
		Bytes    int
		SHA256   string
		Complete bool
	}
	shown, cast string
}

// recordingOf waits for the only recording of a user that has ended, and reads it.
func recordingOf(t *testing.T, folder, user string) (found recordedSession) {
	t.Helper()
	eventually(t, "the recording of "+user+" is whole", func(context.Context) error {
		files, err := filepath.Glob(filepath.Join(folder, "*[0-9a-f].json"))
		if err != nil {
			return err
		}
		for _, file := range files {
			var s recordedSession
			raw, err := os.ReadFile(file)
			if err == nil {
				err = json.Unmarshal(raw, &s)
			}
			if err != nil {
				return err
			}
			if s.User.Username == user && s.Code != 0 {
				cast, err := os.ReadFile(strings.TrimSuffix(file, ".json") + ".cast")
				s.cast, found = string(cast), s
				found.cast = string(cast)
				return err
			}
		}
		return fmt.Errorf("there are %v", files)
	})
	sum := sha256.Sum256([]byte(found.cast))
	if found.Cast.SHA256 != hex.EncodeToString(sum[:]) || found.Cast.Bytes != len(found.cast) || !found.Cast.Complete {
		t.Errorf("the cast has %d bytes, %x; the sidecar says %+v", len(found.cast), sum, found.Cast)
	}
	for line := range strings.Lines(found.cast) {
		var at float64
		var code, text string
		if json.Unmarshal([]byte(line), &[]any{&at, &code, &text}) == nil && code == "o" {
			found.shown += text
		}
	}
	return found
}

// kubectlOf runs kubectl as a user at a server.
func kubectlOf(t *testing.T, c caller, args ...string) string {
	t.Helper()
	base, err := url.Parse(c.base)
	if err != nil {
		t.Fatal(err)
	}
	secure := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(base)) // kubectl sends no token over plain http
	defer secure.Close()
	config := filepath.Join(t.TempDir(), "config")
	raw, err := json.Marshal(obj{"apiVersion": "v1", "kind": "Config", "current-context": "a",
		"clusters": []obj{{"name": "a", "cluster": obj{"server": secure.URL, "insecure-skip-tls-verify": true}}},
		"users":    []obj{{"name": "a", "user": obj{"token": c.token}}}, "contexts": []obj{{"name": "a", "context": obj{"cluster": "a", "user": "a"}}}})
	if err == nil {
		err = os.WriteFile(config, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), product.Program("kubectl"), append([]string{"--kubeconfig", config}, args...)...)
	out, _ := cmd.CombinedOutput() //nolint:errcheck // it is the text that counts
	return string(out)
}

// Where shells must be recorded, they are, whole and without what may not be in them; what can't be is refused, and ends when it can't be any more.
func TestWhatRunsInContainersIsRecorded(t *testing.T) { // O12, O36, O45
	folder := filepath.Join(t.TempDir(), "casts")
	passes := unique("passes")
	var log printed
	r, err := product.LoggedReplicaWithEnv(t.Context(), &log, []string{"KUBESPHERE_TERMINAL_RECORDING_MODE=strict", "KUBESPHERE_TERMINAL_RECORDING_FOLDER_PATH=" + folder,
		`KUBESPHERE_TERMINAL_RECORDING_REDACT=['canary-of-\d+']`, "KUBESPHERE_TERMINAL_RECORDING_PASSTHROUGH_USERS=[" + passes + "]",
		"KUBESPHERE_TERMINAL_NODE_IMAGE=example/tools"}, "-v=10", "--vmodule=*=10")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop() })
	ns := newNamespace(t)
	pod := newPod(t, ns)
	path, node := terminalOf(pod)+"/exec", terminalRoutes+"/nodes/"+readyNode(t)+"/exec"
	all := rule{[]string{""}, []string{"pods", "pods/exec", "pods/attach", "pods/portforward", "pods/ephemeralcontainers", "nodes/proxy"}, []string{"*"}}
	bob, name, _ := runsShells(t, r, node, all)
	eventually(t, "his rights count at kube-apiserver", bob.is(http.StatusOK, http.MethodGet, pod))

	p := openPage(t, bob, path+"?shell=sh")
	p.frame(t, obj{"Op": "resize", "Cols": 100, "Rows": 30})
	p.types(t, "stty -echo; echo re''ady; read secret; echo shown canary-of-1''23 ${#secret}; exit 3\r")
	p.shows(t, "ready")
	p.types(t, "canary-of-a-key\r")
	if code := p.ends(t); code != 1000 || !strings.Contains(p.shown.String(), "shown canary-of-123 15") {
		t.Fatalf("%d %s", code, p.shown.String())
	}
	s := recordingOf(t, folder, name)
	if s.Exit == nil || *s.Exit != 3 || s.Where.Namespace != ns || !strings.HasSuffix(pod, "/"+s.Where.Pod) || !strings.Contains(s.shown, "shown REDACTED 15") {
		t.Errorf("%+v", s)
	}
	if strings.Contains(s.cast, "canary-of-a-key") || strings.Contains(s.cast, "canary-of-123") || strings.Contains(s.cast, bob.token) || !strings.HasPrefix(s.cast, `{"version":2,`) {
		t.Errorf("the cast is %s", s.cast)
	}

	t.Run("NothingElseRunsThere", func(t *testing.T) {
		for _, args := range [][]string{{"exec", "-i"}, {"attach"}, {"port-forward"}, {"debug"}} {
			full := append(slices.Clone(args), "-n", ns, pod[strings.LastIndex(pod, "/")+1:])
			switch args[0] {
			case "exec":
				full = append(full, "--", "id")
			case "port-forward":
				full = append(full, "0:80")
			case "debug":
				full = append(full, "--image=busybox", "--target=web", "--profile=general")
			}
			if out := kubectlOf(t, bob, full...); !strings.Contains(out, "what runs in containers is recorded here") {
				t.Errorf("kubectl %v: %s", full, clip(out))
			}
		}
		node := strings.TrimSuffix(strings.TrimPrefix(node, terminalRoutes), "/exec")
		for at, method := range map[string]string{
			pod + "/exec?command=id&stdout=true": http.MethodPost, "/clusters/host" + pod + "/exec?command=id&stdout=true": http.MethodGet,
			strings.Replace(pod, "/api/", "/kapi/", 1) + "/ephemeralcontainers": http.MethodPatch, pod + "/ephemeralcontainers": http.MethodPut,
			"/api/v1" + node + "/proxy/run/" + ns + "/web/web?cmd=id": http.MethodPost,
		} {
			bob.must(t, http.StatusForbidden, method, at, "{}", "Content-Type: application/merge-patch+json")
		}
		other := newUser(t, passes)
		other.base = r.URL
		grantGlobally(t, passes, all)
		eventually(t, "who is listed runs commands", func(context.Context) error {
			if out := kubectlOf(t, other, "exec", "-n", ns, pod[strings.LastIndex(pod, "/")+1:], "--", "echo", "it", "runs"); !strings.Contains(out, "it runs") {
				return fmt.Errorf("%s", clip(out))
			}
			return nil
		})
	})
	t.Run("AShellEndsWithItsRecording", func(t *testing.T) {
		carol, user, _ := runsShells(t, r, node, all)
		shell := openPage(t, carol, node+"?shell=sh")
		shell.types(t, "echo on the no''de\r")
		shell.shows(t, "on the node")
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		if code := shell.ends(t); code != 4507 || !strings.Contains(shell.shown.String(), "can't be recorded any more") {
			t.Errorf("%d %s", code, shell.shown.String())
		}
		eventually(t, "its pod is gone", without(t, user))
		for _, at := range []string{path, node} {
			if conn, code, err := dialPage(t.Context(), carol, at); conn != nil || code != http.StatusServiceUnavailable {
				t.Errorf("%s: %d %v", at, code, err)
			}
		}
	})
	if said := log.String(); strings.Contains(said, "canary-of-") || strings.Contains(said, bob.token) || !strings.Contains(said, `"terminal recorded"`) {
		t.Error("the log has what was typed, shown or redacted, or a token; or has nothing of recordings")
	}
}
