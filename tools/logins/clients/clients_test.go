// Package clients logs in to the product, the real programs and a real control plane, with clients that others wrote: the certified npm
// package openid-client, and github.com/hashicorp/cap. (golang.org/x/oauth2 with coreos/go-oidc is in tools/e2e/identity.)
package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/cap/oidc"
	"golang.org/x/oauth2"
)

func TestOpenIDClientOfNPM(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("install Debian's packages nodejs and npm (make test does)")
	}
	if _, err := os.Stat("node_modules/openid-client"); err != nil {
		if out, err := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund").CombinedOutput(); err != nil {
			t.Fatalf("npm ci: %v\n%s", err, out)
		}
	}
	cmd := exec.CommandContext(t.Context(), node, "rp.mjs")
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+filepath.Join(product.Dir, "tls-ca.crt"), "ISSUER="+issuer,
		"CLIENT_ID="+clientID, "CLIENT_SECRET="+clientSecret, "REDIRECT_URI="+redirectURI, "LOGOUT_URI="+logoutURI)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var faults strings.Builder
	cmd.Stderr = &faults
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	next := func() string {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil {
			_ = cmd.Wait()
			t.Fatalf("the client has ended: %v\n%s", err, faults.String())
		}
		return strings.TrimSpace(line)
	}
	p := newPerson(t)
	fmt.Fprintln(in, p.visit(next(), redirectURI))
	p.letIn(next())
	fmt.Fprintln(in)
	back := p.visit(next(), logoutURI)
	if back.Query().Get("state") != "bye" {
		t.Errorf("after the logout, sent to %s", back)
	}
	fmt.Fprintln(in)
	var got struct {
		Name, Email, Own                         string
		Refreshed, Device, Active, Revoked, Over bool
	}
	if err := json.Unmarshal([]byte(next()), &got); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, lines)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, faults.String())
	}
	if got.Name != user || got.Email != user+"@example.com" || !got.Refreshed || !got.Device || !got.Active || !got.Revoked || !got.Over ||
		!strings.EqualFold(got.Own, "bearer") {
		t.Errorf("%+v", got)
	}
}

func TestHashiCorpCAP(t *testing.T) {
	authority, err := os.ReadFile(filepath.Join(product.Dir, "tls-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := oidc.NewConfig(
		issuer,
		clientID,
		clientSecret,
		[]oidc.Alg{oidc.RS256},
		[]string{redirectURI},
		oidc.WithProviderCA(string(authority)),
		oidc.WithScopes("profile", "email"),
	)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := oidc.NewProvider(config)
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Done()
	verifier, err := oidc.NewCodeVerifier()
	if err != nil {
		t.Fatal(err)
	}
	p := newPerson(t)
	request := func() *oidc.Req {
		r, err := oidc.NewRequest(10*time.Minute, redirectURI, oidc.WithPKCE(verifier), oidc.WithMaxAge(3600))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	land := func(r *oidc.Req) url.Values {
		address, err := provider.AuthURL(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return p.visit(address, redirectURI).Query()
	}
	r := request()
	back := land(r)
	token, err := provider.Exchange(t.Context(), r, back.Get("state"), back.Get("code"))
	if err != nil {
		t.Fatal(err)
	}
	var id, info struct {
		Subject string `json:"sub"`
		Name    string `json:"preferred_username"`
		Email   string `json:"email"`
	}
	if err := token.IDToken().Claims(&id); err != nil || id.Name != user {
		t.Errorf("%+v, %v", id, err)
	}
	source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: string(token.AccessToken())})
	if err := provider.UserInfo(t.Context(), source, id.Subject, &info); err != nil || info != id || info.Email != user+"@example.com" {
		t.Errorf("%+v, %v", info, err)
	}
	if !token.Valid() || token.RefreshToken() == "" {
		t.Error("the token has expired, or can't be refreshed")
	}
	// The library holds the answer to its own request: one to another is refused by it, or by the server.
	other := request()
	back = land(other)
	if _, err := provider.Exchange(t.Context(), r, back.Get("state"), back.Get("code")); err == nil {
		t.Error("the answer to another request is taken")
	}
}
