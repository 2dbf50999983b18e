package product

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/logins/chromium"
	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	// patience bounds every wait for a condition, and browsing what one test does in the browser. Both are long, since CI machines are slow.
	patience = 3 * time.Minute
	browsing = 10 * time.Minute

	password    = "Secret-123"
	secretsPath = "/api/v1/namespaces/kubesphere-system/secrets"
	usersPath   = "/apis/iam.kubesphere.io/v1beta1/users"
)

// product is the one stack that all tests of the package share: authority is the CA of its https address, issuer is its issuer, and
// admin is the administrator's token.
var product struct {
	*stack.Stack
	authority     *x509.Certificate
	issuer, admin string
}

// realNode has terminals in real containers, where the machine can run them: docs/real-node.md.
var realNode = flag.Bool("real-node", false, "also start a node with real containers, as root, and open the terminals there")

// productRace builds the product with the race detector; -product-race=false saves the time of it while a test is written.
var productRace = flag.Bool("product-race", true, "build the product with the race detector")

// realImage is an image that such a node has, with a shell and nsenter.
const realImage = "kapis.dev/busybox:dev"

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ks-logins-")
	if err == nil {
		err = start(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the product:", err)
		return 1
	}
	code := m.Run()
	if err := product.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the product:", err)
		code = 1
	}
	if code == 0 {
		_ = os.RemoveAll(dir)
	} else {
		fmt.Fprintln(os.Stderr, "the logs are kept in", filepath.Join(dir, "dev", "log"))
	}
	return code
}

func start(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	repo, err := filepath.Abs("../../..")
	if err != nil {
		return err
	}
	bin, err := stack.Build(ctx, repo, *productRace)
	if err != nil {
		return err
	}
	o := stack.Options{Bin: bin, Dir: filepath.Join(dir, "dev"), Repo: repo, Log: os.Stderr}
	if *realNode {
		o.Args, o.Env = []string{"--node", "real"}, []string{"KUBESPHERE_TERMINAL_NODE_IMAGE=" + realImage}
	}
	if product.Stack, err = stack.Start(ctx, o); err != nil {
		return err
	}
	err = look(ctx)
	if err != nil {
		err = errors.Join(err, product.Stop())
	}
	return err
}

// look reads what tests need to know about the product.
func look(ctx context.Context) error {
	raw, err := os.ReadFile(filepath.Join(product.Dir, "tls-ca.crt"))
	if err != nil {
		return err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return errors.New("there is no certificate in tls-ca.crt")
	}
	if product.authority, err = x509.ParseCertificate(block.Bytes); err != nil {
		return err
	}
	product.issuer = strings.Replace(product.TLSURL, "127.0.0.1", "localhost", 1)
	token, err := product.Login(ctx, "admin", product.AdminPassword)
	product.admin = token.Access
	return err
}

// ask sends a request to the product as the administrator.
func ask(t *testing.T, method, path string, body any, code int) stack.Response {
	t.Helper()
	req := stack.Request{Method: method, Path: path, Token: product.admin}
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		req.Body = raw
	}
	resp, err := product.Do(t.Context(), req)
	if err != nil || resp.Status != code {
		t.Fatalf("%s %s: %d %s %v, want %d", method, path, resp.Status, resp.Body, err, code)
	}
	return resp
}

// create creates an object, and deletes it at the end of the test.
func create(t *testing.T, path string, object map[string]any) {
	t.Helper()
	ask(t, http.MethodPost, path, object, http.StatusCreated)
	forget(t, path+"/"+object["metadata"].(map[string]any)["name"].(string))
}

// forget deletes an object at the end of the test, even if the product created it.
func forget(t *testing.T, path string) {
	t.Helper()
	t.Cleanup(func() {
		_, _ = product.Do(context.Background(), stack.Request{Method: http.MethodDelete, Path: path, Token: product.admin})
	})
}

// configure creates one of the Secrets that configure logins.
func configure(t *testing.T, kind, name, configuration string) {
	t.Helper()
	create(t, secretsPath, map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "config.kubesphere.io/" + kind,
		"metadata":   map[string]any{"name": kind + "-" + name, "namespace": "kubesphere-system", "labels": map[string]any{"config.kubesphere.io/type": kind}},
		"stringData": map[string]any{"configuration.yaml": configuration}})
}

// addProvider configures an identity provider, and returns when it can be used.
func addProvider(t *testing.T, name, configuration string) {
	t.Helper()
	configure(t, "identityprovider", name, configuration)
	await(t, "the provider "+name, func() error {
		resp, err := product.Do(t.Context(), stack.Request{Path: "/kapis/config.kubesphere.io/v1alpha2/identityproviders/" + name, Token: product.admin})
		if err != nil {
			return err
		}
		var p struct {
			Status struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		if err := resp.JSON(&p, http.StatusOK); err != nil {
			return err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == "Reachable" && c.Status == "True" {
				return nil
			}
		}
		return fmt.Errorf("%+v", p.Status)
	})
}

// addUser creates a User, and returns when they can log in. The initial password of a new user counts as set by another user.
func addUser(t *testing.T, name string, isNew bool) {
	t.Helper()
	metadata := map[string]any{"name": name}
	if isNew {
		metadata["annotations"] = map[string]any{"iam.kubesphere.io/uninitialized": "true"}
	}
	create(t, usersPath, map[string]any{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User", "metadata": metadata,
		"spec": map[string]any{"email": name + "@example.com", "password": password}})
	await(t, "the user "+name, func() error {
		var u struct {
			Status struct{ State string }
		}
		resp, err := product.Do(t.Context(), stack.Request{Path: usersPath + "/" + name, Token: product.admin})
		if err != nil {
			return err
		}
		if err := resp.JSON(&u, http.StatusOK); err != nil || u.Status.State == "Active" {
			return err
		}
		return fmt.Errorf("he is %q", u.Status.State)
	})
}

// await retries until there is no error.
func await(t *testing.T, what string, try func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// grant requests tokens as the console does, and returns the code and the members of the answer.
func grant(t *testing.T, form url.Values) (int, map[string]any) {
	t.Helper()
	form.Set("client_id", "kubesphere")
	form.Set("client_secret", "kubesphere")
	resp, err := product.Do(t.Context(), stack.Request{Method: http.MethodPost, Path: "/oauth/token", Body: []byte(form.Encode()),
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}})
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(resp.Body, &answer); err != nil {
		t.Fatalf("%v: %s", err, resp.Body)
	}
	return resp.Status, answer
}

// open opens a browser at a desk or on a phone, for the pages of the product and of a party.
func open(t *testing.T, win chromium.Window, p *party) *chromium.Browser {
	t.Helper()
	return chromium.Open(t, win, browsing, certificate(t), p.Certificate())
}

// certificate returns the one of the product's https address.
func certificate(t *testing.T) *x509.Certificate {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(product.Dir, "tls.crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}
