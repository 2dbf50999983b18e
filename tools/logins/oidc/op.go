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

// ClientID is what the product is registered as at the provider.
const ClientID = "kapis"

// Options say how a provider is to know the product.
type Options struct {
	// Dir is this package's folder.
	Dir string
	// Callback is where people come back to from a login, Logout where from a logout.
	Callback, Logout string
	// Method is how the product shows its secret, such as client_secret_basic.
	Method string
}

// OP is a running provider on loopback, whose people log in with any password. It ends with the test.
type OP struct {
	// Issuer is its name and its address.
	Issuer string
	// Secret is that of the product there.
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
