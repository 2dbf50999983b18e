package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// workstation is where somebody uses kubectl: a home of its own, without a display and a terminal.
type workstation struct {
	t    *testing.T
	home string
	env  []string
}

func newWorkstation(t *testing.T) *workstation {
	t.Helper()
	home := t.TempDir()
	return &workstation{t, home, []string{
		"PATH=" + filepath.Dir(product.Program("kubectl")) + ":/usr/bin:/bin", "HOME=" + home, "KUBECONFIG=" + filepath.Join(home, "config"),
		"XDG_CACHE_HOME=" + filepath.Join(home, "cache"), "GORACE=halt_on_error=1",
	}}
}

func (w *workstation) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, product.Program("kubectl"), args...)
	cmd.Env, cmd.Dir = w.env, w.home
	return cmd
}

// fails runs a command that has to fail, and say something.
func (w *workstation) fails(says string, args ...string) {
	w.t.Helper()
	out, err := w.command(w.t.Context(), args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), says) {
		w.t.Errorf("kubectl %s: %v, want %q in\n%s", strings.Join(args, " "), err, says, out)
	}
}

func (w *workstation) run(args ...string) string {
	w.t.Helper()
	cmd := w.command(w.t.Context(), args...)
	var told bytes.Buffer
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, out, told.String())
	}
	return string(out)
}

// login runs `kubectl ks login` while p does what the address asks for.
func (w *workstation) login(p *person, do func(), args ...string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := w.command(ctx, append([]string{"ks", "login"}, args...)...)
	told, err := cmd.StderrPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	said := make(chan string)
	go lines(ctx, told, said)
	p.visit(address(w.t, said))
	do()
	var rest []string
	for line := range said {
		rest = append(rest, line)
	}
	if err := cmd.Wait(); err != nil {
		w.t.Fatalf("kubectl ks login: %v\n%s", err, strings.Join(rest, "\n"))
	}
}

// kept is the one login in the cache.
func (w *workstation) kept() (file string, k map[string]any) {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.home, "cache", "ks", "*.json"))
	if err != nil || len(files) != 1 {
		w.t.Fatalf("%v, %v", files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		w.t.Fatal(err)
	}
	return files[0], decode[map[string]any](w.t, string(raw))
}

// refreshes reads how many refresh grants the server has answered, by result.
func refreshes(t *testing.T) (ok, refused int) {
	t.Helper()
	for line := range strings.Lines(admin(t).must(t, http.StatusOK, http.MethodGet, "/metrics", nil).body) {
		if strings.HasPrefix(line, `ks_oauth_token_requests_total{grant="refresh_token"`) {
			f := strings.Fields(line)
			n, err := strconv.Atoi(f[len(f)-1])
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, `result="ok"`) {
				ok += n
			} else {
				refused += n
			}
		}
	}
	return ok, refused
}

func TestKubectlLogsInByBrowser(t *testing.T) { // T7636-1, T9207-1, U35
	w := newWorkstation(t)
	ca, _, _ := authority(t)
	w.run("ks", "kubeconfig", "--server", product.TLSURL, "--certificate-authority", ca)
	w.fails("not logged in at https://localhost:", "get", "pods", "-A")
	w.fails("kubectl ks login", "get", "pods", "-A")

	w.env = append(w.env, "BROWSER=true")
	p := newPerson(t)
	w.login(p, func() {
		p.submit("username=admin", "password="+product.AdminPassword)
		p.sees("kubectl") // asks whether that program may
		p.submit("answer=allow")
		p.sees("You are logged in")
	})
	w.env = w.env[:len(w.env)-1]
	if out := w.run("ks", "whoami"); !strings.HasPrefix(out, "user: admin\n") {
		t.Errorf("whoami: %s", out)
	}
	file, before := w.kept()
	w.run("get", "pods", "-A")
	if out := w.run("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "admin" {
		t.Errorf("kubectl is %q", out)
	}
	if _, after := w.kept(); after["access_token"] != before["access_token"] {
		t.Error("a call did not use the login that is kept")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}

	t.Run("ParallelCallsRefreshOnce", func(t *testing.T) { // T9700-9
		before["expiry"] = time.Now().Add(-time.Minute)
		raw, err := json.Marshal(before)
		if err == nil {
			err = os.WriteFile(file, raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		ok, refused := refreshes(t)
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				if out, err := w.command(t.Context(), "get", "--raw", "/version").CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
		wg.Wait()
		nowOK, nowRefused := refreshes(t)
		if nowOK != ok+1 || nowRefused != refused {
			t.Errorf("%d refreshes, and %d refused", nowOK-ok, nowRefused-refused)
		}
		if _, after := w.kept(); after["refresh_token"] == before["refresh_token"] {
			t.Error("the refresh token was not rotated")
		}
	})
	t.Run("LogoutEndsIt", func(t *testing.T) { // T7009-1, T7009-3
		_, k := w.kept()
		w.run("ks", "logout")
		w.fails("not logged in at", "get", "pods", "-A")
		old := caller{product.URL, k["access_token"].(string)}
		within(t, revocation, "the token is refused", old.is(http.StatusUnauthorized, http.MethodGet, "/api/v1/nodes"))
		w.run("ks", "logout") // of nobody
	})
	t.Run("TheSecondTimeTheBrowserKnowsHim", func(t *testing.T) {
		w.env = append(w.env, "BROWSER=true")
		w.login(p, func() {
			p.sees("Allow kubectl?") // each time: another program may have taken its name (RFC 8252, 8.6)
			p.submit("answer=allow")
			p.sees("You are logged in")
		})
		w.run("get", "--raw", "/version")
		w.run("ks", "logout")
	})
}

// The kubeconfig that the server gives works on a machine without a browser, for its user alone.
func TestAKubeconfigOfOneself(t *testing.T) { // U41: there is no certificate in it that could run out; T8628-2, T8628-6
	const route = "/kapis/resources.kubesphere.io/v1alpha2/users/"
	name, other := unique("kube"), unique("kube")
	alice := newUser(t, name)
	newUser(t, other)
	r := alice.must(t, http.StatusOK, http.MethodGet, route+name+"/kubeconfig", nil)
	if r.header.Get("Content-Type") != "application/yaml" || strings.Contains(r.body, alice.token) || strings.Contains(r.body, "client-key") ||
		strings.Contains(r.body, "token:") {
		t.Errorf("%v\n%s", r.header, r.body)
	}
	alice.must(t, http.StatusForbidden, http.MethodGet, route+other+"/kubeconfig", nil)
	anonymous().must(t, http.StatusForbidden, http.MethodGet, route+name+"/kubeconfig", nil)
	admin(t).must(t, http.StatusOK, http.MethodGet, route+name+"/kubeconfig", nil)
	if r := admin(t).must(t, http.StatusNotFound, http.MethodGet, route+"nobody-at-all/kubeconfig", nil); !strings.Contains(r.body, `"kind":"Status"`) {
		t.Errorf("of nobody: %s", r.body)
	}

	w := newWorkstation(t)
	if err := os.WriteFile(filepath.Join(w.home, "config"), []byte(r.body), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newPerson(t)
	w.login(p, func() {
		p.submit("username="+name, "password="+password)
		p.submit() // the code is filled in
		p.sees("kubectl")
		p.submit("answer=allow")
		p.sees("Connected")
	}, "--device")
	if out := w.run("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != name {
		t.Errorf("kubectl is %q", out)
	}
	w.fails("forbidden", "get", "nodes") // he has no rights, and is known
	w.run("ks", "logout")

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := w.command(ctx, "ks", "login", "--device")
	told, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string)
	go lines(ctx, told, said)
	wrong := newPerson(t)
	wrong.visit(address(t, said))
	wrong.submit("username="+other, "password="+password)
	wrong.submit()
	wrong.submit("answer=allow")
	var rest []string
	for line := range said {
		rest = append(rest, line)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(fmt.Sprint(rest), "it has to be") {
		t.Errorf("another person than the kubeconfig's: %v\n%s", err, strings.Join(rest, "\n"))
	}
}
