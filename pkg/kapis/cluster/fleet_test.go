package cluster_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/direct"
	kapiscluster "kapis.dev/ks-apiserver/pkg/kapis/cluster"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
)

// hub is a fleet that knows one kubeconfig, of the cluster with the UID u-edge.
type hub struct{ asked []string }

func (h *hub) Deployment(_ context.Context, c *clusterv1alpha1.Cluster) ([]byte, error) {
	return []byte("token: canary-of-" + c.Name + "\n"), nil
}

func (h *hub) Check(_ context.Context, c *clusterv1alpha1.Cluster, kubeconfig []byte) (string, []direct.Finding, error) {
	h.asked = append(h.asked, c.Name)
	switch string(kubeconfig) {
	case "edge":
		return "u-edge", nil, nil
	case "other":
		return "u-other", nil, nil
	}
	return "", []direct.Finding{{Check: "address", Found: "not reached"}, {Check: "rights", Found: "none"}}, nil
}

func (h *hub) Pending(name string) (bool, []cluster.Pending) {
	if name == "edge" {
		return true, []cluster.Pending{{Kind: "users", Name: "ann", Reason: "of its own"}}
	}
	return false, nil
}

// templates is kube-apiserver with one WorkspaceTemplate, which another write has changed since the cache saw it; it records the writes.
type templates struct {
	version, placed string
	writes          []string
}

func (k *templates) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	switch {
	case r.Method == http.MethodGet:
		fmt.Fprintf(rec, `{"metadata":{"name":"w","uid":"u-w","resourceVersion":%q},"spec":{"placement":{"clusters":[%s]}}}`, k.version, k.placed)
	case strings.Contains(r.URL.Path, "workspacetemplates") && !strings.Contains(string(body), `"resourceVersion":"`+k.version+`"`):
		rec.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(rec, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`)
	default:
		k.writes = append(k.writes, r.Method+" "+r.URL.Path+" "+string(body))
		_, _ = io.WriteString(rec, `{}`)
	}
	return rec.Result(), nil
}

// newFleet returns what asks as a user. may are the rights: "user verb resource name".
func newFleet(t *testing.T, f kapiscluster.Fleet, k *templates, may ...string) func(who, method, target, body string) *httptest.ResponseRecorder {
	t.Helper()
	decide := authz.Func(func(_ context.Context, u user.Info, i *request.Info) (authz.Decision, error) {
		if slices.Contains(may, strings.TrimSpace(u.GetName()+" "+i.Verb+" "+i.Resource+" "+i.Name)) {
			return authz.Allow("", ""), nil
		}
		return authz.Decision{}, nil
	})
	of := func(name, uid, kind, labels string) string {
		return `{"metadata":{"name":"` + name + `","uid":"u-` + name + `","resourceVersion":"5"` + labels + `},"spec":{"connection":{"type":"` + kind + `"}},"status":{"uid":"` + uid + `"}}`
	}
	h := &kapiscluster.V1alpha1{Fleet: f, AsCaller: caller.Client{May: decide, Kube: k}, Caches: kapistest.NewAccounts(t, map[string][]any{
		"/apis/cluster.kubesphere.io/v1alpha1/clusters": {of("host", "u-host", "direct", `,"labels":{"cluster-role.kubesphere.io/host":""}`),
			of("edge", "u-edge", "direct", ""), of("far", "u-far", "proxy", "")},
		"/apis/tenant.kubesphere.io/v1beta1/workspacetemplates": {`{"metadata":{"name":"w","uid":"u-w","resourceVersion":"5"},"spec":{}}`},
	})}
	container := kapistest.Container(h.WebService(), h.Tower())
	return func(who, method, target, body string) *httptest.ResponseRecorder {
		r, rec := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Content-Type", "application/json")
		info, err := request.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		container.ServeHTTP(rec, r.WithContext(request.WithUser(request.WithInfo(r.Context(), info), &user.DefaultInfo{Name: who})))
		return rec
	}
}

// F8: what lets a cluster in is shown to who may update the Cluster, and nobody keeps it.
func TestADeploymentIsShownToWhoMayUpdateTheCluster(t *testing.T) {
	do := newFleet(t, &hub{}, &templates{}, "ops update clusters far", "ops update clusters edge", "ops update clusters nowhere")
	for target, code := range map[string]int{root + "/clusters/far/agent/deployment": 200, root + "/clusters/edge/agent/deployment": 404,
		root + "/clusters/nowhere/agent/deployment": 404, "/kapis/tower.kubesphere.io/v1alpha1/deployment?cluster=far": 200,
		"/kapis/tower.kubesphere.io/v1alpha1/deployment": 400, "/kapis/tower.kubesphere.io/v1alpha1/deployment?cluster=edge": 404} {
		rec := do("ops", http.MethodGet, target, "")
		if rec.Code != code || (code == 200) != strings.Contains(rec.Body.String(), "canary-of-far") || code == 200 && rec.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s %v, want %d", target, rec.Code, rec.Body, rec.Header(), code)
		}
		if rec := do("eve", http.MethodGet, target, ""); strings.Contains(rec.Body.String(), "canary") || code == 200 && rec.Code != http.StatusForbidden {
			t.Errorf("%s: eve gets %d %s", target, rec.Code, rec.Body)
		}
	}
	rec := newFleet(t, nil, &templates{}, "ops update clusters far")("ops", http.MethodGet, root+"/clusters/far/agent/deployment", "")
	if rec.Code != http.StatusNotFound || !strings.Contains(rec.Body.String(), "fleet.enabled") {
		t.Errorf("where there is no hub: %d %s", rec.Code, rec.Body)
	}
}

func TestWhatIsPendingIsShown(t *testing.T) { // F24
	do := newFleet(t, &hub{}, &templates{})
	for name, want := range map[string]string{"edge": `{"synced":true,"pending":[{"kind":"users","name":"ann","reason":"of its own"}]}`,
		"far": `{"synced":false,"pending":[]}`, "nowhere": `not found`} {
		if rec := do("ops", http.MethodGet, root+"/clusters/"+name+"/sync", ""); !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", name, rec.Code, rec.Body, want)
		}
	}
}

const edge = `"ZWRnZQ=="` // base64

// F11: who may not create a Cluster makes this server connect nowhere; each check that failed has a cause.
func TestAKubeconfigIsCheckedForWhoMayCreateTheCluster(t *testing.T) {
	h := &hub{}
	do := newFleet(t, h, &templates{}, "ops create clusters")
	body := func(kind, kubeconfig string) string {
		return `{"metadata":{"name":"new"},"spec":{"connection":{"type":"` + kind + `","kubeconfig":` + kubeconfig + `}}}`
	}
	if rec := do("eve", http.MethodPost, root+"/clusters/validation", body("direct", edge)); rec.Code != http.StatusForbidden || h.asked != nil {
		t.Errorf("eve: %d, and %v was asked for", rec.Code, h.asked)
	}
	for text, code := range map[string]int{body("direct", edge): 200, body("direct", `"Y2FuYXJ5"`): 400, body("proxy", edge): 400, "{": 400,
		`{"spec":{"connection":{"kubeconfig":7}}}`: 400, `{"a":"` + strings.Repeat("a", 1<<20) + `"}`: 413} {
		rec := do("ops", http.MethodPost, root+"/clusters/validation", text)
		if rec.Code != code || strings.Contains(rec.Body.String(), "canary") {
			t.Errorf("%.80s: %d %s, want %d", text, rec.Code, rec.Body, code)
		}
		if strings.Contains(text, "Y2FuYXJ5") && strings.Count(rec.Body.String(), `"reason":"Check"`) != 2 {
			t.Errorf("the causes are %s", rec.Body)
		}
	}
}

// F31: a kubeconfig is replaced by one of the same cluster alone, as the caller.
func TestAKubeconfigIsReplacedByOneOfTheSameCluster(t *testing.T) {
	k := &templates{}
	do := newFleet(t, &hub{}, k, "ops update clusters edge", "ops update clusters far", "ops update clusters host", "ops patch clusters edge")
	for target, x := range map[string]struct {
		body string
		code int
	}{
		"edge": {`{"kubeconfig":"b3RoZXI="}`, 400}, "far": {`{"kubeconfig":` + edge + `}`, 400}, "host": {`{"kubeconfig":` + edge + `}`, 400},
		"nowhere": {`{"kubeconfig":` + edge + `}`, 403},
	} {
		if rec := do("ops", http.MethodPut, root+"/clusters/"+target+"/kubeconfig", x.body); rec.Code != x.code || k.writes != nil {
			t.Errorf("%s: %d %s, want %d; written %v", target, rec.Code, rec.Body, x.code, k.writes)
		}
	}
	if rec := do("eve", http.MethodPut, root+"/clusters/edge/kubeconfig", `{"kubeconfig":`+edge+`}`); rec.Code != http.StatusForbidden {
		t.Error(rec.Code)
	}
	rec := do("ops", http.MethodPut, root+"/clusters/edge/kubeconfig", `{"kubeconfig":`+edge+`}`)
	if rec.Code != http.StatusOK || len(k.writes) != 1 || !strings.Contains(k.writes[0], `"uid":"u-edge"`) || strings.Contains(rec.Body.String(), "ZWRnZQ") {
		t.Errorf("%d %s, written %v", rec.Code, rec.Body, k.writes)
	}
}

// Workspaces are placed one after the other by the caller's right to each, all judged first; a template that somebody else has written meanwhile is read
// again.
func TestWorkspacesArePlacedAsTheCaller(t *testing.T) {
	k := &templates{version: "6", placed: `{"name":"far"}`}
	do := newFleet(t, &hub{}, k, "ops patch workspacetemplates w", "ops get workspacetemplates w")
	rec := do("ops", http.MethodPost, root+"/clusters/edge/grantrequests", `[{"op":"add","workspace":"w"}]`)
	if rec.Code != http.StatusOK || len(k.writes) != 1 || !strings.Contains(k.writes[0], `"clusters":[{"name":"far"},{"name":"edge"}]`) {
		t.Errorf("%d %s, written %v", rec.Code, rec.Body, k.writes)
	}
	k.writes = nil
	for _, x := range []struct {
		who, cluster, body string
		code               int
	}{
		{"ops", "edge", `[{"op":"remove","workspace":"w"}]`, 200}, // it is not there
		{"eve", "edge", `[{"op":"add","workspace":"w"}]`, 403},
		{"ops", "nowhere", `[{"op":"add","workspace":"w"}]`, 404},
		{"ops", "edge", `[{"op":"add","workspace":"w"},{"op":"add","workspace":"x"}]`, 404},
		{"ops", "edge", `[{"op":"move","workspace":"w"}]`, 400},
		{"ops", "edge", `[]`, 400},
		{"ops", "edge", `{}`, 400},
	} {
		if rec := do(x.who, http.MethodPost, root+"/clusters/"+x.cluster+"/grantrequests", x.body); rec.Code != x.code || k.writes != nil {
			t.Errorf("%s %s: %d %s, want %d; written %v", x.who, x.body, rec.Code, rec.Body, x.code, k.writes)
		}
	}
}

// What the cache takes for done may be undone since by a write that it has not seen yet: then it is done again.
func TestAWorkspaceIsTakenOutOfAClusterThatTheCacheDoesNotHaveItInYet(t *testing.T) {
	k := &templates{version: "6", placed: `{"name":"edge"}`}
	do := newFleet(t, &hub{}, k, "ops patch workspacetemplates w", "ops get workspacetemplates w")
	rec := do("ops", http.MethodPost, root+"/clusters/edge/grantrequests", `[{"op":"remove","workspace":"w"}]`)
	if rec.Code != http.StatusOK || len(k.writes) != 1 || !strings.Contains(k.writes[0], `"clusters":[]`) {
		t.Errorf("%d %s, written %v", rec.Code, rec.Body, k.writes)
	}
}
