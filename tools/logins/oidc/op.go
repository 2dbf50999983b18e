// Package oidc starts an OpenID provider that others wrote and had certified (the npm package oidc-provider), and logs in there with the
// provider that the product has.
package oidc

import (
	"bufio"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ClientID is the client_id of the product at the provider.
const ClientID = "kapis"

// Options are the provider's settings for the product.
type Options struct {
	// Dir is this package's folder.
	Dir string
	// Callback is where users return to from a login, Logout where from a logout.
	Callback, Logout string
	// Method is how the product sends its secret, such as client_secret_basic.
	Method string
}

// OP is a running provider on loopback, whose users log in with any password. It ends with the test.
type OP struct {
	// Issuer is its name and its address.
	Issuer string
	// Secret is the product's client secret there.
	Secret string
}

// Start starts a provider. The first one installs what package-lock.json names.
func Start(t *testing.T, o Options) OP {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("install Debian's packages nodejs and npm (make test does)")
	}
	if _, err := os.Stat(filepath.Join(o.Dir, "node_modules/oidc-provider")); err != nil {
		install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
		install.Dir = o.Dir
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("npm ci: %v\n%s", err, out)
		}
	}
	secret := rand.Text()
	cmd := exec.CommandContext(t.Context(), node, "op.mjs")
	cmd.Dir = o.Dir
	cmd.Env = append(os.Environ(), "CLIENT_SECRET="+secret, "AUTH_METHOD="+o.Method, "CALLBACK="+o.Callback, "LOGOUT="+o.Logout)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var faults strings.Builder
	cmd.Stderr = &faults
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	issuer, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("the provider does not start: %v\n%s", err, faults.String())
	}
	return OP{Issuer: strings.TrimSpace(issuer), Secret: secret}
}
