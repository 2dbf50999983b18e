package filter

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kapis.dev/ks-apiserver/pkg/audit"
)

// recordsBodies returns a chain that records at a level what answer is asked, and the sink.
func recordsBodies(t *testing.T, level string, answer http.HandlerFunc) (http.Handler, *audited) {
	t.Helper()
	policy, err := audit.NewPolicy(level)
	if err != nil {
		t.Fatal(err)
	}
	sink := &audited{t: t}
	a := Auditing{Sink: sink, Policy: policy, Now: time.Now}
	return Chain(answer, Recover, a.Wrap, Info, Authentication{Authenticator: tokens}.Wrap, Authorize(namedOnly), a.Begin), sink
}

func ask(t *testing.T, h http.Handler, method, path, media, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer bob")
	r.Header.Set("Content-Type", media)
	return serve(h, r)
}

// echo answers with the body, of its type.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	_, _ = io.Copy(w, r.Body)
}

// O19, O36: the bodies of writes and of answers are recorded at the levels that say so, through either door and whatever the patch is, and
// nothing of a secret with them; what the handler reads and the client gets is what was sent.
func TestAuditRecordsBodies(t *testing.T) {
	const canary = "Kq7Zr4Canary"
	for name, c := range map[string]struct{ method, path, media, body, want string }{
		"Create":      {"POST", "/api/v1/namespaces/a/pods", "application/json", `{"kind":"Pod","spec":{"a":1}}`, `{"kind":"Pod","spec":{"a":1}}`},
		"ByOurRoutes": {"PUT", "/kapis/apps/v1/namespaces/a/deployments/d", "application/json", `{"a":"b"}`, `{"a":"b"}`},
		"Secret":      {"POST", "/api/v1/namespaces/a/secrets", "application/json", `{"data":{"a":"` + canary + `"}}`, `{"data":"REDACTED"}`},
		"SecretByOurs": {"POST", "/kapis/resources.kubesphere.io/v1alpha3/namespaces/a/secrets", "application/json", `{"stringData":{"a":"` + canary + `"}}`,
			`{"stringData":"REDACTED"}`},
		"MergePatch": {"PATCH", "/kapis/iam.kubesphere.io/v1beta1/users/u", "application/merge-patch+json",
			`{"spec":{"password":"` + canary + `"}}`, `{"spec":{"password":"REDACTED"}}`},
		"StrategicPatch": {"PATCH", "/apis/iam.kubesphere.io/v1beta1/users/u", "application/strategic-merge-patch+json",
			`{"spec":{"password":"` + canary + `"}}`, `{"spec":{"password":"REDACTED"}}`},
		"JSONPatch": {"PATCH", "/apis/cluster.kubesphere.io/v1alpha1/clusters/c", "application/json-patch+json",
			`[{"op":"add","path":"/spec/connection","value":{"kubeconfig":"` + canary + `","type":"direct"}}]`,
			`[{"op":"add","path":"/spec/connection","value":{"kubeconfig":"REDACTED","type":"direct"}}]`},
		"Apply": {"PATCH", "/api/v1/namespaces/a/secrets/s", "application/apply-patch+yaml", "kind: Secret\ndata: {a: " + canary + "}\n",
			`{"data":"REDACTED","kind":"Secret"}`},
		"Settings": {"PUT", "/kapis/config.kubesphere.io/v1alpha2/platformconfigs/p", "application/json", `{"data":{"a":"` + canary + `"}}`, `{"data":"REDACTED"}`},
		"NoJSON":   {"POST", "/api/v1/namespaces/a/pods", "application/vnd.kubernetes.protobuf", "k8s\x00" + canary, ""},
		"Broken":   {"POST", "/api/v1/namespaces/a/pods", "application/json", `{"a":"` + canary, ""},
		"Login":    {"POST", "/oauth/token", "application/json", `{"a":"b"}`, ""},
		"Proxy":    {"POST", "/api/v1/namespaces/a/services/s/proxy/x", "application/json", `{"a":"b"}`, ""},
		"File":     {"POST", "/kapis/terminal.kubesphere.io/v1alpha2/namespaces/a/pods/p/file", "application/json", `{"a":"b"}`, ""},
		"Password": {"PUT", "/kapis/iam.kubesphere.io/v1beta1/users/u/password", "application/json", `{"a":"b"}`, ""},
		"Token":    {"POST", "/api/v1/namespaces/a/serviceaccounts/s/token", "application/json", `{"status":{"token":"` + canary + `"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, sink := recordsBodies(t, "RequestResponse", echo)
			if w := ask(t, h, c.method, c.path, c.media, c.body); w.Body.String() != c.body {
				t.Errorf("the client gets %q", w.Body)
			}
			if len(sink.events) == 0 {
				t.Fatal("there is no event")
			}
			e := sink.events[len(sink.events)-1] // before it, that of the beginning of a stream
			for of, got := range map[string]string{"request": raw(e.RequestObject), "response": raw(e.ResponseObject)} {
				if got != c.want {
					t.Errorf("%s: got %s, want %s", of, got, c.want)
				}
			}
			if e.Level != auditv1.LevelRequestResponse {
				t.Errorf("level %s", e.Level)
			}
		})
	}
}

func raw(of any) string {
	v := reflect.ValueOf(of)
	if v.IsNil() {
		return ""
	}
	return string(v.Elem().FieldByName("Raw").Bytes())
}

// O19: an event has what its level says; a read has no body of a request, and a refusal no message.
func TestAuditRecordsTheBodiesOfItsLevel(t *testing.T) {
	for level, want := range map[string][2]string{
		"Metadata": {}, "Request": {`{"a":1}`, ""}, "RequestResponse": {`{"a":1}`, `{"code":409,"kind":"Status","message":"REDACTED"}`},
	} {
		h, sink := recordsBodies(t, level, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"kind":"Status","code":409,"message":"said again"}`)
		})
		ask(t, h, http.MethodPost, "/api/v1/namespaces/a/pods", "application/json", `{"a":1}`)
		e := sink.events[0]
		if got := [2]string{raw(e.RequestObject), raw(e.ResponseObject)}; got != want {
			t.Errorf("%s: got %q, want %q", level, got, want)
		}
		sink.events = nil
		ask(t, h, http.MethodGet, "/api/v1/namespaces/a/pods", "application/json", `{"a":1}`)
		if e := sink.events[0]; e.RequestObject != nil {
			t.Errorf("a read: %s", e.RequestObject.Raw)
		}
	}
}

// O19: a body of more than 64 KiB is left out, and the event says so, also if it is compressed; one of 64 KiB is there.
func TestAuditBoundsBodies(t *testing.T) {
	object := func(length int) string { return `{"a":"` + strings.Repeat("x", length-len(`{"a":""}`)) + `"}` }
	for name, c := range map[string]struct {
		body       string
		compressed bool
		want       bool
	}{
		"Longest": {object(maxRecorded), false, true}, "TooLong": {object(maxRecorded + 1), false, false},
		"Compressed": {object(maxRecorded), true, true}, "CompressedTooLong": {object(100 * maxRecorded), true, false},
	} {
		h, sink := recordsBodies(t, "RequestResponse", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if !c.compressed {
				_, _ = io.Copy(w, strings.NewReader(c.body))
				return
			}
			w.Header().Set("Content-Encoding", "gzip")
			var out bytes.Buffer
			z := gzip.NewWriter(&out)
			_, _ = io.WriteString(z, c.body)
			_ = z.Close()
			_, _ = w.Write(out.Bytes())
		})
		ask(t, h, http.MethodGet, "/api/v1/namespaces/a/pods/p", "", "")
		e := sink.events[0]
		if there := raw(e.ResponseObject) == c.body; there != c.want || (e.Annotations["audit.k8s.io/truncated"] == "true") == c.want {
			t.Errorf("%s: %d bytes, annotations %v", name, len(raw(e.ResponseObject)), e.Annotations)
		}
	}
}

// O18: in mode blocking-strict an event says that a request was received before anything is done; without it the answer is 503 and nothing
// is done. A policy that leaves the stage out, or the request, asks for no event.
func TestNothingIsDoneWithoutAnEvent(t *testing.T) {
	var failing error
	var stages []auditv1.Stage
	var codes []int
	done := 0
	a := Auditing{
		Sink: audit.SinkFunc(func(e *audit.Event) { stages = append(stages, e.Stage+" queued"); codes = append(codes, e.Code) }),
		Commit: func(_ context.Context, e *audit.Event) error {
			stages, codes = append(stages, e.Stage), append(codes, e.Code)
			return failing
		},
		Strict: true, Now: time.Now,
	}
	h := Chain(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if len(stages) != 1 {
			t.Errorf("before anything is done there are %v", stages)
		}
		done++
		w.Header().Set("Content-Length", "2")
		_, _ = io.WriteString(w, "ok")
	}), Recover, a.Wrap, Info, Authentication{Authenticator: tokens}.Wrap, Authorize(namedOnly), a.Begin)
	w := ask(t, h, http.MethodPost, "/api/v1/namespaces/a/pods", "", "")
	if want := []auditv1.Stage{"RequestReceived", "ResponseComplete"}; !reflect.DeepEqual(stages, want) || !reflect.DeepEqual(codes, []int{0, 200}) {
		t.Errorf("stages %v with codes %v", stages, codes)
	}
	if w.Header().Get("Content-Length") != "" { // the client would have all of it before the event is written
		t.Error("the answer has a length")
	}
	stages, codes, failing = nil, nil, errors.New("the disk is full")
	w = ask(t, h, http.MethodPost, "/api/v1/namespaces/a/pods", "", "")
	statusOf(t, w)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || done != 1 {
		t.Errorf("the answer is %d, and %d were done", w.Code, done)
	}
	if want := []auditv1.Stage{"RequestReceived", "ResponseComplete queued"}; !reflect.DeepEqual(stages, want) || codes[1] != 503 {
		t.Errorf("stages %v with codes %v", stages, codes)
	}
	stages = nil
	if w := serve(h, httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/a/pods", nil)); w.Code != http.StatusForbidden {
		t.Errorf("a refusal is %d", w.Code)
	}
	var err error
	if a.Policy, err = audit.NewPolicy("None"); err != nil {
		t.Fatal(err)
	}
	h = Chain(http.HandlerFunc(ok), a.Wrap, Info, Authentication{Authenticator: tokens}.Wrap, Authorize(namedOnly), a.Begin)
	if w := ask(t, h, http.MethodPost, "/api/v1/namespaces/a/pods", "", ""); w.Code != http.StatusOK {
		t.Errorf("what is not recorded is %d", w.Code)
	}
}
