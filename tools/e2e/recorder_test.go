package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kapis.dev/ks-apiserver/tools/stack"
)

// seen is a request as it reached kube-apiserver.
type seen struct {
	method, uri string
	header      http.Header
}

// recorder stands between a replica of its own and the real kube-apiserver: it notes each request, passes it on as the replica's identity, and
// answers in kube-apiserver's place where a test says so.
type recorder struct {
	*httptest.Server
	replica *stack.Replica
	// tls is the replica's HTTPS address.
	tls string

	mu      sync.Mutex
	seen    []seen
	answers []answering
}

// answering is what a test answers in kube-apiserver's place.
type answering struct {
	text string
	with *http.HandlerFunc
}

var recording struct {
	sync.Once
	*recorder
}

// recorded returns the recorder, which all tests share: it begins with the first that asks, and ends with the product.
func recorded(t *testing.T) *recorder {
	t.Helper()
	recording.Do(func() {
		r := &recorder{}
		r.start(t)
		recording.recorder = r
	})
	if recording.recorder == nil {
		t.Fatal("the recorder did not start")
	}
	return recording.recorder
}

func (r *recorder) start(t *testing.T) {
	t.Helper()
	identity := filepath.Join(product.Dir, "ks-apiserver.kubeconfig")
	config, err := clientcmd.BuildConfigFromFlags("", identity)
	if err != nil {
		t.Fatal(err)
	}
	r.Server = httptest.NewUnstartedServer(r.pass(t, config))
	r.EnableHTTP2 = true
	r.StartTLS()
	dir := filepath.Join(product.Dir, "recorder")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	k, err := clientcmd.LoadFromFile(identity)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range k.Clusters {
		c.Server, c.CertificateAuthority = r.URL, ""
		c.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*k, file); err != nil {
		t.Fatal(err)
	}
	// As it is shipped: users reach nothing of this machine.
	text, err := os.ReadFile(filepath.Join(product.Dir, "kubesphere.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	strict := filepath.Join(dir, "kubesphere.yaml")
	if err := os.WriteFile(strict, []byte(strings.Replace(string(text), "allowLoopback: true", "allowLoopback: false", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	port := reservedPort(t)
	if r.replica, err = product.Replica(context.Background(), "--kubeconfig", file, "--config", strict, "--secure-port="+port); err != nil {
		t.Fatal(err)
	}
	r.tls = "https://localhost:" + port
}

// pass notes a request and passes it on over HTTP/1.1, so that upgrades pass as well.
func (r *recorder) pass(t *testing.T, config *rest.Config) http.HandlerFunc {
	t.Helper()
	to, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	tlsConfig.NextProtos = []string{"http/1.1"}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to); p.Out.Host = "" },
		Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableCompression: true, MaxIdleConnsPerHost: 64, TLSNextProto: map[string]func(string,
			*tls.Conn) http.RoundTripper{}, IdleConnTimeout: time.Minute}, // kube-apiserver gives a connection up after 90 seconds
		FlushInterval: -1,
		ErrorLog:      quiet, // watches end with their clients
	}
	return func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.seen = append(r.seen, seen{req.Method, req.RequestURI, req.Header.Clone()})
		var answer http.HandlerFunc
		for _, a := range r.answers { // the last that was set counts
			if strings.Contains(req.RequestURI, a.text) {
				answer = *a.with
			}
		}
		r.mu.Unlock()
		if answer != nil {
			answer(w, req)
			return
		}
		proxy.ServeHTTP(w, req)
	}
}

// as is somebody at the replica.
func (r *recorder) as(c caller) caller { return caller{r.replica.URL, c.token} }

// about returns the requests whose URI has the text in it.
func (r *recorder) about(text string) []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.seen), func(s seen) bool { return !strings.Contains(s.uri, text) })
}

// answer has requests whose URI has the text in it answered by f, until the test ends.
func (r *recorder) answer(t *testing.T, text string, f http.HandlerFunc) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = append(r.answers, answering{text, &f})
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.answers = slices.DeleteFunc(r.answers, func(a answering) bool { return a.with == &f })
	})
}

// metric reads a number of the replica's metrics.
func (r *recorder) metric(ctx context.Context, t *testing.T, name string) (v float64, err error) {
	t.Helper()
	res, err := r.as(admin(t)).do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(res.body) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			_, err := fmt.Sscan(text, &v)
			return v, err
		}
	}
	return 0, fmt.Errorf("no metric %s: %d", name, res.code)
}

// identity is what a request says of who asks, in headers that kube-apiserver or a server that it asks could believe.
func (s seen) identity() http.Header {
	h := http.Header{}
	for k, v := range s.header {
		lower := strings.ToLower(k)
		for _, prefix := range []string{"impersonate-", "x-remote-", "x-kubesphere-", "x-ks-", "authorization", "cookie", "forwarded", "x-forwarded-user"} {
			if strings.HasPrefix(lower, prefix) {
				h[k] = v
			}
		}
	}
	return h
}

// wire is a connection that speaks bytes, for what no library of a client would send.
type wire struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

// dial connects to an http address.
func dial(t *testing.T, base string) *wire {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil { // of a test that fails
		t.Fatal(err)
	}
	return &wire{t, conn, bufio.NewReader(conn)}
}

// say sends bytes. The server may have closed the connection already.
func (w *wire) say(text string) { _, _ = io.WriteString(w.Conn, text) }

// answer reads one answer whole, but for one that switches protocols.
func (w *wire) answer() reply {
	w.t.Helper()
	res, err := http.ReadResponse(w.r, nil)
	if err != nil {
		w.t.Fatalf("no answer: %v", err)
	}
	if res.Close {
		res.Header.Set("Connection", "close") // net/http takes it out
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		return reply{code: res.StatusCode, header: res.Header}
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatalf("half an answer: %v", err)
	}
	return reply{res.StatusCode, res.Header, string(body)}
}

// ended reads to the end of the connection, and fails the test if anything comes before it.
func (w *wire) ended(what string) {
	w.t.Helper()
	rest, err := io.ReadAll(w.r)
	var e net.Error
	if errors.As(err, &e) && e.Timeout() {
		w.t.Errorf("%s: the connection stays open", what)
	}
	if len(rest) > 0 {
		w.t.Errorf("%s: the connection goes on with %q", what, clip(string(rest)))
	}
}

// head is the beginning of a request, as somebody.
func head(method, target string, c caller, lines ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, target, strings.TrimPrefix(c.base, "http://"))
	if c.token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", c.token)
	}
	for _, l := range lines {
		b.WriteString(l + "\r\n")
	}
	return b.String() + "\r\n"
}

// quiet is for servers whose clients leave early or are turned away.
var quiet = log.New(io.Discard, "", 0)

// noticing waits for a text in what a program prints, and calls done then.
type noticing struct {
	text string
	done func()

	mu    sync.Mutex
	found bool
}

func (n *noticing) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.found && strings.Contains(string(b), n.text) {
		n.found = true
		n.done()
	}
	return len(b), nil
}

func (n *noticing) noticed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.found
}
