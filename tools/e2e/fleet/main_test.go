package fleet

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/pace"
	"kapis.dev/ks-apiserver/tools/stack"
)

// product is the hub that all tests share.
var product *stack.Stack

// productRace builds the product with the race detector, as `make test` does; -product-race=false saves the time of it while a test is written.
var productRace = flag.Bool("product-race", true, "build the product with the race detector")

// The members that `run --members 2` starts: the hub dials the first, and the second dials the hub.
const (
	direct = "member-1"
	dialer = "member-2"
)

var members = []string{direct, dialer}

// patience bounds a wait for what has no promised time.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "ks-fleet-")
	if err == nil {
		err = start(ctx, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start a fleet:", err)
		return 1
	}
	code := m.Run()
	if err := product.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the fleet:", err)
		code = 1
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "the logs are kept in", filepath.Join(dir, "dev"))
		return code
	}
	_ = os.RemoveAll(dir)
	return 0
}

func start(ctx context.Context, dir string) error {
	repo, err := filepath.Abs("../../..")
	if err != nil {
		return err
	}
	bin, err := stack.Build(ctx, repo, *productRace)
	if err != nil {
		return err
	}
	product, err = stack.Start(ctx, stack.Options{Bin: bin, Dir: filepath.Join(dir, "dev"), Repo: repo, Log: os.Stderr,
		Args: []string{"--members", "2", "--v=2", "--restart=ks-apiserver"}, Env: []string{"KUBESPHERE_TERMINAL_NODE_IMAGE=example/tools"}})
	return err
}

// user asks with a login.
type user struct{ name, token string }

// login logs somebody in.
func login(t *testing.T, name, password string) user {
	t.Helper()
	var out user
	eventually(t, name+" may log in", func(ctx context.Context) error {
		l, err := product.Login(ctx, name, password)
		out = user{name, l.Access}
		return err
	})
	return out
}

// admins is the login that the tests share as admin: of more than 64 the first ones end, and with them that of kubectl.
var admins struct {
	sync.Mutex
	user
}

func admin(t *testing.T) user {
	t.Helper()
	admins.Lock()
	defer admins.Unlock()
	if admins.token != "" {
		resp, err := admins.ask(t.Context(), http.MethodGet, iam+"/users/admin", nil)
		if err == nil && resp.Status == http.StatusOK {
			return admins.user
		}
	}
	admins.user = login(t, "admin", product.AdminPassword)
	return admins.user
}

// ask asks the hub once.
func (u user) ask(ctx context.Context, method, path string, body any) (stack.Response, error) {
	r := stack.Request{Method: method, Path: path, Token: u.token}
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return stack.Response{}, err
		}
		r.Body = raw
	}
	return product.Do(ctx, r)
}

// must asks the hub, and fails the test unless the answer has the code.
func (u user) must(t *testing.T, code int, method, path string, body any) string {
	t.Helper()
	resp, err := u.ask(t.Context(), method, path, body)
	if err != nil {
		t.Fatalf("%s %s as %s: %v", method, path, u.name, err)
	}
	if resp.Status != code {
		t.Fatalf("%s %s as %s: %d %.600s, want %d", method, path, u.name, resp.Status, resp.Body, code)
	}
	return string(resp.Body)
}

// becomes asks the hub until the answer has the code.
func (u user) becomes(t *testing.T, within time.Duration, code int, method, path string, body any) {
	t.Helper()
	err := pace.Until(t.Context(), within, func(ctx context.Context) error {
		resp, err := u.ask(ctx, method, path, body)
		if err == nil && resp.Status != code {
			err = fmt.Errorf("%d %.600s, want %d", resp.Status, resp.Body, code)
		}
		return err
	})
	if err != nil {
		t.Fatalf("%s %s as %s: %v", method, path, u.name, err)
	}
}

func eventually(t *testing.T, what string, f func(context.Context) error) {
	t.Helper()
	within(t, patience, what, f)
}

// within is eventually with a bound of its own.
func within(t *testing.T, bound time.Duration, what string, f func(context.Context) error) {
	t.Helper()
	if err := pace.Until(t.Context(), bound, f); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// at runs kubectl at the kube-apiserver of a member, as its administrator.
func at(t *testing.T, member string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), product.Program("kubectl"),
		append([]string{"--kubeconfig", filepath.Join(product.Dir, "members", member, "kubeconfig")}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s at %s: %w: %s", strings.Join(args, " "), member, err, errs.String())
	}
	return out.String(), nil
}

// through runs kubectl through the hub at a member, as the administrator of the hub.
func through(t *testing.T, member string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), product.Program("kubectl"), append([]string{"--kubeconfig", filepath.Join(product.Dir, "ks.kubeconfig"),
		"--server", product.TLSURL + "/clusters/" + member}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s through the hub at %s: %w: %s", strings.Join(args, " "), member, err, errs.String())
	}
	return out.String(), nil
}

type obj = map[string]any

func named(kind, name string, more obj) obj {
	group := "iam.kubesphere.io"
	if kind == "WorkspaceTemplate" {
		group = "tenant.kubesphere.io"
	}
	o := obj{"apiVersion": group + "/v1beta1", "kind": kind, "metadata": obj{"name": name}}
	for k, v := range more {
		o[k] = v
	}
	return o
}

const (
	iam       = "/apis/iam.kubesphere.io/v1beta1"
	clusters  = "/apis/cluster.kubesphere.io/v1alpha1/clusters"
	kapis     = "/kapis/cluster.kubesphere.io/v1alpha1/clusters"
	workspace = "/kapis/tenant.kubesphere.io/v1beta1/workspaces"
	password  = "Secret-123"
)

// newUser creates a user, who holds nothing.
func newUser(t *testing.T, name string) user {
	t.Helper()
	a := admin(t)
	a.must(t, http.StatusCreated, http.MethodPost, iam+"/users", named("User", name, obj{"spec": obj{"email": name + "@example.com", "password": password}}))
	t.Cleanup(func() { _, _ = a.ask(context.Background(), http.MethodDelete, iam+"/users/"+name, nil) })
	return login(t, name, password)
}

// askMember asks a member past the hub, and returns the code. The certificate does not matter here: nothing is told.
func askMember(t *testing.T, address, path string, header http.Header) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+path, nil)
	if err != nil {
		return 0, err
	}
	r.Header = header
	by := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer by.CloseIdleConnections()
	resp, err := by.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
