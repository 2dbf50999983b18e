package webhook_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/webhook"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
)

const (
	longestReason = 1 << 10 // bytes of a reason that are passed on
	longestAnswer = 1 << 20 // bytes that are read of an answer
)

var ann = &user.DefaultInfo{
	Name: "ann", UID: "uid-1", Groups: []string{"ops", user.AllAuthenticated},
	Extra: map[string][]string{"example.com/team": {"x"}, webhook.ExtraWorkspace: {"forged"}, webhook.ExtraScope: {"forged"}},
}

type service struct {
	*httptest.Server
	asked   atomic.Int64
	last    atomic.Pointer[authorizationv1.SubjectAccessReview]
	answers func(w http.ResponseWriter, asked int64)
}

// says answers each review with a status.
func says(status string) func(http.ResponseWriter, int64) {
	return func(w http.ResponseWriter, _ int64) {
		fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":%s}`, status)
	}
}

func serve(t testing.TB, answers func(http.ResponseWriter, int64)) *service {
	t.Helper()
	s := &service{answers: answers}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &authorizationv1.SubjectAccessReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil || r.Method != http.MethodPost || r.URL.Path != "/authorize" {
			t.Errorf("asked by %s %s: %v", r.Method, r.URL, err)
		}
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			t.Error("the kubeconfig's credentials are missing")
		}
		s.last.Store(review)
		s.answers(w, s.asked.Add(1))
	}))
	t.Cleanup(s.Close)
	return s
}

// kubeconfig writes one that names a server and trusts a certificate.
func kubeconfig(t testing.TB, server string, ca *x509.Certificate) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "webhook.kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c,
  clusters: [{name: c, cluster: {server: %q, certificate-authority: ca.pem}}],
  users: [{name: c, user: {token: t0ken}}], contexts: [{name: c, context: {cluster: c, user: c}}]}`, server)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func authorizer(t testing.TB, s *service, change func(*webhook.Options)) *webhook.Authorizer {
	t.Helper()
	now := time.Now()
	o := webhook.Options{
		Kubeconfig: kubeconfig(t, s.URL+"/authorize", s.Certificate()), Timeout: 10 * time.Second,
		WorkspaceOf: func(namespace string) string { return map[string]string{"shop": "a"}[namespace] },
		Metrics:     prometheus.NewRegistry(), Now: func() time.Time { return now },
	}
	if change != nil {
		change(&o)
	}
	a, err := webhook.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAnswersDecide(t *testing.T) {
	for _, c := range []struct {
		claim, status string
		want          authz.Decision
	}{
		{"Allowed", `{"allowed":true,"reason":"on call"}`, authz.Allow("allowed by the authorization webhook: on call", "")},
		{"AllowedWithoutAReason", `{"allowed":true}`, authz.Allow("allowed by the authorization webhook", "")},
		{"Denied", `{"allowed":false,"denied":true,"reason":"freeze"}`, authz.Deny("forbidden by the authorization webhook: freeze")},
		{"BothIsDenied", `{"allowed":true,"denied":true}`, authz.Deny("forbidden by the authorization webhook")},
		{"NoOpinion", `{"allowed":false}`, authz.Decision{}},
		{"NoOpinionWithAReason", `{"allowed":false,"reason":"not mine"}`, authz.Decision{Reason: "the authorization webhook does not allow it: not mine"}},
		{"AnErrorOfItsOwnIsNoOpinion", `{"allowed":false,"evaluationError":"oops"}`, authz.Decision{}},
		{"ALongReasonIsCut", `{"allowed":true,"reason":"` + strings.Repeat("x", 4096) + `"}`,
			authz.Allow("allowed by the authorization webhook: "+strings.Repeat("x", longestReason), "")},
	} {
		t.Run(c.claim, func(t *testing.T) {
			a := authorizer(t, serve(t, says(c.status)), nil)
			if d, err := a.Authorize(t.Context(), ann, requesttest.Info(t, "GET", "/api/v1/pods")); err != nil || d != c.want {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}

func TestTheServiceIsAskedWhatTheRequestIs(t *testing.T) {
	s := serve(t, says(`{}`))
	a := authorizer(t, s, nil)
	for _, c := range []struct {
		method, at, scope, workspace string
		want                         *authorizationv1.ResourceAttributes
	}{
		{"DELETE", "/apis/apps/v1/namespaces/shop/deployments/web/scale", "namespace", "a", &authorizationv1.ResourceAttributes{
			Namespace: "shop", Verb: "delete", Group: "apps", Version: "v1", Resource: "deployments", Subresource: "scale", Name: "web"}},
		{"GET", "/api/v1/namespaces/other/pods", "namespace", "", &authorizationv1.ResourceAttributes{Namespace: "other", Verb: "list", Version: "v1",
			Resource: "pods"}},
		{"POST", "/kapis/iam.kubesphere.io/v1beta1/workspaces/w/workspacemembers", "workspace", "w", &authorizationv1.ResourceAttributes{
			Verb: "create", Group: "iam.kubesphere.io", Version: "v1beta1", Resource: "workspacemembers"}},
		{"GET", "/api/v1/nodes", "cluster", "", &authorizationv1.ResourceAttributes{Verb: "list", Version: "v1", Resource: "nodes"}},
		{"GET", "/kapis/iam.kubesphere.io/v1beta1/users/bob", "platform", "", &authorizationv1.ResourceAttributes{
			Verb: "get", Group: "iam.kubesphere.io", Version: "v1beta1", Resource: "users", Name: "bob"}},
	} {
		if _, err := a.Authorize(t.Context(), ann, requesttest.Info(t, c.method, c.at)); err != nil {
			t.Fatal(err)
		}
		got := s.last.Load()
		if got.APIVersion != "authorization.k8s.io/v1" || got.Kind != "SubjectAccessReview" || got.Spec.NonResourceAttributes != nil ||
			*got.Spec.ResourceAttributes != *c.want {
			t.Errorf("%s: %+v", c.at, got)
		}
		if got.Spec.User != "ann" || got.Spec.UID != "uid-1" || strings.Join(got.Spec.Groups, " ") != "ops system:authenticated" {
			t.Errorf("%s: %+v", c.at, got.Spec)
		}
		extra := got.Spec.Extra
		if extra[webhook.ExtraScope].String() != "["+c.scope+"]" || (c.workspace == "") != (extra[webhook.ExtraWorkspace] == nil) ||
			c.workspace != "" && extra[webhook.ExtraWorkspace].String() != "["+c.workspace+"]" || extra["example.com/team"].String() != "[x]" {
			t.Errorf("%s: %v", c.at, extra)
		}
	}
	if _, err := a.Authorize(t.Context(), ann, requesttest.Info(t, "GET", "/metrics")); err != nil {
		t.Fatal(err)
	}
	if got := s.last.Load().Spec; got.ResourceAttributes != nil || *got.NonResourceAttributes != (authorizationv1.NonResourceAttributes{Path: "/metrics",
		Verb: "get"}) {
		t.Errorf("%+v", got)
	}
	if len(ann.Extra) != 3 || ann.Extra[webhook.ExtraScope][0] != "forged" {
		t.Error("the user was changed")
	}
}

func TestAnswersAreGoodForTheirTime(t *testing.T) {
	for claim, c := range map[string]struct {
		status string
		ttl    func(*webhook.Options)
	}{
		"Allowed": {`{"allowed":true}`, func(o *webhook.Options) { o.AuthorizedTTL = 5 * time.Second }},
		"Denied":  {`{"denied":true}`, func(o *webhook.Options) { o.UnauthorizedTTL = 5 * time.Second }},
		"Neither": {`{}`, func(o *webhook.Options) { o.UnauthorizedTTL = 5 * time.Second }},
	} {
		t.Run(claim, func(t *testing.T) {
			s := serve(t, says(c.status))
			now := time.Now()
			a := authorizer(t, s, func(o *webhook.Options) { c.ttl(o); o.Now = func() time.Time { return now } })
			ask := func(u user.Info, at string, asked int64) {
				t.Helper()
				if _, err := a.Authorize(t.Context(), u, requesttest.Info(t, "GET", at)); err != nil || s.asked.Load() != asked {
					t.Errorf("asked %d times, want %d: %v", s.asked.Load(), asked, err)
				}
			}
			ask(ann, "/api/v1/pods", 1)
			ask(ann, "/api/v1/pods", 1)
			ask(ann, "/api/v1/nodes", 2)
			ask(&user.DefaultInfo{Name: "ann", Groups: ann.Groups}, "/api/v1/pods", 3) // another user of that name
			now = now.Add(6 * time.Second)
			ask(ann, "/api/v1/pods", 4)
		})
	}
	t.Run("NoTime", func(t *testing.T) {
		s := serve(t, says(`{"allowed":true}`))
		a := authorizer(t, s, nil)
		for range 2 {
			if _, err := a.Authorize(t.Context(), ann, requesttest.Info(t, "GET", "/api/v1/pods")); err != nil {
				t.Fatal(err)
			}
		}
		if s.asked.Load() != 2 {
			t.Errorf("asked %d times", s.asked.Load())
		}
	})
}

// plain writes a body with a code.
func plain(code int, body string) func(http.ResponseWriter, int64) {
	return func(w http.ResponseWriter, _ int64) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

func TestWithoutAnAnswerThePolicyDecides(t *testing.T) {
	const review = `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview"`
	for _, c := range []struct {
		claim   string
		answers func(http.ResponseWriter, int64)
		asked   int64
	}{
		{"ItFails", plain(500, review+`,"status":{"allowed":true}}`), 3},
		{"ItIsBusy", plain(429, ""), 3},
		{"ItRefuses", plain(403, review+`,"status":{"allowed":true}}`), 1},
		{"ItRedirects", plain(307, ""), 1}, // S17: an answer comes from the service itself
		{"NoJSON", plain(200, "<html>"), 1},
		{"Nothing", plain(200, ""), 1},
		{"AnotherKind", plain(200, `{"apiVersion":"authorization.k8s.io/v1","kind":"Status","status":{"allowed":true}}`), 1},
		{"AnotherVersion", plain(200, `{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview","status":{"allowed":true}}`), 1},
		{"NoStatus", plain(200, review+"}"), 1},
		{"TooLong", plain(200, review+`,"status":{"allowed":true}}`+strings.Repeat(" ", longestAnswer)), 1},
	} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/FailOpen=%v", c.claim, open), func(t *testing.T) {
				s := serve(t, c.answers)
				a := authorizer(t, s, func(o *webhook.Options) { o.FailOpen, o.UnauthorizedTTL, o.AuthorizedTTL = open, time.Hour, time.Hour })
				check(t, a, open)
				if s.asked.Load() != c.asked {
					t.Errorf("asked %d times, want %d", s.asked.Load(), c.asked)
				}
				s.answers = says(`{"allowed":true}`)
				if d, err := a.Authorize(t.Context(), ann, requesttest.Info(t, "GET", "/api/v1/pods")); err != nil || !d.Allowed() {
					t.Errorf("when it answers again: %+v, %v", d, err)
				}
			})
		}
	}
}

func check(t *testing.T, a *webhook.Authorizer, open bool) {
	t.Helper()
	d, err := a.Authorize(t.Context(), ann, requesttest.Info(t, "GET", "/api/v1/pods"))
	const reason = "the authorization webhook gave no answer"
	if open && (err != nil || d != (authz.Decision{Reason: reason})) {
		t.Errorf("%+v, %v", d, err)
	}
	if !open && (!apierrors.IsServiceUnavailable(err) || d != (authz.Deny(reason))) {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestAServiceThatIsNotThere(t *testing.T) {
	for _, open := range []bool{false, true} {
		s := serve(t, says(`{"allowed":true}`))
		a := authorizer(t, s, func(o *webhook.Options) { o.FailOpen = open })
		s.Close()
		check(t, a, open)
	}
}

// S21: a server whose certificate the kubeconfig does not trust is not asked.
func TestAnotherCertificateIsNotTrusted(t *testing.T) {
	s := serve(t, says(`{"allowed":true}`))
	a := authorizer(t, s, func(o *webhook.Options) {
		file := kubeconfig(t, s.URL+"/authorize", &x509.Certificate{})
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), ", certificate-authority: ca.pem", "", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		o.Kubeconfig = file
	})
	check(t, a, false)
	if s.asked.Load() != 0 {
		t.Error("it was asked")
	}
}

func TestAFailureIsTriedAgain(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, asked int64) {
		if asked == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		says(`{"allowed":true}`)(w, asked)
	})
	if d, err := authorizer(t, s, nil).Authorize(t.Context(), ann, requesttest.Info(t, "GET", "/api/v1/pods")); err != nil || !d.Allowed() || s.asked.Load() != 2 {
		t.Errorf("%+v, %v, asked %d times", d, err, s.asked.Load())
	}
}

func TestAQuestionEndsWithItsTimeAndItsRequest(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, func(http.ResponseWriter, int64) { <-release })
	defer close(release)
	check(t, authorizer(t, s, func(o *webhook.Options) { o.Timeout = 50 * time.Millisecond }), false)
	check(t, authorizer(t, s, func(o *webhook.Options) { o.Timeout, o.FailOpen = 50*time.Millisecond, true }), true)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	d, err := authorizer(t, s, func(o *webhook.Options) { o.FailOpen = true }).Authorize(gone, ann, requesttest.Info(t, "GET", "/api/v1/pods"))
	if err == nil || d.Allowed() {
		t.Errorf("%+v, %v", d, err)
	}
}

// S10: a request with empty values is not sent to the service.
func TestEmptyQuestionsAreNotAsked(t *testing.T) {
	s := serve(t, says(`{"allowed":true}`))
	a := authorizer(t, s, nil)
	pods := requesttest.Info(t, "GET", "/api/v1/pods")
	for claim, c := range map[string]struct {
		u user.Info
		r *request.Info
	}{"NoUser": {nil, pods}, "NoName": {&user.DefaultInfo{}, pods}, "NoRequest": {ann, nil}, "NoVerb": {ann, &request.Info{Path: "/x"}}} {
		if d, err := a.Authorize(t.Context(), c.u, c.r); err != nil || d.Allowed() || s.asked.Load() != 0 {
			t.Errorf("%s: %+v, %v", claim, d, err)
		}
	}
}

func TestABadKubeconfigIsNoService(t *testing.T) {
	ca := httptest.NewUnstartedServer(nil)
	ca.StartTLS()
	defer ca.Close()
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "k")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for claim, c := range map[string]struct{ file, want string }{
		"NotThere":      {filepath.Join(t.TempDir(), "none"), "no such file"},
		"Empty":         {write(""), "invalid configuration"},
		"NoYAML":        {write("}{"), "yaml"},
		"NoContext":     {write("{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'https://x'}}]}"), "invalid configuration"},
		"PlainHTTP":     {kubeconfig(t, "http://127.0.0.1:1/authorize", ca.Certificate()), "must be an https URL"},
		"NoURL":         {kubeconfig(t, "127.0.0.1:1", ca.Certificate()), "must be an https URL"},
		"APasswordInIt": {kubeconfig(t, "https://a:b@127.0.0.1", ca.Certificate()), "must be an https URL"},
	} {
		_, err := webhook.New(webhook.Options{Kubeconfig: c.file, Metrics: prometheus.NewRegistry(), Now: time.Now})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.file) || !strings.Contains(err.Error(), "authorization webhook") {
			t.Errorf("%s: %v", claim, err)
		}
	}
}

func BenchmarkARememberedAnswer(b *testing.B) {
	a := authorizer(b, serve(b, says(`{"allowed":true}`)), func(o *webhook.Options) { o.AuthorizedTTL = time.Hour })
	r := requesttest.Info(b, "GET", "/api/v1/namespaces/shop/pods")
	b.ReportAllocs()
	for b.Loop() {
		if d, err := a.Authorize(b.Context(), ann, r); err != nil || !d.Allowed() {
			b.Fatal(err)
		}
	}
}

// JSON writes any bytes that are not UTF-8 as one character, so the service would be asked about another user or object.
func TestNamesThatAreNotUTF8AreNotAskedAbout(t *testing.T) {
	s := serve(t, says(`{"allowed":true}`))
	a := authorizer(t, s, nil)
	named := requesttest.Info(t, "GET", "/api/v1/namespaces/n/pods/p")
	other := *named
	other.Name = "p\xff"
	for claim, c := range map[string]struct {
		u user.Info
		r *request.Info
	}{"TheUser": {&user.DefaultInfo{Name: "ann\xff"}, named}, "AGroup": {&user.DefaultInfo{Name: "ann", Groups: []string{"\xfe"}}, named},
		"TheObject": {ann, &other}} {
		if d, err := a.Authorize(t.Context(), c.u, c.r); err != nil || d.Allowed() || !d.Denied() || s.asked.Load() != 0 {
			t.Errorf("%s: %+v, %v", claim, d, err)
		}
	}
	if d, err := a.Authorize(t.Context(), &user.DefaultInfo{Name: "ann\ufffd"}, named); err != nil || !d.Allowed() {
		t.Errorf("a name with the character itself: %+v, %v", d, err)
	}
}

// S6: the service decides by names of groups, and knows nothing of those that workspaces have made.
func TestTheServiceIsToldNoGroupsOfWorkspaces(t *testing.T) {
	s := serve(t, says(`{}`))
	a := authorizer(t, s, func(o *webhook.Options) {
		o.GroupsOf = func(user.Info) []string { return []string{user.AllAuthenticated} }
	})
	member := &user.DefaultInfo{Name: "ann", Groups: []string{"sre", user.AllAuthenticated}}
	if _, err := a.Authorize(t.Context(), member, requesttest.Info(t, "GET", "/api/v1/pods")); err != nil {
		t.Fatal(err)
	}
	if got := s.last.Load().Spec.Groups; !slices.Equal(got, []string{user.AllAuthenticated}) {
		t.Errorf("%q", got)
	}
}
