package e2e

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	"kapis.dev/ks-apiserver/tools/stack"
)

// judge is an authorization webhook.
type judge struct {
	*httptest.Server
	mu     sync.Mutex
	judges func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus
}

// newJudge starts one without an opinion.
func newJudge(t *testing.T) *judge {
	t.Helper()
	j := &judge{}
	j.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &authorizationv1.SubjectAccessReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.judges != nil {
			review.Status = j.judges(review.Spec)
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(j.Close)
	return j
}

func (j *judge) by(judges func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.judges = judges
}

// kubeconfig is the file that leads to j.
func (j *judge) kubeconfig(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: j.Certificate().Raw})
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: c}}],
clusters: [{name: c, cluster: {server: %q, certificate-authority: ca.pem}}], users: [{name: c, user: {}}]}`, j.URL+"/authorize")
	for name, text := range map[string]string{"ca.pem": string(ca), "kubeconfig": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "kubeconfig")
}

// decided starts a replica with the section authorization.
func decided(t *testing.T, authorization string) *stack.Replica {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(product.Dir, "kubesphere.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubesphere.yaml")
	if err := os.WriteFile(file, []byte(string(text)+"\nauthorization: {"+authorization+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := product.Replica(t.Context(), "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func webhookFirst(j *judge, t *testing.T, failure string) string {
	t.Helper()
	return fmt.Sprintf(
		"modes: [Webhook, RBAC], webhook: {kubeconfigFile: %q, failurePolicy: %s, timeout: 10s, authorizedTTL: 0, unauthorizedTTL: 0}",
		j.kubeconfig(t),
		failure,
	)
}

const podsOf = kapis + "/namespaces/%s/pods"

func TestAWebhookDecidesBeforeRoles(t *testing.T) {
	p, j := newParted(t), newJudge(t)
	server := decided(t, webhookFirst(j, t, "Deny"))
	me, root := caller{server.URL, p.user.token}, caller{server.URL, admin(t).token}
	forPods := func(namespace string, status authorizationv1.SubjectAccessReviewStatus) {
		j.by(func(s authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
			if a := s.ResourceAttributes; a != nil && a.Group == "" && a.Resource == "pods" && a.Namespace == namespace {
				return status
			}
			return authorizationv1.SubjectAccessReviewStatus{}
		})
	}

	t.Run("without an opinion roles decide", func(t *testing.T) {
		me.must(t, http.StatusOK, http.MethodGet, fmt.Sprintf(podsOf, p.a), nil)
		me.must(t, http.StatusForbidden, http.MethodGet, fmt.Sprintf(podsOf, p.c), nil)
		if l := me.list(t, kapis+"/pods?limit=-1"); len(l.Items) != len(p.pods[p.a])+len(p.pods[p.b]) {
			t.Errorf("%v", l.names())
		}
	})
	t.Run("what it allows is allowed here, and lends nothing at kube-apiserver", func(t *testing.T) {
		forPods(p.c, authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: "on call"})
		me.must(t, http.StatusOK, http.MethodGet, fmt.Sprintf(podsOf, p.c), nil)
		r := me.must(t, http.StatusForbidden, http.MethodGet, "/api/v1/namespaces/"+p.c+"/pods", nil)
		if !strings.Contains(r.body, `cannot list resource \"pods\" in API group \"\"`) || strings.Contains(r.body, "no role of the user") {
			t.Errorf("not kube-apiserver's own words: %s", r.body)
		}
		e := me.must(
			t,
			http.StatusOK,
			http.MethodPost,
			iamRoute+"/accessexplanations",
			obj{"spec": obj{"method": "GET", "path": "/api/v1/namespaces/" + p.c + "/pods"}},
		)
		if x := decode[struct {
			Allowed bool
			Reason  string
		}](t, e.body); !x.Allowed || x.Reason != "allowed by the authorization webhook: on call" {
			t.Errorf("%s", e.body)
		}
	})
	t.Run("what it forbids no role allows, by no way", func(t *testing.T) {
		forPods(p.b, authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: "a freeze"})
		for _, c := range []caller{me, root} {
			for _, path := range []string{fmt.Sprintf(podsOf, p.b), "/api/v1/namespaces/" + p.b + "/pods", "/kapi/v1/namespaces/" + p.b + "/pods"} {
				if r := c.must(t, http.StatusForbidden, http.MethodGet, path, nil); !strings.Contains(r.body, "forbidden by the authorization webhook: a freeze") {
					t.Errorf("%s: %s", path, r.body)
				}
			}
		}
		for _, path := range []string{kapis + "/pods?limit=-1", "/kapi/v1/pods"} {
			if l := me.list(t, path); len(l.Items) != len(p.pods[p.a]) {
				t.Errorf("%s shows what is forbidden, or too little: %v", path, l.names())
			}
		}
		r := me.must(
			t,
			http.StatusOK,
			http.MethodPost,
			iamRoute+"/subjectaccessreviews",
			obj{"spec": obj{"resourceAttributes": obj{"namespace": p.b, "verb": "list", "resource": "pods"}}},
		)
		if !strings.Contains(r.body, `"denied":true`) || !strings.Contains(r.body, "a freeze") {
			t.Errorf("%s", r.body)
		}
	})
	t.Run("it is asked where, and for whom", func(t *testing.T) {
		asked := make(chan authorizationv1.SubjectAccessReviewSpec, 16) // more than once while the kind is loaded
		j.by(func(s authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
			asked <- s
			return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
		})
		me.must(t, http.StatusOK, http.MethodGet, "/kapi/v1/namespaces/"+p.a+"/pods", nil)
		s := <-asked
		if s.User != p.name || s.Extra["kapis.dev/scope"].String() != "[namespace]" || s.Extra["kapis.dev/workspace"] != nil {
			t.Errorf("%+v", s)
		}
	})
	t.Run("without it nothing is allowed but what is open", func(t *testing.T) {
		j.Close()
		if r := root.must(t, http.StatusServiceUnavailable, http.MethodGet, kapis+"/pods", nil); !strings.Contains(r.body,
			"the authorization webhook gave no answer") || strings.Contains(r.body, "127.0.0.1") {
			t.Errorf("%s", r.body)
		}
		root.must(t, http.StatusServiceUnavailable, http.MethodGet, "/api/v1/pods", nil)
		caller{base: server.URL}.must(t, http.StatusOK, http.MethodGet, "/version", nil)
		loginAt(t, server.URL, p.name, password)
	})
	t.Run("or roles decide, where the configuration says so", func(t *testing.T) {
		server := decided(t, webhookFirst(j, t, "NoOpinion"))
		me := caller{server.URL, p.user.token}
		me.must(t, http.StatusOK, http.MethodGet, fmt.Sprintf(podsOf, p.b), nil)
		if r := me.must(t, http.StatusForbidden, http.MethodGet, fmt.Sprintf(podsOf, p.c), nil); !strings.Contains(r.body,
			"the authorization webhook gave no answer") {
			t.Errorf("%s", r.body)
		}
		if l := me.list(t, kapis+"/pods?limit=-1"); len(l.Items) != len(p.pods[p.a])+len(p.pods[p.b]) {
			t.Errorf("%v", l.names())
		}
	})
}

func TestAFileOfPoliciesDecides(t *testing.T) {
	name := unique("abac")
	w := newWorkspaceOf(t)
	inside, outside := projectIn(t, w), newNamespace(t)
	file := filepath.Join(t.TempDir(), "policies.jsonl")
	if err := os.WriteFile(file, []byte(`# who reads what
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"`+name+`","workspace":"`+w+`","namespace":"*","apiGroup":"*","resource":"*","readonly":true}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	token := newUser(t, name).token // before the replica, which knows whom it finds
	server := decided(t, fmt.Sprintf("modes: [ABAC, RBAC], abac: {policyFile: %q}", file))
	me := caller{server.URL, token}
	me.must(t, http.StatusOK, http.MethodGet, fmt.Sprintf(podsOf, inside), nil)
	me.must(t, http.StatusForbidden, http.MethodGet, fmt.Sprintf(podsOf, outside), nil)
	me.must(
		t,
		http.StatusForbidden,
		http.MethodPost,
		"/kapi/v1/namespaces/"+inside+"/configmaps",
		obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "x"}},
	)
	// kube-apiserver knows nothing of the file.
	me.must(t, http.StatusForbidden, http.MethodGet, "/api/v1/namespaces/"+inside+"/pods", nil)
	caller{server.URL, admin(t).token}.must(t, http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+outside+"/pods", nil)
	r := me.must(
		t,
		http.StatusOK,
		http.MethodPost,
		iamRoute+"/accessexplanations",
		obj{"spec": obj{"method": "GET", "path": "/api/v1/namespaces/" + inside + "/pods"}},
	)
	if !strings.Contains(r.body, "allowed by the policy in line 2 of the file of the mode ABAC") {
		t.Errorf("%s", r.body)
	}
}

// The modes for tests are what they are called, but for who is not logged in, and but for kube-apiserver.
func TestModesThatAlwaysDecide(t *testing.T) { // S54
	name := unique("plain")
	token := newUser(t, name).token
	t.Run("AlwaysAllow", func(t *testing.T) {
		server := decided(t, "mode: AlwaysAllow")
		me := caller{server.URL, token}
		me.must(t, http.StatusOK, http.MethodGet, kapis+"/nodes", nil)
		me.must(t, http.StatusForbidden, http.MethodGet, "/api/v1/nodes", nil)
		caller{base: server.URL}.must(t, http.StatusForbidden, http.MethodGet, kapis+"/nodes", nil)
	})
	t.Run("AlwaysDeny", func(t *testing.T) {
		server := decided(t, "modes: [AlwaysDeny, RBAC]")
		for _, c := range []caller{{server.URL, token}, {server.URL, admin(t).token}} {
			for _, path := range []string{kapis + "/nodes", "/api/v1/nodes", tenants + "/workspaces", iamRoute + "/users/" + name} {
				if r := c.must(t, http.StatusForbidden, http.MethodGet, path, nil); !strings.Contains(r.body, "the authorization mode is AlwaysDeny") {
					t.Errorf("%s: %s", path, r.body)
				}
			}
			c.must(t, http.StatusOK, http.MethodGet, "/version", nil)
		}
	})
}
