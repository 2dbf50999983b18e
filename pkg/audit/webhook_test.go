package audit

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// patience is how long a test waits for what has to come.
const patience = time.Minute

// goldenEvent has every field that an event may have.
func goldenEvent() *Event {
	at := time.Date(2026, 11, 23, 10, 0, 0, 123456000, time.UTC)
	e := &Event{
		ID: "0f1e2d3c", Level: auditv1.LevelMetadata, Stage: auditv1.StageResponseComplete, URI: "/apis/apps/v1/namespaces/a/deployments/web",
		Verb: "update", UserAgent: `kubectl "1.37"`, Username: "bob", UID: "uid-bob", Groups: []string{"system:authenticated"},
		Sources: []string{"192.0.2.1", "192.0.2.2"}, Code: 200, Received: at, At: at.Add(time.Second), Workspace: "w", Cluster: "host",
		Scope: "Namespace", Decision: "allow", Reason: "kapis:global:platform-admin",
		Object: auditv1.ObjectReference{Resource: "deployments", Namespace: "a", Name: "web", APIGroup: "apps", APIVersion: "v1", Subresource: "scale"},
	}
	e.Annotate("terminal.kapis.dev/session", "s1")
	return e
}

// O15: what is posted is, byte by byte, what receivers of each form read.
func TestWebhookBodiesAreThoseOfTheirShape(t *testing.T) {
	login := event("/oauth/token")
	login.Received, login.At = goldenEvent().Received, goldenEvent().At
	login.SetLogin(VerbLogin, "password", "")
	login.SetUser("", "")
	for name, c := range map[string]struct {
		shape  Shape
		encode Encode
	}{
		"kubernetes":  {ShapeKubernetes, AppendJSON},
		"kubesphere4": {ShapeKubeSphere4, kubesphere4("ks-apiserver-0", "192.0.2.9")},
		"kubesphere3": {ShapeKubeSphere3, kubesphere3},
	} {
		lines := append(c.encode(nil, goldenEvent()), '\n')
		lines = append(c.encode(lines, login), '\n')
		got := frames[c.shape].body(lines)
		want, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if want = bytes.TrimSuffix(want, []byte{'\n'}); !bytes.Equal(got, want) {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
	}
	var list auditv1.EventList
	body := frames[ShapeKubernetes].body(append(AppendJSON(nil, goldenEvent()), '\n'))
	if err := json.Unmarshal(body, &list); err != nil || len(list.Items) != 1 || list.Items[0].User.Username != "bob" {
		t.Errorf("%v: %s", err, body)
	}
}

// receiver is a webhook that records what it accepts.
type receiver struct {
	*httptest.Server
	answer func(w http.ResponseWriter, r *http.Request, attempt int) bool // reports whether the batch is accepted

	mu       sync.Mutex
	attempts int
	keys     []string
	events   chan auditv1.Event
}

func receive(t *testing.T, start func(http.Handler) *httptest.Server,
	answer func(http.ResponseWriter, *http.Request, int) bool,
) *receiver {
	t.Helper()
	v := &receiver{answer: answer, events: make(chan auditv1.Event, 2*maxQueuedEvents)}
	v.Server = start(v)
	t.Cleanup(v.Close)
	return v
}

func (v *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) //nolint:errcheck // then it is no JSON
	v.mu.Lock()
	v.attempts++
	n := v.attempts
	v.keys = append(v.keys, r.Header.Get("Idempotency-Key"))
	v.mu.Unlock()
	if !v.answer(w, r, n) {
		return
	}
	var list auditv1.EventList
	if json.Unmarshal(body, &list) != nil || r.Header.Get("Content-Type") != "application/json" || len(list.Items) > maxBatchEvents {
		list.Items = append(list.Items, auditv1.Event{Verb: "broken"})
	}
	for _, e := range list.Items {
		v.events <- e
	}
}

func (v *receiver) next(t *testing.T) auditv1.Event {
	t.Helper()
	select {
	case e := <-v.events:
		return e
	case <-time.After(patience):
		t.Fatal("no event arrives")
		return auditv1.Event{}
	}
}

func accept(http.ResponseWriter, *http.Request, int) bool { return true }

// startWebhook returns a webhook that runs, and what stops it and waits for its end.
func startWebhook(t *testing.T, o WebhookOptions) (*Webhook, func()) {
	t.Helper()
	at := time.Now() // what was dropped stays recent
	o.Shape, o.Metrics, o.Now = ShapeKubernetes, newMetrics(t), func() time.Time { return at }
	if o.Batch == 0 {
		o.Batch, o.Senders = 1, 1
	}
	w, err := NewWebhook(o)
	if err != nil {
		t.Fatal(err)
	}
	w.minRetry, w.maxRetry, w.stopTimeout = time.Millisecond, 4*time.Millisecond, 50*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { w.Run(ctx) })
	stop := func() { cancel(); run.Wait() }
	t.Cleanup(stop)
	return w, stop
}

func (w *Webhook) lostFor(reason string) float64 {
	return testutil.ToFloat64(w.metrics.dropped.WithLabelValues(backendWebhook, reason))
}

// O16, O17: a batch is sent again until it arrives, with one key, however the webhook fails; nothing is lost or comes twice.
func TestWebhookSendsUntilItArrives(t *testing.T) {
	v := receive(t, httptest.NewServer, func(w http.ResponseWriter, _ *http.Request, attempt int) bool {
		switch attempt {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			w.WriteHeader(http.StatusTooManyRequests)
		case 3:
			w.WriteHeader(http.StatusRequestTimeout)
		case 4:
			panic(http.ErrAbortHandler)
		}
		return attempt > 4
	})
	w, _ := startWebhook(t, WebhookOptions{URL: v.URL})
	w.Record(event("/first"))
	if got := v.next(t).RequestURI; got != "/first" {
		t.Errorf("got %s", got)
	}
	w.Record(event("/second"))
	if got := v.next(t).RequestURI; got != "/second" {
		t.Errorf("got %s", got)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.keys) != 6 || v.keys[0] == "" || v.keys[0] != v.keys[4] || v.keys[4] == v.keys[5] {
		t.Errorf("keys of the attempts: %q", v.keys)
	}
}

// O16, O17: what a connection leads to may be gone without a word, so that an attempt which times out is not repeated on it.
func TestWebhookLeavesAConnectionThatHangs(t *testing.T) {
	type key struct{}
	var connections atomic.Int64
	hangs := make(chan struct{})
	start := func(h http.Handler) *httptest.Server {
		srv := httptest.NewUnstartedServer(h)
		srv.EnableHTTP2 = true
		srv.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, key{}, connections.Add(1))
		}
		srv.StartTLS()
		return srv
	}
	v := receive(t, start, func(_ http.ResponseWriter, r *http.Request, attempt int) bool {
		if attempt > 1 && r.Context().Value(key{}) == int64(1) {
			<-hangs
		}
		return true
	})
	t.Cleanup(func() { close(hangs) })
	w, stop := startWebhook(t, WebhookOptions{URL: v.URL, SkipVerify: true})
	defer stop()
	w.client.Timeout = 200 * time.Millisecond
	for _, uri := range []string{"/first", "/second"} {
		w.Record(event(uri))
		if got := v.next(t).RequestURI; got != uri {
			t.Errorf("got %s", got)
		}
	}
}

// O17: what a webhook refuses is counted, told by /readyz, and holds nothing else up; a redirect isn't followed.
func TestWebhookCountsWhatIsRefused(t *testing.T) {
	other := receive(t, httptest.NewServer, accept)
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"BadRequest": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) },
		"Redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{})
			v := receive(t, httptest.NewServer, func(w http.ResponseWriter, r *http.Request, attempt int) bool {
				if attempt == 1 {
					close(asked)
					answer(w, r)
				}
				return attempt > 1
			})
			w, stop := startWebhook(t, WebhookOptions{URL: v.URL})
			w.Record(event("/refused"))
			<-asked
			w.Record(event("/accepted"))
			if got := v.next(t).RequestURI; got != "/accepted" {
				t.Errorf("got %s", got)
			}
			stop()
			if n := w.lostFor("refused"); n != 1 || w.Fault() == nil {
				t.Errorf("%v events are counted, fault %v", n, w.Fault())
			}
		})
	}
	if other.attempts != 0 {
		t.Error("a redirect was followed")
	}
}

// O16, O17: while a webhook does not answer, what waits is bounded; the rest is counted, told by /readyz, and by an event afterwards.
func TestWebhookThatHangsTakesBoundedMemory(t *testing.T) {
	hang, asked := make(chan struct{}), make(chan struct{}, 1)
	v := receive(t, httptest.NewServer, func(_ http.ResponseWriter, r *http.Request, attempt int) bool {
		if attempt == 1 {
			asked <- struct{}{}
			<-hang
		}
		return true
	})
	w, _ := startWebhook(t, WebhookOptions{URL: v.URL, Batch: 100, Senders: 4, Interval: time.Millisecond})
	w.Record(event("/first"))
	<-asked
	for range maxQueuedEvents + 7 {
		w.Record(event("/later"))
	}
	if n := w.lostFor("full"); n != 8 || w.Fault() == nil { // the one that is being sent counts
		t.Errorf("%v events are counted as dropped, fault %v", n, w.Fault())
	}
	close(hang)
	told := ""
	for range maxQueuedEvents + 1 {
		if e := v.next(t); e.Verb == "dropped" {
			told += e.Annotations["kapis.dev/dropped"]
		}
	}
	if told != "8" {
		t.Errorf("got %q told as dropped, want 8", told)
	}
}

// An answer without an end holds nothing up.
func TestWebhookReadsNoEndlessAnswer(t *testing.T) {
	v := receive(t, httptest.NewServer, func(w http.ResponseWriter, r *http.Request, attempt int) bool {
		for attempt == 1 && r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				break
			}
		}
		return true
	})
	w, _ := startWebhook(t, WebhookOptions{URL: v.URL})
	w.Record(event("/first"))
	if got := v.next(t).RequestURI; got != "/first" {
		t.Errorf("got %s", got)
	}
}

// A stop ends in time, though the webhook is down, and counts what is left.
func TestWebhookThatIsDownHoldsUpNoStop(t *testing.T) {
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	w, stop := startWebhook(t, WebhookOptions{URL: down.URL + "?key=Canary-73"})
	w.Record(event("/first"))
	w.Record(event("/second"))
	stop()
	if n := w.lostFor("stop"); n != 2 || w.Fault() == nil || strings.Contains(w.Fault().Error(), "Canary") {
		t.Errorf("%v events are counted as lost, fault %v", n, w.Fault())
	}
}

// Nothing is sent to a server whose certificate is not by a known authority; with it, the token and the client's certificate are shown.
func TestWebhookVerifiesItsServer(t *testing.T) {
	v := receive(t, func(h http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
		s.StartTLS()
		return s
	}, func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		return r.Header.Get("Authorization") == "Bearer Canary-72" && len(r.TLS.PeerCertificates) == 1
	})
	folder := t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := x509.MarshalPKCS8PrivateKey(v.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert := file("cert", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.Certificate().Raw}))
	o := WebhookOptions{
		URL: v.URL, CertFile: cert, KeyFile: file("key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		TokenFile: file("token", []byte("Canary-72\n")),
	}
	w, stop := startWebhook(t, o)
	w.Record(event("/a"))
	stop()
	if n := w.lostFor("stop"); n != 1 || v.attempts != 0 || w.Fault() == nil || strings.Contains(w.Fault().Error(), "Canary") {
		t.Errorf("%v events are lost, %d requests arrive, fault %v", n, v.attempts, w.Fault())
	}
	o.CAFile = cert
	w, _ = startWebhook(t, o)
	w.Record(event("/b"))
	if got := v.next(t).RequestURI; got != "/b" {
		t.Errorf("got %s", got)
	}

	http := "http" + strings.TrimPrefix(v.URL, "https")
	for name, o := range map[string]WebhookOptions{
		"NoURL":           {URL: "webhook"},
		"OtherScheme":     {URL: "ftp://webhook"},
		"User":            {URL: "https://a:b@webhook"},
		"TokenOverHTTP":   {URL: http, TokenFile: o.TokenFile},
		"CertOverHTTP":    {URL: http, CertFile: o.CertFile, KeyFile: o.KeyFile},
		"NoCA":            {URL: v.URL, CAFile: o.TokenFile},
		"NoKey":           {URL: v.URL, CertFile: o.CertFile},
		"KeyOfAnother":    {URL: v.URL, CertFile: o.CertFile, KeyFile: o.TokenFile},
		"NoToken":         {URL: v.URL, TokenFile: file("empty", nil)},
		"NoFileOfTheName": {URL: v.URL, TokenFile: filepath.Join(folder, "none")},
	} {
		o.Shape = ShapeKubernetes
		_, err := NewWebhook(o)
		if err == nil || !strings.Contains(err.Error(), "auditing.webhookOptions") || strings.Contains(err.Error(), "a:b") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A batch has at most 400 events and 8 MiB, and at least one event.
func TestBatchesAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ length, lines, wantEvents int }{
		"Few":       {100, 7, 7},
		"Many":      {100, 1000, maxBatchEvents},
		"Long":      {maxBatchBytes / 3, 10, 3},
		"OneTooBig": {maxBatchBytes + 1, 2, 1},
	} {
		line := append(bytes.Repeat([]byte{'x'}, c.length-1), '\n')
		got, size := batch(bytes.Repeat(line, c.lines))
		if got != c.wantEvents || size != got*c.length {
			t.Errorf("%s: got %d events of %d bytes, want %d", name, got, size, c.wantEvents)
		}
	}
}
