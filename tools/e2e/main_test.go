package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/stack"
)

// product is the one stack that all tests of the package share, and options how it was started.
var (
	product *stack.Stack
	options stack.Options
)

// productRace builds the product with the race detector, as `make test` does; -product-race=false saves the time of it while a test is written.
var productRace = flag.Bool("product-race", true, "build the product with the race detector")

func TestMain(m *testing.M) {
	flag.Parse()
	switch {
	case flagValue("test.list") != "":
		os.Exit(m.Run())
	case !chosen():
		os.Exit(runShards())
	}
	os.Exit(run(m))
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "end-to-end tests:", err)
	return 1
}

// run starts the product, and runs the tests that were chosen with it.
func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	repo, err := filepath.Abs("../..")
	if err != nil {
		return fail(err)
	}
	dir, err := os.MkdirTemp("", "ks-e2e-")
	if err != nil {
		return fail(err)
	}
	bin := *shardBin
	if bin == "" {
		if bin, err = stack.Build(ctx, repo, *productRace); err != nil {
			return fail(err)
		}
	}
	// The highest level that can be asked for, and more: what no log may tell is searched for in all of it.
	options = stack.Options{Bin: bin, Dir: filepath.Join(dir, "dev"), Repo: repo, Log: os.Stderr, Args: []string{"--v=8"}}
	product, err = stack.Start(ctx, options)
	if err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := product.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the product:", err)
		code = 1
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "the logs are kept in", filepath.Join(dir, "dev", "log"))
		return code
	}
	_ = os.RemoveAll(dir)
	if *shardHeld != "" {
		if err := writeHeld(); err != nil {
			return fail(err)
		}
	}
	return 0
}

var administrator struct {
	sync.Once
	caller
}

// admin is logged in once for all tests: a bcrypt comparison takes a while under the race detector.
func admin(t *testing.T) caller {
	t.Helper()
	administrator.Do(func() { administrator.caller = loginAt(t, product.URL, "admin", product.AdminPassword) })
	return administrator.caller
}

func anonymous() caller { return caller{base: product.URL} }

func loginAt(t *testing.T, base, user, password string) caller {
	t.Helper()
	return caller{base, tokens(t, base, user, password).Access}
}

var serial atomic.Int64

// unique returns a name that no other test uses.
func unique(prefix string) string {
	return fmt.Sprintf("%s-%d", prefix, serial.Add(1))
}

const password = "Secret-123"

// newUser creates a user as the admin, and returns it once it may log in.
func newUser(t *testing.T, name string) caller {
	t.Helper()
	a := admin(t)
	a.must(t, http.StatusCreated, http.MethodPost, "/apis/iam.kubesphere.io/v1beta1/users", map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"email": name + "@example.com", "password": password},
	})
	t.Cleanup(func() {
		_, _ = a.do(context.Background(), http.MethodDelete, "/apis/iam.kubesphere.io/v1beta1/users/"+name, nil)
	})
	var c caller
	eventually(t, "user "+name+" may log in", func(ctx context.Context) error {
		r, err := passwordGrant(ctx, product.URL, name, password)
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, r.body)
		}
		if err == nil {
			c = caller{product.URL, decode[tokenReply](t, r.body).Access}
		}
		return err
	})
	return c
}

// apply creates an object through /api or /apis as c, and deletes it at the end of the test.
func (c caller) create(t *testing.T, path string, object map[string]any) {
	t.Helper()
	c.must(t, http.StatusCreated, http.MethodPost, path, object)
	name := object["metadata"].(map[string]any)["name"].(string)
	t.Cleanup(func() { _, _ = c.do(context.Background(), http.MethodDelete, path+"/"+name, nil) })
}

// newNamespace makes a namespace that takes Pods: they are refused until it has the ServiceAccount that they get.
func newNamespace(t *testing.T) string {
	t.Helper()
	a, name := admin(t), unique("e2e")
	a.create(t, "/api/v1/namespaces", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
	eventually(t, "the namespace has a ServiceAccount", a.is(http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+name+"/serviceaccounts/default"))
	return name
}
