package filter_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/request"
)

// events are what a sink has received, as clients of Kubernetes read them.
type events struct {
	t   *testing.T
	all []auditv1.Event
}

func (s *events) Record(e *audit.Event) {
	var out auditv1.Event
	if err := json.Unmarshal(audit.AppendJSON(nil, e), &out); err != nil {
		s.t.Error(err)
	}
	s.all = append(s.all, out)
}

// behind is a chain whose handler authenticates a front proxy by the header X-Peer, as another one does by a certificate.
func behind(a filter.Auditing, seen func(*http.Request)) http.Handler {
	known := filter.FrontProxied(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen != nil {
			seen(r)
		}
		w.WriteHeader(http.StatusOK)
	}))
	return filter.Chain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Peer") != "front" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		known.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: r.Header.Get("X-Remote-User")})))
	}), a.Wrap, filter.Info)
}

func sent(t *testing.T, h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// O14, O20: a request that a front proxy passes on has an event of the user whom it names, from where it was called itself, and with its id
// besides an own one; of what a peer says who is not the front proxy, the event has nothing.
func TestWhatAFrontProxyPassesOnIsRecorded(t *testing.T) {
	const peer = "192.0.2.1" // of httptest's requests
	for name, c := range map[string]struct {
		headers []string
		user    string
		from    []string
		id      string
	}{
		"the front proxy": {[]string{"X-Peer: front", "X-Remote-User: ann", "Audit-Id: theirs", "X-Forwarded-For: 203.0.113.9, 198.51.100.7"},
			"ann", []string{"198.51.100.7", peer}, "theirs"},
		"in a line of its own": {[]string{"X-Peer: front", "X-Remote-User: ann", "X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 2001:db8::7"},
			"ann", []string{"2001:db8::7", peer}, ""},
		"no address":       {[]string{"X-Peer: front", "X-Remote-User: ann", "X-Forwarded-For: 203.0.113.9, {\"a\":1}"}, "ann", []string{peer}, ""},
		"its own address":  {[]string{"X-Peer: front", "X-Remote-User: ann", "X-Forwarded-For: " + peer}, "ann", []string{peer}, ""},
		"another peer":     {[]string{"X-Remote-User: ann", "Audit-Id: theirs", "X-Forwarded-For: 198.51.100.7"}, "", []string{peer}, ""},
		"without anything": {nil, "", []string{peer}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sink, passed := &events{t: t}, ""
			h := behind(filter.Auditing{Sink: sink, FrontProxied: true, Now: time.Now}, func(r *http.Request) { passed = r.Header.Get("Audit-Id") })
			w := sent(t, h, "/apis/query.kapis.dev/v1alpha1/pods", c.headers...)
			if len(sink.all) != 1 {
				t.Fatalf("%d events", len(sink.all))
			}
			e := sink.all[0]
			if e.User.Username != c.user || !slices.Equal(e.SourceIPs, c.from) || e.Annotations["kapis.dev/front-proxy-audit-id"] != c.id {
				t.Errorf("user %q from %v, with the id %q: %+v", e.User.Username, e.SourceIPs, e.Annotations["kapis.dev/front-proxy-audit-id"], e)
			}
			if e.AuditID == "" || e.AuditID == "theirs" || c.user != "" && passed != string(e.AuditID) {
				t.Errorf("the event has the id %q, and what is caused %q", e.AuditID, passed)
			}
			if got := w.Header().Values("Audit-Id"); len(got) > 0 {
				t.Errorf("the answer has the id %q besides that of the front proxy", got)
			}
		})
	}
}

// O13: a request for a kind by another name is recorded as the policy says of the kind.
func TestThePolicyHoldsForTheRealKind(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	policy := "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n  resources: [{group: apps, resources: [deployments]}]\n"
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := audit.OpenPolicy(file)
	if err != nil {
		t.Fatal(err)
	}
	sink := &events{t: t}
	h := behind(filter.Auditing{Sink: sink, Policy: p, FrontProxied: true, Now: time.Now, RealOf: func(i *request.Info) *request.Info {
		if i.Resource != "deployments-apps" {
			return nil
		}
		return i.As(schema.GroupResource{Group: "apps", Resource: "deployments"})
	}}, nil)
	for _, plural := range []string{"deployments-apps", "pods"} {
		sent(t, h, "/apis/query.kapis.dev/v1alpha1/"+plural, "X-Peer: front", "X-Remote-User: ann")
	}
	if len(sink.all) != 1 || sink.all[0].ObjectRef.Resource != "deployments-apps" {
		t.Errorf("the events are %+v", sink.all)
	}
}
