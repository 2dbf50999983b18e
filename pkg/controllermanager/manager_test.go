package controllermanager

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"kapis.dev/ks-apiserver/pkg/admission"
	"kapis.dev/ks-apiserver/pkg/controller/resourcequota"
	"kapis.dev/ks-apiserver/tools/pace"
)

// work is a manager that works until its context or its work has ended.
type work struct {
	manager.Manager
	begun chan context.Context
	done  chan struct{}
}

func (w work) Start(ctx context.Context) error {
	w.begun <- ctx
	select {
	case <-ctx.Done():
	case <-w.done:
	}
	return nil
}

// kube-apiserver is told by the readiness that it is to call the webhooks elsewhere, and the webhooks answer until it has had time to.
func TestAStopIsAnnouncedBeforeTheWorkEnds(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Hour} {
		w := work{begun: make(chan context.Context, 1), done: make(chan struct{})}
		m := &Manager{mgr: w, delay: delay}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		working := <-w.begun
		if err := m.fault(nil); err != nil {
			t.Errorf("before the stop it is not ready: %v", err)
		}
		stop()
		if err := pace.Until(t.Context(), time.Minute, func(context.Context) error {
			if m.fault(nil) == nil {
				return errors.New("it is ready")
			}
			return nil
		}); err != nil {
			t.Errorf("after the stop: %v", err)
		}
		if delay > 0 {
			if working.Err() != nil {
				t.Errorf("the work has ended before %v were over", delay)
			}
			close(w.done)
		}
		if err := <-ended; err != nil {
			t.Errorf("a clean stop ended with %v", err)
		}
	}
}

// rightsServer is a kube-apiserver that has one role and one binding, until removed is closed. It has no other kinds.
func rightsServer(t *testing.T) (host string, removed chan struct{}) {
	t.Helper()
	const meta = `{"apiVersion":"iam.kubesphere.io/v1beta1","metadata":{"name":"reader","uid":"u","resourceVersion":"5"},`
	objects := map[string]string{
		"globalroles": meta + `"kind":"GlobalRole",` + ruled[1:],
		"globalrolebindings": meta + `"kind":"GlobalRoleBinding",` +
			`"roleRef":{"apiGroup":"iam.kubesphere.io","kind":"GlobalRole","name":"reader"},` +
			`"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"ann"}]}`,
	}
	removed = make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := path.Base(r.URL.Path)
		object, served := objects[kind]
		w.Header().Set("Content-Type", "application/json")
		switch q := r.URL.Query(); {
		case !served:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		case q.Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case q.Get("watch") == "":
			_, _ = io.WriteString(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[`+object+`]}`)
		default:
			_ = http.NewResponseController(w).Flush()
			if kind == "globalrolebindings" {
				select {
				case <-removed:
					gone := strings.Replace(object, `"resourceVersion":"5"`, `"resourceVersion":"6"`, 1)
					_, _ = io.WriteString(w, `{"type":"DELETED","object":`+gone+"}\n")
					_ = http.NewResponseController(w).Flush()
				case <-r.Context().Done():
				}
			}
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, removed
}

// While a stop waits, kube-apiserver still calls the webhooks of this replica: they decide by the rights of now.
func TestARightThatEndsDuringAStopAllowsNothingMore(t *testing.T) { // S6
	host, removed := rightsServer(t)
	ctx, stop := context.WithCancel(t.Context())
	h := &webhooks{known: admission.NewCache(), limits: resourcequota.NewLimits()}
	if err := h.follow(ctx, &rest.Config{Host: host}); err != nil {
		t.Fatal(err)
	}
	guard := &escalationWebhook{ready: h.ready, guard: &admission.Guard{Holdings: h.index, Known: h.known,
		Native: func(context.Context, user.Info, string, schema.GroupVersionResource, string, string) (bool, error) {
			return false, nil
		}}}
	until := func(code int32) {
		t.Helper()
		if err := pace.Until(t.Context(), time.Minute, func(ctx context.Context) error {
			if r := guard.Handle(ctx, reviewOf(admissionv1.Create, "globalroles", ruled)).Result; r.Code != code {
				return errors.New(r.Message)
			}
			return nil
		}); err != nil {
			t.Fatalf("the answer is not %d: %v", code, err)
		}
	}
	w := work{begun: make(chan context.Context, 1), done: make(chan struct{})}
	m := &Manager{mgr: w, hooks: h, delay: time.Hour}
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	until(http.StatusOK)
	stop()
	close(removed)
	until(http.StatusForbidden)
	close(w.done)
	if err := <-ended; err != nil {
		t.Errorf("a clean stop ended with %v", err)
	}
	h.store.Wait() // returns, since Run has ended the feeds
}

func TestANegativeDelayIsRefused(t *testing.T) {
	if _, err := New(t.Context(), nil, Options{ShutdownDelay: -time.Second}); err == nil || !strings.Contains(err.Error(), "--shutdown-delay-duration") {
		t.Errorf("%v, want an error that names the flag", err)
	}
}

func TestATakenAddressIsToldBeforeAnythingStarts(t *testing.T) {
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	if err := free(t.Context(), address); err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("taken: %v, want an error that names %s", err, address)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{address, "0", ""} {
		if err := free(t.Context(), a); err != nil {
			t.Errorf("%q: %v", a, err)
		}
	}
}
