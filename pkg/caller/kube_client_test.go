package caller_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

const secretPath = "/api/v1/namespaces/a/secrets/s"

// onlyGet allows ann to get the Secret, by the role reader, and nothing else.
func onlyGet(_ context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
	if u.GetName() == "ann" && r.Verb == "get" && r.Resource == "secrets" && r.Namespace == "a" && r.Name == "s" && r.IsKubernetes {
		return authz.Allow("", "kapis:namespace:reader"), nil
	}
	return authz.Decision{}, nil
}

// answers is a kube-apiserver made of a handler.
type answers http.HandlerFunc

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	f(w, r)
	return w.Result(), nil
}

// inARequest returns the context of a request for something else, which was allowed to ann or bob.
func inARequest(t *testing.T, name string) context.Context {
	ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: name})
	ctx = request.WithInfo(ctx, &request.Info{Resource: "imageconfig"})
	return authz.WithDecision(ctx, authz.Allow("", "kapis:global:all"))
}

func TestAHandlerReadsWithTheCallersRightsToTheObject(t *testing.T) { // S25
	kube := answers(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if d, i := authz.DecisionFrom(ctx), request.InfoFrom(ctx); d.Group != "kapis:namespace:reader" || i.Resource != "secrets" || request.UserFrom(ctx).
			GetName() != "ann" {
			t.Errorf("decision %+v for %+v", d, i)
		}
		if r.Method != http.MethodGet || r.URL.Path != secretPath {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		_, _ = w.Write([]byte(`{"kind":"Secret"}`))
	})
	got, err := caller.Client{authz.Func(onlyGet), kube}.Get(inARequest(t, "ann"), secretPath)
	if err != nil || got.Unredacted() != `{"kind":"Secret"}` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestWhoMayNotReadAnObjectReachesNobody(t *testing.T) { // S25
	kube := answers(func(http.ResponseWriter, *http.Request) { t.Error("kube-apiserver was asked") })
	a := caller.Client{authz.Func(onlyGet), kube}
	for _, c := range []struct{ user, path string }{
		{"bob", secretPath}, {"ann", "/api/v1/namespaces/b/secrets/s"}, {"ann", "/api/v1/namespaces/a/secrets/other"}, {"ann", "/api/v1/namespaces/a/secrets"},
	} {
		if _, err := a.Get(inARequest(t, c.user), c.path); !apierrors.IsForbidden(err) {
			t.Errorf("%s, %s: %v", c.user, c.path, err)
		}
	}
	if _, err := a.Get(t.Context(), secretPath); err == nil {
		t.Error("nobody reads")
	}
	broken := errors.New("roles are not known")
	undecided := authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
		return authz.Decision{}, broken
	})
	if _, err := (caller.Client{undecided, kube}).Get(inARequest(t, "ann"), secretPath); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

func TestWhatKubeAPIServerRefusesIsRefusedInItsWords(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("no role"))
	for name, c := range map[string]struct {
		kube answers
		ok   func(error) bool
	}{
		"Forbidden": {func(w http.ResponseWriter, r *http.Request) { web.WriteError(w, r, forbidden) }, apierrors.IsForbidden},
		"NotAStatus": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, func(err error) bool {
			return err != nil && strings.Contains(err.Error(), "418") && apierrors.ReasonForError(err) == ""
		}},
		"TooLong": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 5<<20))
		}, func(err error) bool { return err != nil && strings.Contains(err.Error(), "more than") }},
	} {
		if _, err := (caller.Client{authz.Func(onlyGet), c.kube}).Get(inARequest(t, "ann"), secretPath); !c.ok(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// kube-apiserver reads the query of a deletion only if there is no body: a dryRun there would be a real deletion.
func TestADeletionSaysAllInItsBody(t *testing.T) {
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("u")}
	o, err := caller.Deletion(secretPath, options, url.Values{"dryRun": {"All"}, "fieldManager": {"x"}})
	const want = `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u"},"dryRun":["All"]}`
	if err != nil || o.Method != http.MethodDelete || o.Path != secretPath || string(o.Body) != want || o.Query != nil || options.DryRun != nil {
		t.Errorf("%+v, %v", o, err)
	}
	a := caller.Client{authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
		return authz.Allow("", ""), nil
	}), answers(func(http.ResponseWriter, *http.Request) { t.Error("kube-apiserver was asked") })}
	o.Query = url.Values{"dryRun": {"All"}}
	if _, err := a.Do(inARequest(t, "ann"), o); err == nil || !strings.Contains(err.Error(), "would not be read") {
		t.Errorf("%v", err)
	}
}

func TestAnOrderTellsWhomItIsFor(t *testing.T) {
	in := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	in.RemoteAddr = "192.0.2.7:1"
	in.Header = http.Header{"User-Agent": {"pages/1"}, "Cookie": {"token=x"}, "Impersonate-User": {"admin"}}
	kube := answers(func(_ http.ResponseWriter, r *http.Request) {
		if r.RemoteAddr != in.RemoteAddr || r.Header.Get("User-Agent") != "pages/1" || len(r.Header) != 2 {
			t.Errorf("%s %v", r.RemoteAddr, r.Header)
		}
	})
	if _, err := (caller.Client{authz.Func(onlyGet), kube}).Do(inARequest(t, "ann"), caller.Order{Method: http.MethodGet, Path: secretPath, For: in}); err != nil {
		t.Error(err)
	}
}

func TestWhatIsDecodedIsWhatAnswersMayShow(t *testing.T) {
	const hash = "$2a$10$secret"
	c := caller.Client{May: authz.AlwaysAllow(), Kube: answers(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"kind":"User","metadata":{"name":"bob","uid":"u","managedFields":[{"manager":"kubectl"}]},
			"spec":{"email":"b@example.com","password":"` + hash + `"}}`))
	})}
	users := schema.GroupResource{Group: "iam.kubesphere.io", Resource: "users"}
	ctx := inARequest(t, "ann")
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "ann", Groups: []string{user.AllAuthenticated}})
	order := caller.Order{Method: http.MethodGet, Path: "/apis/iam.kubesphere.io/v1beta1/users/bob"}
	got := &unstructured.Unstructured{}
	if err := c.Into(ctx, order, users, got); err != nil {
		t.Fatal(err)
	}
	if text, _ := got.MarshalJSON(); strings.Contains(string(text), hash) || strings.Contains(string(text), "managedFields") ||
		got.GetUID() != "u" {
		t.Errorf("got %s", text)
	}
	order.Method = http.MethodPatch
	var number int
	if err := c.Into(ctx, order, users, &number); err == nil || !strings.Contains(err.Error(), "answer to PATCH "+order.Path) ||
		strings.Contains(err.Error(), hash) {
		t.Errorf("an answer that can't be decoded: %v", err)
	}
}
