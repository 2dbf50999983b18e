package idptest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// secrets looks for secrets wherever they could appear: in a provider that is printed, in errors of every kind, in logs.
func (s Suite) secrets(t *testing.T) { // S57
	logs := captureLogs(t)
	w := s.world(t)
	hidden := append([]string{}, w.Secrets...)
	if w.Password != "" {
		hidden = append(hidden, w.Password)
	}
	shows := func(t *testing.T, where, text string, also ...string) {
		t.Helper()
		for _, secret := range append(also, hidden...) {
			if secret != "" && strings.Contains(text, secret) {
				t.Errorf("%s shows a secret: %s", where, text)
			}
		}
	}
	t.Run("APrintedProviderShowsNone", func(t *testing.T) {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			shows(t, verb, fmt.Sprintf(verb, w.provider))
			shows(t, verb+" of an entry", fmt.Sprintf(verb, &idp.Entry{Name: "suite", Provider: w.provider}))
		}
		raw, _ := json.Marshal(w.provider) // an error is fine too
		shows(t, "JSON", string(raw))
	})
	if w.server() {
		t.Run("ErrorsShowNone", func(t *testing.T) { s.secretsInErrors(t, w, shows) })
	}
	t.Run("LogsShowNone", func(t *testing.T) {
		klog.Flush()
		shows(t, "the log", logs.String())
	})
}

// secretsInErrors makes the server fail in many ways; one of them repeats the request.
func (s Suite) secretsInErrors(t *testing.T, w *world, shows func(t *testing.T, where, text string, also ...string)) {
	breaks := map[string]func(){"down": w.line.Down}
	if w.Handler != nil {
		for _, status := range []int{200, 302, 400, 401, 403, 404, 500} {
			breaks[fmt.Sprint("echo ", status)] = func() { w.answer(echo(status)) }
		}
	}
	for name, broken := range breaks {
		for _, q := range w.asks() {
			call := q.prepare()
			broken()
			err := within(t, func() error { return call(t.Context()) })
			w.heal()
			if err == nil && q.name != "Check" { // a server with few endpoints may pass Check
				t.Errorf("%s, %s: no error", name, q.name)
			}
			shows(t, name+", "+q.name, fmt.Sprintf("%v %+v %#v", err, err, err))
		}
	}
	r, ok := w.provider.(idp.Redirect)
	if !ok {
		return
	}
	back := w.arrive(begin())
	w.answer(echo(400))
	_, err := r.Finish(t.Context(), back)
	w.heal()
	shows(t, "a refused callback", fmt.Sprint(err), back.Verifier, back.Values.Get("code"), back.Values.Get("ticket"))
}

// answer has h answer the requests.
func (w *world) answer(h http.HandlerFunc) { w.fault.Store(&h) }

// heal ends all faults.
func (w *world) heal() {
	w.fault.Store(nil)
	w.line.Up()
}

// echo answers with the request, as JSON that looks like an OAuth error.
func echo(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		user, password, _ := r.BasicAuth()
		all := fmt.Sprint(r.URL, " ", string(body), " ", r.Header, " ", user, " ", password)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": all, "error_description": all, "message": all, "issuer": all, "jwks_uri": all,
			"sub": []any{all}})
	}
}

// buffer is a log that goroutines may write concurrently.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// captureLogs captures all logs, of every level, until the test ends.
func captureLogs(t *testing.T) *buffer {
	t.Helper()
	state := klog.CaptureState()
	t.Cleanup(state.Restore)
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL", "v": "10"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	b := &buffer{}
	klog.SetOutput(b)
	return b
}
