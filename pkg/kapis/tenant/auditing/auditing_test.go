package auditing_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/audit/ring"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/tenant/auditing"
	"kapis.dev/ks-apiserver/pkg/request"
)

// lists allows a user to list events of core/v1 in the scopes of their name, joined by +.
var lists = authz.Func(func(ctx context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
	scope := r.Scope.Label() + ":" + r.Workspace + r.Namespace
	if r.Verb != "list" || r.Resource != "events" || r.APIGroup != "" || authz.WantsPartialList(ctx) ||
		!slices.Contains(strings.Split(u.GetName(), "+"), scope) {
		return authz.Decision{}, nil
	}
	return authz.Allow("", ""), nil
})

// O21: callers see their own events, and those of where they may list events of core/v1; the answer says which replica's they are.
func TestCallersSeeTheEventsThatTheyMay(t *testing.T) {
	at := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	r := ring.New(1<<20, at)
	pod := auditv1.ObjectReference{Resource: "pods", Namespace: "a", Name: "p"}
	for id, e := range map[string]audit.Event{
		"former":    {Username: "bob", UID: "1", Object: auditv1.ObjectReference{Resource: "users"}, Scope: "Global"}, // another one of this name
		"own":       {Username: "bob", UID: "2", Object: auditv1.ObjectReference{Resource: "users"}, Scope: "Global"},
		"pod":       {Username: "eve", Object: pod, Scope: "Namespace", Workspace: "w", Cluster: "host"},
		"elsewhere": {Username: "eve", Object: pod, Scope: "Namespace", Workspace: "w", Cluster: "moon"},
		"workspace": {Username: "eve", Object: auditv1.ObjectReference{Resource: "workspacemembers"}, Scope: "Workspace", Workspace: "w"},
		"node":      {Username: "eve", Object: auditv1.ObjectReference{Resource: "nodes"}, Scope: "Cluster"},
		"user":      {Username: "eve", Object: auditv1.ObjectReference{Resource: "users"}, Scope: "Global"},
		"login":     {Login: audit.Login{Verb: "login", Username: "eve"}, Scope: "Cluster"},
		"unknown":   {Login: audit.Login{Verb: "login", Username: audit.Unknown}, Scope: "Cluster"},
		"anonymous": {Username: user.Anonymous, Scope: "Cluster"},
	} {
		e.ID, e.Received, e.At = id, at, at
		r.Record(&e)
	}
	h := &auditing.Handler{Ring: r, Authorizer: lists, Replica: "replica\"-0", Clusters: []string{"host"}}
	ws := new(restful.WebService)
	ws.Path("/kapis/tenant.kubesphere.io/v1alpha2").Produces(restful.MIME_JSON)
	h.Mount(ws)
	c := restful.NewContainer()
	c.Add(ws)
	uids := map[string]string{"bob": "2"}
	ask := func(name, query string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodGet, "/kapis/tenant.kubesphere.io/v1alpha2/auditing/events?"+query, nil)
		if name != "" {
			req = req.WithContext(request.WithUser(req.Context(), &user.DefaultInfo{Name: name, UID: uids[name]}))
		}
		w := httptest.NewRecorder()
		c.ServeHTTP(w, req)
		return w
	}
	for name, want := range map[string][]string{
		"": nil, "mallory": nil, user.Anonymous: nil, "bob": {"own"}, "eve": {"elsewhere", "login", "node", "pod", "user", "workspace"},
		"namespace:a": {"pod"}, "namespace:b": nil, "workspace:w": {"workspace"}, "cluster:": {"node"}, "namespace:a+workspace:w": {"pod", "workspace"},
		"global:": {"anonymous", "elsewhere", "former", "login", "node", "own", "pod", "unknown", "user", "workspace"}, audit.Unknown: nil,
	} {
		w := ask(name, "size=100")
		var out struct {
			Query struct {
				Total   int
				Records []struct{ AuditID string }
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%q: %d %s: %v", name, w.Code, w.Body, err)
		}
		var got []string
		for _, e := range out.Query.Records {
			got = append(got, e.AuditID)
		}
		if slices.Sort(got); !reflect.DeepEqual(got, want) || out.Query.Total != len(want) {
			t.Errorf("%q sees %v of %d, want %v", name, got, out.Query.Total, want)
		}
	}
	w := ask("bob", "operation=statistics")
	if got := w.Header().Get("Warning"); got != `299 ks-apiserver "these are the events of the replica replica--0 since 2026-11-24T10:00:00Z, and not of others"` {
		t.Errorf("the warning is %s", got)
	}
	if got := strings.TrimSpace(w.Body.String()); got != `{"statistics":{"resources":1,"events":1}}` {
		t.Errorf("the statistics of what bob sees are %s", got)
	}
	if w := ask("bob", "size=all"); w.Code != http.StatusBadRequest {
		t.Errorf("a size that is no number is %d", w.Code)
	}
}
