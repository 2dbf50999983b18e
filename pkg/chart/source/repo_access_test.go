package source_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/source"
)

func repo(url string, c applicationv2.RepoCredential) *applicationv2.Repo {
	return &applicationv2.Repo{ObjectMeta: metav1.ObjectMeta{Name: "museum", Labels: map[string]string{"kubesphere.io/workspace": "w"}},
		Spec: applicationv2.RepoSpec{URL: url, Credential: c}}
}

func ann() applicationv2.RepoCredential {
	return applicationv2.RepoCredential{Username: "ann", Password: "canary"}
}

// keyPair returns a certificate of its own and its key, as PEM.
func keyPair(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ann"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})),
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}))
}

// X32: certificates are verified unless a Repo says otherwise, and the certificates and the key in it are content.
func TestTheCredentialOfARepoIsContent(t *testing.T) {
	s := serve(t, true, answers("apiVersion: v1\nentries: {}\ngenerated: x\n"))
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	certificate, key := keyPair(t)
	for name, c := range map[string]struct {
		credential applicationv2.RepoCredential
		want       string
	}{
		"Unknown":     {applicationv2.RepoCredential{}, source.ReasonUnreachable},
		"NotInsecure": {applicationv2.RepoCredential{InsecureSkipTLSVerify: ptr.To(false)}, source.ReasonUnreachable},
		"Insecure":    {applicationv2.RepoCredential{InsecureSkipTLSVerify: ptr.To(true)}, "<nil>"},
		"Authority":   {applicationv2.RepoCredential{CAFile: authority}, "<nil>"},
		"Base64":      {applicationv2.RepoCredential{CAFile: base64.StdEncoding.EncodeToString([]byte(authority))}, "<nil>"},
		"Another":     {applicationv2.RepoCredential{CAFile: certificate}, source.ReasonUnreachable},
		"Path":        {applicationv2.RepoCredential{CAFile: "/etc/ssl/certs/ca-certificates.crt"}, source.ReasonInvalid},
		"KeyPath":     {applicationv2.RepoCredential{CAFile: authority, CertFile: certificate, KeyFile: "/etc/passwd"}, source.ReasonInvalid},
		"NoKey":       {applicationv2.RepoCredential{CAFile: authority, CertFile: certificate}, source.ReasonInvalid},
		"Pair":        {applicationv2.RepoCredential{CAFile: authority, CertFile: certificate, KeyFile: key}, "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := source.AccessOfRepo(repo(s.URL, c.credential))
			if err == nil {
				err = local.Probe(t.Context(), a)
			}
			if reason(err) != c.want || err != nil && (strings.Contains(err.Error(), "/etc/") || !strings.Contains(err.Error(), "spec.credential")) {
				t.Errorf("%v", err)
			}
		})
	}
}

// X17, X32: a client certificate is shown to the repository alone, wherever a redirect leads.
func TestAClientCertificateStaysWithItsHost(t *testing.T) {
	var mu sync.Mutex
	shown := map[string]int{}
	serveTLS := func(name string, answer http.HandlerFunc) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			shown[name+r.URL.Path] = len(r.TLS.PeerCertificates)
			mu.Unlock()
			answer(w, r)
		}))
		s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	other := serveTLS("other", answers("chart"))
	own := serveTLS("own", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away.tgz" {
			http.Redirect(w, r, other.URL+"/redirected.tgz", http.StatusFound)
			return
		}
		_, _ = w.Write([]byte("chart"))
	})
	certificate, key := keyPair(t)
	a, err := source.AccessOfRepo(repo(own.URL, applicationv2.RepoCredential{CertFile: certificate, KeyFile: key, InsecureSkipTLSVerify: ptr.To(true)}))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{own.URL + "/a.tgz", own.URL + "/away.tgz", other.URL + "/b.tgz"} {
		if raw, err := local.Chart(t.Context(), a, at, ""); err != nil || string(raw) != "chart" {
			t.Errorf("%s: %q %v", at, raw, err)
		}
	}
	for at, want := range map[string]int{"own/a.tgz": 1, "own/away.tgz": 1, "other/redirected.tgz": 0, "other/b.tgz": 0} {
		if got, ok := shown[at]; got != want || !ok {
			t.Errorf("%s was shown %d certificates, want %d", at, got, want)
		}
	}
}

func TestAPasswordLeavesTheURL(t *testing.T) { // X32
	for url, want := range map[string]string{
		"https://ann:canary@charts.example.com/a?b": "https://charts.example.com/a?b ann canary true",
		"https://ann@charts.example.com":            "https://charts.example.com ann  true",
		"https://:canary%2F@charts.example.com":     "https://charts.example.com  canary/ true",
		"https://@charts.example.com":               "https://charts.example.com   true",
		"https://charts.example.com/@":              "https://charts.example.com/@ u p false",
		"https://a b@c":                             "https://a b@c u p false",
		"":                                          " u p false",
	} {
		spec := applicationv2.RepoSpec{URL: url, Credential: applicationv2.RepoCredential{Username: "u", Password: "p"}}
		moved := source.WithoutUserinfo(&spec)
		got := spec.URL + " " + spec.Credential.Username + " " + spec.Credential.Password + map[bool]string{true: " true", false: " false"}[moved]
		if got != want {
			t.Errorf("%q: %q, want %q", url, got, want)
		}
	}
}

func TestWhetherACredentialWasWrittenForAnAddress(t *testing.T) { // S66
	const at = "https://charts.example.com/stable"
	for other, want := range map[string]bool{
		at: true, at + "/": true, "https://CHARTS.example.com:443/stable": true, "http://charts.example.com/stable": false,
		"https://charts.example.com:8443/stable": false, "https://charts.example.com.evil.example/stable": false, "https://charts.example.com/other": false,
		"https://charts.example.com/stable%2F..": false, "": false, "https://ann:p@charts.example.com/stable": false,
		"https://evil.example\\@charts.example.com/stable": false,
	} {
		if source.SameAddress(at, other) != want || source.SameAddress(other, at) != want {
			t.Errorf("%q: want %t", other, want)
		}
	}
}

// X32: whether there is an index is told in little memory, and tells nothing of what is there instead.
func TestAnIndexIsLookedAt(t *testing.T) {
	padding := strings.Repeat("# canary\n", 1<<18)
	for name, c := range map[string]struct {
		body string
		want string
	}{
		"Index":     {"apiVersion: v1\nentries: {}\n", "<nil>"},
		"JSON":      {`{"apiVersion":"v1","entries":{}}`, "<nil>"},
		"Large":     {"apiVersion: v1\nentries:\n" + padding, "<nil>"},
		"LargePage": {"<html>" + padding, source.ReasonInvalid},
		"Page":      {"<html>canary</html>", source.ReasonInvalid},
		"Empty":     {"", source.ReasonInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, false, answers(c.body))
			a, err := source.AccessOfRepo(repo(s.URL, ann()))
			if err != nil {
				t.Fatal(err)
			}
			if err := local.Probe(t.Context(), a); reason(err) != c.want || err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("%v", err)
			}
			if got := s.requests(); got != "/index.yaml ann:canary" {
				t.Errorf("%s", got)
			}
		})
	}
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
	})
	a, err := source.AccessOfRepo(repo(s.URL, ann()))
	if err == nil {
		err = local.Probe(t.Context(), a)
	}
	if reason(err) != source.ReasonRefused {
		t.Errorf("%v", err)
	}
}

// repos are the Repos of a cluster.
type repos map[string]*applicationv2.Repo

func (r repos) Repo(_ context.Context, name string) (*applicationv2.Repo, error) {
	if name == "down" {
		return nil, errors.New("the cluster is down")
	}
	return r[name], nil
}

func ofRepo(repo, workspace, url, digest string) *applicationv2.ApplicationVersion {
	return &applicationv2.ApplicationVersion{ObjectMeta: metav1.ObjectMeta{Name: repo + "-" + workspace + strings.Trim(url, "/:."), ResourceVersion: "1",
		Labels: map[string]string{"application.kubesphere.io/repo-name": repo, "kubesphere.io/workspace": workspace}},
		Spec: applicationv2.ApplicationVersionSpec{PullURL: url, Digest: digest}}
}

func TestAPackageIsWhereItsVersionSays(t *testing.T) { // X28, X32
	s := serve(t, false, answers("chart"))
	packages := source.NewPackages(local, repos{"museum": repo(s.URL, ann()), "userinfo": repo("http://ann:canary@a.example.com", ann())}, time.Now)
	digest := chart.Digest([]byte("chart"))
	for name, c := range map[string]struct {
		v    *applicationv2.ApplicationVersion
		want string
	}{
		"Relative":         {ofRepo("museum", "w", "own1.tgz", digest), "<nil>"},
		"Absolute":         {ofRepo("museum", "w", s.URL+"/own2.tgz", ""), "<nil>"},
		"OtherDigest":      {ofRepo("museum", "w", "own3.tgz", strings.Repeat("a", 64)), source.ReasonDigest},
		"AnotherWorkspace": {ofRepo("museum", "v", s.URL+"/foreign1.tgz", ""), "<nil>"}, // as anybody reads it
		"AnotherRelative":  {ofRepo("museum", "v", "foreign2.tgz", ""), source.ReasonInvalid},
		"Gone":             {ofRepo("gone", "w", s.URL+"/foreign3.tgz", ""), "<nil>"},
		"Upload":           {ofRepo("upload", "w", s.URL+"/foreign4.tgz", ""), source.ReasonInvalid},
		"None":             {ofRepo("", "w", s.URL+"/foreign5.tgz", ""), source.ReasonInvalid},
		"Userinfo":         {ofRepo("userinfo", "w", s.URL+"/foreign6.tgz", ""), source.ReasonInvalid},
		"File":             {ofRepo("museum", "w", "file:///etc/passwd", ""), source.ReasonInvalid},
		"Nowhere":          {ofRepo("museum", "w", "", ""), source.ReasonInvalid},
		"Cluster":          {ofRepo("down", "w", "a", ""), "the cluster is down"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := packages.Get(t.Context(), c.v)
			if reason(err) != c.want || (err == nil) != (string(raw) == "chart") || err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("%q %v", raw, err)
			}
		})
	}
	for _, asked := range strings.Split(s.requests(), ", ") {
		if strings.Contains(asked, "canary") == strings.Contains(asked, "foreign") {
			t.Errorf("asked %s", asked)
		}
	}
}

// X32, X37: a package is read once a digest, and a digest opens nothing of another Repo.
func TestAPackageIsReadOnceADigest(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 1000)
	fail := false
	s := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		if fail {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(content)
	})
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	other := repo(s.URL, applicationv2.RepoCredential{})
	other.Name = "other"
	packages := source.NewPackages(local, repos{"museum": repo(s.URL, ann()), "other": other}, func() time.Time { return now })
	digest := chart.Digest(content)
	reads := func() int { return len(strings.Split(s.requests(), ", ")) }
	for range 3 {
		if raw, err := packages.Get(t.Context(), ofRepo("museum", "w", "a.tgz", digest)); err != nil || !bytes.Equal(raw, content) {
			t.Fatal(err)
		}
	}
	if reads() != 1 {
		t.Errorf("it was read %d times", reads())
	}
	fail = true
	stolen := ofRepo("other", "w", "stolen.tgz", digest)
	if raw, err := packages.Get(t.Context(), stolen); err == nil {
		t.Errorf("whoever knows a digest gets %d bytes of another Repo", len(raw))
	}
	before := reads()
	if _, err := packages.Get(t.Context(), stolen); err == nil || reads() != before {
		t.Errorf("a failure is not remembered: %v", err)
	}
	fail = false
	now = now.Add(time.Minute)
	if _, err := packages.Get(t.Context(), stolen); err != nil {
		t.Errorf("a failure stays: %v", err)
	}
}

// X32: whatever people write as a URL, no user and no password stay in it, and none is in what is said of it.
func FuzzURLsOfRepos(f *testing.F) {
	for _, seed := range []string{"https://ann:canary@charts.example.com/a", "http://:canary@[::1]:80", "https://canary@@a", "//ann:canary@a", "https://a%40b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec := applicationv2.RepoSpec{URL: text}
		moved := source.WithoutUserinfo(&spec)
		if u, err := url.Parse(spec.URL); moved && (err != nil || u.User != nil) {
			t.Errorf("%q becomes %q", text, spec.URL)
		}
		_, err := source.AccessOfRepo(&applicationv2.Repo{Spec: spec})
		if err != nil && strings.Contains(spec.Credential.Password, "canary") && strings.Contains(err.Error(), "canary") {
			t.Errorf("%q is told: %v", text, err)
		}
		if err == nil && !source.SameAddress(spec.URL, spec.URL) {
			t.Errorf("%q is not itself", spec.URL)
		}
	})
}
