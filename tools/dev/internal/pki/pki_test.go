package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func authority(t *testing.T, name string) *Authority {
	t.Helper()
	a, err := NewAuthority(name, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *Authority, r Request) (Pair, *x509.Certificate) {
	t.Helper()
	p, err := a.Issue(r, now)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := parseCert(p.Cert)
	if err != nil {
		t.Fatal(err)
	}
	return p, cert
}

func TestIssuedCertificates(t *testing.T) {
	a := authority(t, "ours")
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	_, client := issue(t, a, Request{CommonName: "system:x", Groups: []string{"g1", "g2"}})
	_, server := issue(t, a, Request{CommonName: "server", Names: []string{"127.0.0.1", "localhost"}})
	verify := func(c *x509.Certificate, name string, at time.Time, usage x509.ExtKeyUsage) error {
		_, err := c.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage}})
		return err
	}
	for _, tc := range []struct {
		claim string
		err   error
		good  bool
	}{
		{"ClientsAreTrusted", verify(client, "", now, x509.ExtKeyUsageClientAuth), true},
		{"ClientsCannotServe", verify(client, "", now, x509.ExtKeyUsageServerAuth), false},
		{"ServersAreReachedByAddress", verify(server, "127.0.0.1", now, x509.ExtKeyUsageServerAuth), true},
		{"ServersAreReachedByName", verify(server, "localhost", now, x509.ExtKeyUsageServerAuth), true},
		{"ServersHaveNoOtherName", verify(server, "example.com", now, x509.ExtKeyUsageServerAuth), false},
		{"AClockThatIsBehindIsForgiven", verify(client, "", now.Add(-30*time.Minute), x509.ExtKeyUsageClientAuth), true},
		{"TheyEndAfterAYear", verify(client, "", now.Add(leafLife+time.Second), x509.ExtKeyUsageClientAuth), false},
	} {
		t.Run(tc.claim, func(t *testing.T) {
			if (tc.err == nil) != tc.good {
				t.Errorf("verification: %v", tc.err)
			}
		})
	}
	if client.Subject.CommonName != "system:x" || !slices.Equal(client.Subject.Organization, []string{"g1", "g2"}) {
		t.Errorf("subject %v, want user system:x in g1 and g2", client.Subject)
	}
	if client.IsCA {
		t.Error("an issued certificate could issue more")
	}
}

func TestAnotherAuthorityIsNotTrusted(t *testing.T) {
	a, other := authority(t, "same-name"), authority(t, "same-name")
	serverPair, _ := issue(t, a, Request{CommonName: "s", Names: []string{"127.0.0.1"}})
	serverCert, err := tls.X509KeyPair(serverPair.Cert, serverPair.Key)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(a.cert)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	at := func() time.Time { return now }
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{serverCert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, Time: at,
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	for claim, issuer := range map[string]*Authority{"OursIsAdmitted": a, "AnotherIsRefused": other} {
		t.Run(claim, func(t *testing.T) {
			p, err := issuer.Issue(Request{CommonName: "c"}, now)
			if err != nil {
				t.Fatal(err)
			}
			identity, err := tls.X509KeyPair(p.Cert, p.Key)
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
				RootCAs: clients, Certificates: []tls.Certificate{identity}, Time: at,
			}}}
			resp, err := client.Get(server.URL)
			if err == nil {
				resp.Body.Close()
			}
			if (err == nil) != (issuer == a) {
				t.Errorf("the server answered with error %v", err)
			}
		})
	}
}

func TestEnsureAuthority(t *testing.T) {
	dir := t.TempDir()
	ensure := func(at time.Time) []byte {
		t.Helper()
		a, err := EnsureAuthority(dir, "ca", at)
		if err != nil {
			t.Fatal(err)
		}
		return a.Cert
	}
	first := ensure(now)
	if !bytes.Equal(first, ensure(now.Add(time.Hour))) {
		t.Error("a second start made another authority, which ends all kubeconfigs")
	}
	if bytes.Equal(first, ensure(now.Add(authorityLife))) {
		t.Error("an authority at its end was kept")
	}
	if mode := fileMode(t, filepath.Join(dir, "ca.key")); mode != 0o600 {
		t.Errorf("the authority's key has mode %v", mode)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := EnsureAuthority(dir, "ca", now); err == nil {
		t.Error("a broken file was silently replaced")
	}
}

func TestLoadAuthorityNeedsOne(t *testing.T) {
	if _, err := LoadAuthority(t.TempDir(), "ca"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestEnsure(t *testing.T) {
	a := authority(t, "a")
	request := Request{CommonName: "s", Groups: []string{"g"}, Names: []string{"127.0.0.1"}}
	for _, tc := range []struct {
		claim   string
		issuer  *Authority
		request Request
		at      time.Time
		renewed bool
	}{
		{"WhatIsGoodIsKept", a, request, now.Add(time.Hour), false},
		{"NearItsEndItIsRenewed", a, request, now.Add(leafLife - renewBefore + time.Hour), true},
		{"ANewNameNeedsANewOne", a, Request{CommonName: "s", Groups: []string{"g"}, Names: []string{"127.0.0.1", "localhost"}}, now, true},
		{"ANewUserNeedsANewOne", a, Request{CommonName: "x", Groups: []string{"g"}, Names: request.Names}, now, true},
		{"ANewGroupNeedsANewOne", a, Request{CommonName: "s", Names: request.Names}, now, true},
		{"ANewAuthorityNeedsANewOne", authority(t, "b"), request, now, true},
	} {
		t.Run(tc.claim, func(t *testing.T) {
			dir := t.TempDir()
			before, err := a.Ensure(dir, "s", request, now)
			if err != nil {
				t.Fatal(err)
			}
			after, err := tc.issuer.Ensure(dir, "s", tc.request, tc.at)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(before.Cert, after.Cert) == tc.renewed {
				t.Errorf("renewed: %v, want %v", !tc.renewed, tc.renewed)
			}
			if _, err := tls.X509KeyPair(after.Cert, after.Key); err != nil {
				t.Errorf("certificate and key do not belong together: %v", err)
			}
			stored, err := ReadPair(dir, "s")
			if err != nil || !bytes.Equal(stored.Cert, after.Cert) || !bytes.Equal(stored.Key, after.Key) {
				t.Errorf("the files do not hold what was returned (%v)", err)
			}
		})
	}
}

func TestEnsureKeyKeepsTheKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sa.key")
	var before []byte
	for range 2 {
		if err := EnsureKey(file); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !bytes.Equal(before, data) {
			t.Error("a second start made another key, which ends all service account tokens")
		}
		before = data
	}
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(public)
	if _, err := x509.ParsePKIXPublicKey(block.Bytes); err != nil {
		t.Error(err)
	}
	if mode := fileMode(t, file); mode != 0o600 {
		t.Errorf("the key has mode %v", mode)
	}
}

func TestWriteFileLeavesNothingElseBehind(t *testing.T) {
	dir := t.TempDir()
	for _, content := range []string{"first, which is longer", "second"} {
		if err := WriteFile(filepath.Join(dir, "f"), []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(data) != content {
			t.Errorf("read %q, %v", data, err)
		}
	}
	if mode := fileMode(t, filepath.Join(dir, "f")); mode != 0o640 {
		t.Errorf("mode %v", mode)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left %v", entries)
	}
	if err := WriteFile(filepath.Join(dir, "missing", "f"), nil, 0o600); err == nil {
		t.Error("wrote into a folder that does not exist")
	}
}

func fileMode(t *testing.T, file string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}
