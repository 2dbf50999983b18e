package filter

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/audit"
)

// S57: an audit event has nothing of a query, a header, a body or an answer, whether the request was allowed, refused or not authenticated.
func TestAuditRecordsNoSecret(t *testing.T) {
	const canary = "Canary-7f3a9"
	answered := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Answer", canary)
		_, _ = io.WriteString(w, `{"token":"`+canary+`"}`)
	})
	for name, token := range map[string]string{"Allowed": "bob", "Refused": "", "Unauthenticated": "bad"} {
		t.Run(name, func(t *testing.T) {
			var got [][]byte
			h := Chain(
				answered,
				Recover,
				Auditing{Sink: audit.SinkFunc(func(e *audit.Event) { got = append(got, audit.AppendJSON(nil, e)) }), Now: time.Now}.Wrap,
				Info,
				Authentication{Authenticator: tokens}.Wrap,
				Authorize(namedOnly),
			)
			r := httptest.NewRequest(http.MethodPost, "/oauth/token?code="+canary+"&access_token="+canary, strings.NewReader("password="+canary))
			for _, header := range []string{"Cookie", "Referer", "X-Forwarded-For", "Impersonate-User", "X-Anything"} {
				r.Header.Set(header, canary)
			}
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			serve(h, r)
			if len(got) != 1 {
				t.Fatalf("%d events", len(got))
			}
			if !json.Valid(got[0]) || strings.Contains(string(got[0]), canary) {
				t.Errorf("%s", got[0])
			}
		})
	}
}

// audited is a sink that decodes events as clients of Kubernetes do.
type audited struct {
	t      *testing.T
	events []auditv1.Event
}

func (a *audited) Record(e *audit.Event) {
	var out auditv1.Event
	if err := json.Unmarshal(audit.AppendJSON(nil, e), &out); err != nil {
		a.t.Error(err)
	}
	a.events = append(a.events, out)
}

// O14: there is an event for every answer: one that a handler gives, and the refusal of each filter. It has the code that the client saw.
func TestAuditRecordsEveryAnswer(t *testing.T) {
	at := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	allowed := map[string]string{"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "named"}
	for name, c := range map[string]struct {
		method, path, token, body string
		do                        http.HandlerFunc
		want                      auditv1.Event
	}{
		"Allowed": {path: "/clusters/host/api/v1/namespaces/a/pods/p?pretty=1", token: "bob", want: auditv1.Event{
			Verb: "get", ObjectRef: &auditv1.ObjectReference{Resource: "pods", Namespace: "a", Name: "p", APIVersion: "v1"},
			RequestURI: "/clusters/host/api/v1/namespaces/a/pods/p", User: authnv1.UserInfo{Username: "bob", UID: "uid-bob"},
			Annotations: map[string]string{"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "named",
				"kapis.dev/cluster": "host", "kapis.dev/workspace": "w"},
		}},
		"Anonymous": {path: "/version", want: auditv1.Event{
			Verb: "get", RequestURI: "/version",
			User: authnv1.UserInfo{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}},
		}},
		"Unauthenticated": {path: "/version", token: "bad", want: auditv1.Event{Verb: "get", RequestURI: "/version"}},
		"Unparsed":        {path: "/a//b", token: "bob", want: auditv1.Event{Verb: "get", RequestURI: "/a//b"}},
		"TooLong": {method: "POST", path: "/version", body: strings.Repeat("x", 100), token: "bob",
			want: auditv1.Event{Verb: "post", RequestURI: "/version"}},
		"OtherCluster": {path: "/clusters/moon/version", token: "bob", want: auditv1.Event{
			Verb: "get", RequestURI: "/clusters/moon/version", User: authnv1.UserInfo{Username: "bob", UID: "uid-bob"},
			Annotations: map[string]string{"kapis.dev/cluster": "moon"}}},
		"Panic": {path: "/version", token: "bob", do: func(http.ResponseWriter, *http.Request) { panic(1) }, want: auditv1.Event{
			Verb: "get", RequestURI: "/version", Stage: auditv1.StagePanic, User: authnv1.UserInfo{Username: "bob", UID: "uid-bob"}, Annotations: allowed}},
	} {
		t.Run(name, func(t *testing.T) {
			sink := &audited{t: t}
			do := c.do
			if do == nil {
				do = ok
			}
			h := Chain(do, Recover,
				Auditing{Sink: sink, Now: func() time.Time { return at }, WorkspaceOf: func(string) string { return "w" }}.Wrap,
				Info, Limit(50, nil), Authentication{Authenticator: tokens}.Wrap, Cluster("host"), Authorize(namedOnly))
			r := httptest.NewRequest(http.MethodGet, c.path, strings.NewReader(c.body))
			if c.method != "" {
				r.Method = c.method
			}
			r.Header.Set("Audit-Id", "forged")
			r.Header.Set("User-Agent", "test")
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			w := serve(h, r)
			id := w.Header().Get("Audit-Id")
			if id == "" || id == "forged" {
				t.Errorf("the answer has the id %q", id)
			}
			want := c.want
			want.Kind, want.APIVersion, want.Level, want.AuditID = "Event", "audit.k8s.io/v1", auditv1.LevelMetadata, types.UID(id)
			want.UserAgent, want.SourceIPs = "test", []string{"192.0.2.1"}
			if want.Stage == "" {
				want.Stage = auditv1.StageResponseComplete
			}
			want.ResponseStatus = &metav1.Status{Code: int32(w.Code)}
			want.RequestReceivedTimestamp, want.StageTimestamp = metav1.NewMicroTime(at.Local()), metav1.NewMicroTime(at.Local())
			if len(sink.events) != 1 || !reflect.DeepEqual(sink.events[0], want) {
				t.Errorf("answer %d\ngot  %+v\nwant %+v", w.Code, sink.events, want)
			}
		})
	}
}

// O14: what lasts as long as the client likes has an event when it begins, and one when it ends.
func TestAuditRecordsThatAStreamBegins(t *testing.T) {
	sink := &audited{t: t}
	h := Chain(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := len(sink.events); n != 0 {
			t.Errorf("%d events before the answer", n)
		}
		_, _ = io.WriteString(w, "a")
		if n := len(sink.events); n != 1 {
			t.Errorf("%d events while the answer lasts", n)
		}
	}), Auditing{Sink: sink, Now: time.Now}.Wrap, Info, Authentication{Authenticator: tokens}.Wrap, Authorize(namedOnly))
	for _, token := range []string{"bob", "bad"} {
		sink.events = nil
		r := httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=true", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		serve(h, r)
		stages := make([]auditv1.Stage, 0, len(sink.events))
		for _, e := range sink.events {
			stages = append(stages, e.Stage)
		}
		want := []auditv1.Stage{auditv1.StageResponseStarted, auditv1.StageResponseComplete}
		if token == "bad" { // a refusal is no stream
			want = want[1:]
		}
		if !reflect.DeepEqual(stages, want) {
			t.Errorf("%s: stages %v, want %v", token, stages, want)
		}
	}
}

// A client that goes away, and a handler that drops the connection for it, are no panic.
func TestAuditTakesNoDroppedConnectionForAPanic(t *testing.T) {
	for name, began := range map[string]bool{"InTheAnswer": true, "Before": false} {
		sink := &audited{t: t}
		h := Chain(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if began {
				_, _ = io.WriteString(w, "a")
			}
			panic(http.ErrAbortHandler)
		}), Auditing{Sink: sink, Now: time.Now}.Wrap, Info)
		func() {
			defer func() {
				if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // it is the value that the server expects
					t.Errorf("%s: the server sees %v", name, v)
				}
			}()
			serve(h, httptest.NewRequest(http.MethodGet, "/version", nil))
		}()
		if len(sink.events) != 1 || sink.events[0].Stage != auditv1.StageResponseComplete || (sink.events[0].ResponseStatus != nil) != began {
			t.Errorf("%s: %+v", name, sink.events)
		}
	}
}

// O13: the rules of a policy file decide by what was asked for and by whom, in their order; an answer that is no JSON is not recorded.
func TestAuditAsksThePolicy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, file, `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted]
rules:
- {level: None, verbs: [watch]}
- {level: RequestResponse, resources: [{group: "", resources: [secrets]}]}
- {level: Metadata, users: [bob], nonResourceURLs: ["/version"]}
- {level: Metadata, verbs: [login]}
`)
	policy, err := audit.OpenPolicy(file)
	if err != nil {
		t.Fatal(err)
	}
	sink := &audited{t: t}
	h := Chain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/oauth/token" {
			audit.From(r.Context()).SetLogin(audit.VerbLogin, "password", "")
			audit.From(r.Context()).SetUser("", "")
		}
		ok(w, r)
	}), Auditing{Sink: sink, Policy: policy, Now: time.Now}.Wrap, Info, Authentication{Authenticator: tokens}.Wrap)
	for path, want := range map[string]int{
		"/api/v1/namespaces/a/secrets/s": 1, "/api/v1/secrets?watch=1": 0, "/api/v1/pods": 0, "/version": 1, "/healthz": 0, "/oauth/token": 1,
	} {
		sink.events = nil
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer bob")
		serve(h, r)
		if len(sink.events) != want {
			t.Errorf("%s: %d events, want %d", path, len(sink.events), want)
		}
		for _, e := range sink.events {
			level := auditv1.LevelMetadata
			if strings.HasSuffix(path, "/s") {
				level = auditv1.LevelRequestResponse
			}
			if e.Level != level || e.RequestObject != nil || e.ResponseObject != nil {
				t.Errorf("%s: %+v", path, e)
			}
			if path == "/oauth/token" && (e.Verb != "login" || e.User.Username != audit.Unknown || e.Annotations["kapis.dev/login"] != "password") {
				t.Errorf("a login: %+v", e)
			}
		}
	}
}

// S6: nobody escapes the log by a Group that they make with the name of one that the policy leaves out.
func TestAuditTakesNoGroupOfAWorkspaceForThatOfThePolicy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, file, `
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: None, userGroups: [robots]}
- {level: RequestResponse, userGroups: [contractors]}
- {level: Metadata}
`)
	policy, err := audit.OpenPolicy(file)
	if err != nil {
		t.Fatal(err)
	}
	member := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "ann", Groups: []string{"robots", "dev"}}}, true, nil
	})
	hides := func(user.Info) []string { return nil }
	sink := &audited{t: t}
	contractor := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "ann", Groups: []string{"contractors"}}}, true, nil
	})
	serve(Chain(http.HandlerFunc(ok), Auditing{Sink: sink, Policy: policy, GroupsOf: hides, Now: time.Now}.Wrap, Info,
		Authentication{Authenticator: contractor}.Wrap), httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil))
	if len(sink.events) != 1 || sink.events[0].Level != "RequestResponse" {
		t.Errorf("who makes a Group of a name by which the policy records all is recorded as %+v", sink.events)
	}
	for want, of := range []func(user.Info) []string{nil, func(user.Info) []string { return []string{"dev"} }} {
		sink := &audited{t: t}
		serve(Chain(http.HandlerFunc(ok), Auditing{Sink: sink, Policy: policy, GroupsOf: of, Now: time.Now}.Wrap, Info,
			Authentication{Authenticator: member}.Wrap), httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil))
		if len(sink.events) != want {
			t.Errorf("%d events, want %d", len(sink.events), want)
		}
		for _, e := range sink.events {
			if !slices.Equal(e.User.Groups, []string{"robots", "dev"}) {
				t.Errorf("the event has the groups %q", e.User.Groups)
			}
		}
	}
}

// O15: an event has the scope of its request, for the receivers that read it.
func TestAuditRecordsTheScope(t *testing.T) {
	var got string
	h := Chain(http.HandlerFunc(ok), Auditing{Sink: audit.SinkFunc(func(e *audit.Event) { got = e.Scope }), Now: time.Now}.Wrap, Info)
	for path, want := range map[string]string{
		"/api/v1/namespaces/a/pods":              "Namespace",
		"/api/v1/nodes":                          "Cluster",
		"/kapis/iam.kubesphere.io/v1beta1/users": "Global",
		"/kapis/iam.kubesphere.io/v1beta1/workspaces/w/workspacemembers/a": "Workspace",
	} {
		if serve(h, httptest.NewRequest(http.MethodGet, path, nil)); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// O44: switched off, the audit is no step of a request, and what handlers say to it allocates nothing.
func TestNoAuditCostsNothing(t *testing.T) {
	next := http.HandlerFunc(ok)
	if got := (Auditing{Now: time.Now}).Wrap(next); reflect.ValueOf(got).Pointer() != reflect.ValueOf(next).Pointer() {
		t.Error("there is a step for nothing")
	}
	_, r, _ := recorded(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	ctx := r.Context()
	if n := testing.AllocsPerRun(100, func() {
		e := audit.From(ctx)
		e.SetLogin(audit.VerbLogin, "password", "")
		e.SetUser("bob", "")
		e.SetClient("console")
		e.Annotate("a", "b")
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// The event of a request within a request is not that of the outer one.
func TestAuditKeepsRequestsWithinRequestsApart(t *testing.T) {
	sink := &audited{t: t}
	var h http.Handler
	h = Chain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			serve(h, httptest.NewRequest(http.MethodGet, "/healthz", nil).WithContext(r.Context()))
		}
		ok(w, r)
	}), Auditing{Sink: sink, Now: time.Now}.Wrap, Info, Authentication{Authenticator: tokens}.Wrap)
	serve(h, httptest.NewRequest(http.MethodGet, "/version", nil))
	if len(sink.events) != 2 || sink.events[0].RequestURI != "/healthz" || sink.events[1].RequestURI != "/version" ||
		sink.events[0].AuditID == sink.events[1].AuditID {
		t.Errorf("%+v", sink.events)
	}
}

// BenchmarkAudit is what a request costs in the filters, with the audit off and at level Metadata into a file.
func BenchmarkAudit(b *testing.B) {
	for _, mode := range []string{"Off", "Metadata"} {
		b.Run(mode, func(b *testing.B) {
			auditing := Auditing{Now: time.Now, WorkspaceOf: func(string) string { return "w" }}
			if mode == "Metadata" {
				metrics, err := audit.NewMetrics(nil)
				if err != nil {
					b.Fatal(err)
				}
				auditing.Policy, err = audit.NewPolicy("Metadata")
				if err != nil {
					b.Fatal(err)
				}
				file, err := audit.NewFile(audit.FileOptions{Path: filepath.Join(b.TempDir(), "audit.log"), MaxSize: 100, Metrics: metrics,
					Now: time.Now})
				if err != nil {
					b.Fatal(err)
				}
				go file.Run(b.Context())
				auditing.Sink = file
			}
			h := Chain(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }),
				auditing.Wrap, Info, Authentication{Authenticator: tokens}.Wrap, Authorize(namedOnly))
			r := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/a/pods?limit=10", nil)
			b.ReportAllocs()
			for b.Loop() {
				r.Header.Set("Authorization", "Bearer bob")
				h.ServeHTTP(&nowhere{header: http.Header{}}, r)
			}
		})
	}
}

// nowhere is a ResponseWriter that drops the answer.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n *nowhere) WriteHeader(int)             {}
