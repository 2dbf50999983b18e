package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
)

// tokenBackend is a backend by https that notes what it gets in Authorization, with requests for a group or below /proxy/.
type tokenBackend struct {
	*httptest.Server
	mu   sync.Mutex
	last string
}

func newTokenBackend(t *testing.T) *tokenBackend {
	t.Helper()
	b := &tokenBackend{}
	b.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/kapis/") || strings.HasPrefix(r.URL.Path, "/proxy/") { // else nobody asks but this platform itself
			b.mu.Lock()
			b.last = r.Header.Get("Authorization")
			b.mu.Unlock()
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(obj{"asked": r.RequestURI})
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *tokenBackend) got() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

func (b *tokenBackend) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = ""
}

// authority is what verifies its certificate.
func (b *tokenBackend) authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.Certificate().Raw})
}

// X5, X42: a backend gets the access tokens of its callers where somebody asks for it who may impersonate users, and for exactly what that was: not by an
// object of somebody else, not by a note that the writer makes, and not once it leads elsewhere.
func TestX5ABackendGetsAccessTokensByApprovalAlone(t *testing.T) {
	a, b, group, who := admin(t), newTokenBackend(t), unique("tokens")+".example.com", unique("author")
	service, path := extensionsAPI+"/apiservices/"+group, "/kapis/"+group+"/v1/namespaces/default/things"
	object := func(name, forward string) obj {
		o := extensionObject("APIService", name, obj{"group": name, "version": "v1", "url": b.URL, "caBundle": b.authority()})
		o["metadata"].(obj)["annotations"] = obj{"kapis.dev/forward-authorization": forward}
		return o
	}
	author := withRole(t, who, obj{"rules": []rule{{[]string{"extensions.kubesphere.io"}, []string{"apiservices"}, []string{"*"}},
		{[]string{group}, []string{"things"}, []string{"*"}}}})
	// kube-apiserver knows the right a moment after this server, and a write asks both.
	eventually(t, "the right counts", author.accepts(http.StatusCreated, http.MethodPost, extensionsAPI+"/apiservices?dryRun=All",
		object(unique("own")+".example.com", "false")))
	refused := func(what, method, path string, body any, headers ...string) {
		t.Helper()
		r, err := author.do(t.Context(), method, path, body, headers...)
		if err != nil || r.code != http.StatusForbidden || !strings.Contains(r.body, "may not impersonate users") {
			t.Errorf("%s: %d %s %v", what, r.code, clip(r.body), err)
		}
	}
	getsOwn := func(want bool) func(context.Context) error {
		return func(ctx context.Context) error {
			r, err := author.do(ctx, http.MethodGet, path, nil)
			if is := b.got() == "Bearer "+author.token; err == nil && (r.code != http.StatusOK || is != want) {
				err = fmt.Errorf("%d %s, and the backend got the caller's own token: %v", r.code, clip(r.body), is)
			}
			return err
		}
	}

	refused("a new object", http.MethodPost, extensionsAPI+"/apiservices", object(group, "true"))
	a.create(t, extensionsAPI+"/apiservices", object(group, "false"))
	eventually(t, "it is told by a token of its own who asks", getsOwn(false))
	annotations := func(of obj) obj { return obj{"metadata": obj{"annotations": of}} }
	refused("a change", http.MethodPatch, service, annotations(obj{"kapis.dev/forward-authorization": "true"}), asMerge)
	plain := object(group, "true")
	plain["spec"].(obj)["insecureSkipVerify"] = true
	if r, err := a.do(t.Context(), http.MethodPatch, service, plain, asMerge); err != nil || r.code != http.StatusUnprocessableEntity ||
		!strings.Contains(r.body, "https") {
		t.Errorf("without a verified certificate: %d %s %v", r.code, clip(r.body), err)
	}

	a.must(t, http.StatusOK, http.MethodPatch, service, annotations(obj{"kapis.dev/forward-authorization": "true"}), asMerge)
	eventually(t, "the approved backend gets the token", getsOwn(true))
	refused("another address", http.MethodPatch, service, obj{"spec": obj{"url": "https://localhost:1"}}, asMerge)
	// Its note can neither be taken away nor forged by who may not give it.
	author.must(t, http.StatusOK, http.MethodPatch, service, annotations(obj{"kapis.dev/approved-forward-authorization": "forged"}), asMerge)
	eventually(t, "it still gets the token", getsOwn(true))
	a.must(t, http.StatusOK, http.MethodPatch, service, annotations(obj{"kapis.dev/forward-authorization": nil}), asMerge)
	eventually(t, "once it is not asked for, it gets none", getsOwn(false))
	author.must(t, http.StatusOK, http.MethodPatch, service, annotations(obj{"kapis.dev/approved-forward-authorization": "forged"}), asMerge)
	if r := a.must(t, http.StatusOK, http.MethodGet, service, nil); strings.Contains(r.body, "forged") {
		t.Errorf("a note of a writer is stored: %s", clip(r.body))
	}
}

// forwardingChart is an extension whose group and whose pages are at a backend that gets the access tokens of callers.
func forwardingChart(t *testing.T, name, version, permissions string, at *tokenBackend) string {
	t.Helper()
	return base64.StdEncoding.EncodeToString(charttest.Pack(t, name, map[string]string{
		"Chart.yaml": fmt.Sprintf("{apiVersion: v2, name: %s, version: %s}", name, version),
		"extension.yaml": fmt.Sprintf("{apiVersion: kubesphere.io/v1alpha1, name: %s, version: %s, displayName: {en: Tokens}, "+
			"installationMode: HostOnly}", name, version),
		"permissions.yaml": permissions,
		"templates/objects.yaml": fmt.Sprintf(`
apiVersion: extensions.kubesphere.io/v1alpha1
kind: APIService
metadata: {name: {{ .Release.Name }}.example.com, annotations: {kapis.dev/forward-authorization: "true"}}
spec: {group: {{ .Release.Name }}.example.com, version: v1, url: %[1]q, caBundle: %[2]s}
---
apiVersion: extensions.kubesphere.io/v1alpha1
kind: ReverseProxy
metadata: {name: {{ .Release.Name }}, annotations: {kapis.dev/forward-authorization: "true"}}
spec:
  matcher: {path: "/proxy/{{ .Release.Name }}/*", method: "*"}
  upstream: {url: %[1]q, caBundle: %[2]s}
  directives: {authProxy: true}
`, at.URL, base64.StdEncoding.EncodeToString(at.authority())),
	}))
}

// X5, X18, X21: a chart's backend gets access tokens where its permissions.yaml asks for the right to impersonate users, and somebody has approved that who
// holds it, or the verb approve. Who has every verb "*" on everything beside it does not, and can't lead the tokens elsewhere; a version of the chart at
// another address waits for an approval of its own, and meanwhile nothing changes.
func TestX5AnInstalledChartGetsAccessTokensByApprovalAlone(t *testing.T) {
	const writes = "kind: ClusterRole\nrules:\n- {apiGroups: [extensions.kubesphere.io], resources: [apiservices, reverseproxies], " +
		"verbs: [create, get, update, patch, delete]}\n"
	const impersonates = writes + "- {apiGroups: [\"\"], resources: [users], verbs: [impersonate]}\n"
	a, first, second, name := admin(t), newTokenBackend(t), newTokenBackend(t), unique("forwards")
	plan, service := platformAPI+"/installplans/"+name, extensionsAPI+"/apiservices/"+name+".example.com"
	push(t, name, "0.9.0", forwardingChart(t, name, "0.9.0", writes, first))
	push(t, name, "1.0.0", forwardingChart(t, name, "1.0.0", impersonates, first))
	push(t, name, "1.1.0", forwardingChart(t, name, "1.1.0", impersonates, second))
	t.Cleanup(func() {
		_, _ = a.do(context.Background(), http.MethodDelete, plan, nil)
		_, _ = a.do(context.Background(), http.MethodDelete, "/api/v1/namespaces/extension-"+name, nil)
	})
	all := []string{"*"}
	planner := withRole(t, unique("planner"), obj{"rules": []rule{{[]string{"kubesphere.io", "extensions.kubesphere.io"}, all, all},
		{[]string{"", "apps", "batch", "policy", "networking.k8s.io", "autoscaling", "metrics.k8s.io"}, all, all}}})
	approver := withRole(t, unique("approver"), obj{"rules": []rule{{[]string{"kubesphere.io"}, []string{"installplans"}, []string{"get", "patch", "approve"}}}})
	buyer := withRole(t, unique("buyer"), obj{"rules": []any{rule{[]string{name + ".example.com"}, []string{"things"}, []string{"get", "list"}},
		obj{"nonResourceURLs": []string{"/proxy/" + name + "/*"}, "verbs": []string{"get"}}}})
	asked := obj{"metadata": obj{"annotations": obj{"kapis.dev/approve": "yes"}}}
	to := func(version string) obj {
		return obj{"metadata": asked["metadata"], "spec": obj{"extension": obj{"version": version}}}
	}
	// tells asks for the group and for a page, and compares the backends that were sent the caller's own token.
	tells := func(by, notBy *tokenBackend) func(context.Context) error {
		return func(ctx context.Context) error {
			for _, path := range []string{"/kapis/" + name + ".example.com/v1/namespaces/default/things", "/proxy/" + name + "/x"} {
				by.forget()
				notBy.forget()
				r, err := buyer.do(ctx, http.MethodGet, path, nil)
				if err == nil && (r.code != http.StatusOK || by.got() != "Bearer "+buyer.token || notBy.got() != "") {
					err = fmt.Errorf("%s: %d %s; the backend got the caller's own token: %v, and the other one was asked: %v", path, r.code, clip(r.body),
						by.got() == "Bearer "+buyer.token, notBy.got() != "")
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	// waits has the planner approve a version, who may not.
	waits := func(t *testing.T, version string) {
		t.Helper()
		r := planner.must(t, http.StatusOK, http.MethodPatch, plan, to(version), asMerge)
		if warned := strings.Join(r.header.Values("Warning"), " "); !strings.Contains(warned, "impersonate") {
			t.Errorf("the warning is %q", warned)
		}
		eventually(t, "it says what nobody has approved", a.conditionIs(plan, "Approved", "False", "impersonate"))
		a.answers(t, plan, "(everything)")
	}

	step(t, "a chart that does not ask for it is not installed", func(t *testing.T) {
		a.must(t, http.StatusCreated, http.MethodPost, platformAPI+"/installplans", installPlan(name, "0.9.0", "", obj{"kapis.dev/upstreams": "127.0.0.1"}))
		eventually(t, "it says what is missing", a.conditionIs(plan, "Installed", "False", "impersonate users"))
		a.answers(t, plan, `"reason":"BeyondPermissions"`)
	})
	step(t, "who may not impersonate does not approve it", func(t *testing.T) {
		eventually(t, "the right counts", planner.accepts(http.StatusOK, http.MethodPatch, plan+"?dryRun=All", to("1.0.0"), asMerge))
		waits(t, "1.0.0")
		a.must(t, http.StatusNotFound, http.MethodGet, service, nil)
	})
	step(t, "who has the verb approve does, and the backend gets the tokens", func(t *testing.T) {
		eventually(t, "the right counts", approver.accepts(http.StatusOK, http.MethodPatch, plan+"?dryRun=All", asked, asMerge))
		approver.must(t, http.StatusOK, http.MethodPatch, plan, asked, asMerge)
		eventually(t, "it is installed", a.conditionIs(plan, "Installed", "True", "1.0.0"))
		eventually(t, "the backend gets the token of its caller", tells(first, second))
	})
	step(t, "nobody leads the tokens elsewhere by the object itself", func(t *testing.T) {
		moved := obj{"spec": obj{"url": second.URL, "caBundle": second.authority()}}
		if r, err := planner.do(t.Context(), http.MethodPatch, service, moved, asMerge); err != nil || r.code != http.StatusForbidden ||
			!strings.Contains(r.body, "may not impersonate users") {
			t.Errorf("%d %s %v", r.code, clip(r.body), err)
		}
	})
	step(t, "a version at another address waits for an approval of its own", func(t *testing.T) {
		waits(t, "1.1.0")
		if err := tells(first, second)(t.Context()); err != nil {
			t.Error(err)
		}
		a.must(t, http.StatusOK, http.MethodPatch, plan, asked, asMerge) // who holds everything
		eventually(t, "it is upgraded", a.conditionIs(plan, "Upgraded", "True", "1.1.0"))
		eventually(t, "the backend at the new address gets the token, and the former one nothing", tells(second, first))
	})
	step(t, "it is removed", func(t *testing.T) {
		a.must(t, http.StatusOK, http.MethodDelete, plan, nil)
		eventually(t, "the plan is gone", a.is(http.StatusNotFound, http.MethodGet, plan))
		a.must(t, http.StatusNotFound, http.MethodGet, service, nil)
	})
}
