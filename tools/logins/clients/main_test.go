package clients

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	clientID     = "library"
	clientSecret = "a-long-secret-of-a-library-0123456789+/%"
	redirectURI  = "https://library.example/cb"
	logoutURI    = "https://library.example/bye"

	user     = "alice"
	password = "Secret-123"

	// patience bounds one request. It is long, since CI machines are slow.
	patience = 3 * time.Minute
)

var (
	product *stack.Stack
	issuer  string
	roots   = x509.NewCertPool()
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ks-clients-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	if err := start(ctx, dir); err != nil {
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
	}
	return code
}

func start(ctx context.Context, dir string) error {
	repo, err := filepath.Abs("../../..")
	if err != nil {
		return err
	}
	bin, err := stack.Build(ctx, repo, true)
	if err != nil {
		return err
	}
	if product, err = stack.Start(ctx, stack.Options{Bin: bin, Dir: filepath.Join(dir, "dev"), Repo: repo, Log: os.Stderr}); err != nil {
		return err
	}
	issuer = strings.Replace(product.TLSURL, "127.0.0.1", "localhost", 1)
	authority, err := os.ReadFile(filepath.Join(product.Dir, "tls-ca.crt"))
	if err == nil && !roots.AppendCertsFromPEM(authority) {
		err = errors.New("tls-ca.crt has no certificate")
	}
	if err == nil {
		err = furnish(ctx)
	}
	if err != nil {
		_ = product.Stop() // how it ends matters no more
	}
	return err
}

// furnish makes the client and the user.
func furnish(ctx context.Context) error {
	kube, err := product.KubeClient()
	if err != nil {
		return err
	}
	text, err := json.Marshal(
		map[string]any{"name": clientID, "secret": clientSecret, "redirectURIs": []string{redirectURI}, "postLogoutRedirectURIs": []string{logoutURI}},
	)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{Type: "config.kubesphere.io/oauthclient", StringData: map[string]string{"configuration.yaml": string(text)}}
	secret.Name, secret.Labels = "oauthclient-library", map[string]string{"config.kubesphere.io/type": "oauthclient"}
	if _, err := kube.CoreV1().Secrets("kubesphere-system").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return err
	}
	admin, err := product.Login(ctx, "admin", product.AdminPassword)
	if err != nil {
		return err
	}
	const users = "/apis/iam.kubesphere.io/v1beta1/users"
	body := fmt.Sprintf(
		`{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"User","metadata":{"name":%q},"spec":{"email":"%s@example.com","password":%q}}`,
		user,
		user,
		password,
	)
	if _, err := product.Do(ctx, stack.Request{Method: http.MethodPost, Path: users, Token: admin.Access, Body: []byte(body)}); err != nil {
		return err
	}
	if err := until(ctx, func() error {
		r, err := product.Do(ctx, stack.Request{Path: users + "/" + user, Token: admin.Access})
		if err == nil && !strings.Contains(string(r.Body), `"state":"Active"`) {
			err = fmt.Errorf("the user is not active: %d %s", r.Status, r.Body)
		}
		return err
	}); err != nil {
		return err
	}
	query := url.Values{"client_id": {clientID}, "response_type": {"code"}, "redirect_uri": {redirectURI}, "state": {"s"}}
	anybody := &http.Client{Transport: wire(), Timeout: patience}
	return until(ctx, func() error { // the server follows the Secrets of clients
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, issuer+"/oauth/authorize?"+query.Encode(), http.NoBody)
		if err != nil {
			return err
		}
		resp, err := anybody.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("the client is not known: %s", resp.Status)
		}
		return nil
	})
}

// until retries until there is no error.
func until(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// wire returns connections that trust the product's authority.
func wire() *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, IdleConnTimeout: time.Minute}
}

// person is a user with a browser, who logs in where asked to, and consents.
type person struct {
	t *testing.T
	http.Client
}

func newPerson(t *testing.T) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &person{t: t, Client: http.Client{Jar: jar, Timeout: patience, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if r.URL.Host == "library.example" {
			return http.ErrUseLastResponse
		}
		return nil
	}, Transport: wire()}}
}

var (
	action = regexp.MustCompile(`<form[^>]* action="([^"]+)"`)
	hidden = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
)

// fetch sends a request, and returns where the browser was sent outside of the product, or the page.
func (p *person) fetch(address string, form url.Values) (at *url.URL, page string, left bool) {
	p.t.Helper()
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, address, body)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := p.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if to, err := resp.Location(); err == nil {
		return to, "", true
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %s %v\n%s", address, resp.Status, err, raw)
	}
	return resp.Request.URL, string(raw), false
}

// answer fills in the form of a page that has a field, or button, of a name.
func (p *person) answer(at *url.URL, page, name string, more url.Values) (*url.URL, string, bool) {
	p.t.Helper()
	for _, f := range strings.SplitAfter(page, "</form>") {
		found := action.FindStringSubmatch(f)
		if found == nil || !strings.Contains(f, `name="`+name+`"`) {
			continue
		}
		to, err := at.Parse(html.UnescapeString(found[1]))
		if err != nil {
			p.t.Fatal(err)
		}
		for _, h := range hidden.FindAllStringSubmatch(f, -1) {
			more.Set(h[1], html.UnescapeString(h[2]))
		}
		return p.fetch(to.String(), more)
	}
	p.t.Fatalf("no form has %s: %s", name, page)
	return nil, "", false
}

// visit goes to an address, logs in where that is asked for, and returns where the browser was sent to.
func (p *person) visit(address, want string) *url.URL {
	p.t.Helper()
	at, page, left := p.fetch(address, nil)
	if !left {
		at, page, left = p.answer(at, page, "username", url.Values{"username": {user}, "password": {password}})
	}
	if !left || !strings.HasPrefix(at.String(), want) {
		p.t.Fatalf("at %s, want %s: %s", at, want, page)
	}
	return at
}

// letIn types the code of a device, and confirms it.
func (p *person) letIn(code string) {
	p.t.Helper()
	at, page, _ := p.fetch(issuer+"/oauth/device", nil)
	at, page, _ = p.answer(at, page, "user_code", url.Values{"user_code": {code}})
	if _, page, _ = p.answer(at, page, "answer", url.Values{"answer": {"allow"}}); !strings.Contains(page, "Connected") {
		p.t.Fatal(page)
	}
}
