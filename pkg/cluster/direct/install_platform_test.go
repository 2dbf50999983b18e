package direct_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster/direct"
)

// applied is a kube-apiserver that records what is applied to it.
type applied struct {
	installed bool
	host      string
	refuses   string

	mu      sync.Mutex
	objects []string
}

func (a *applied) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	lists := map[string]string{"/api": `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],` +
			`"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}]}`,
		"/api/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"namespaces","kind":"Namespace","verbs":["get","patch"]},` +
			`{"name":"secrets","namespaced":true,"kind":"Secret","verbs":["get","patch"]}]}`,
		"/apis/apps/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[{"name":"deployments",` +
			`"namespaced":true,"kind":"Deployment","verbs":["get","patch"]}]}`,
		"/api/v1/namespaces/kubesphere-system": fmt.Sprintf(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"x","annotations":{`+
			`"cluster.kubesphere.io/host-cluster":%q}}}`, a.host)}
	text, known := lists[r.URL.Path]
	switch {
	case r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, a.refuses) && a.refuses != "":
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"it is forbidden"}`)
	case r.Method == http.MethodPatch:
		raw, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.objects = append(a.objects, r.URL.Path+" "+r.Header.Get("Content-Type")+" "+r.URL.Query().Get("fieldManager"))
		a.mu.Unlock()
		_, _ = w.Write(raw)
	case known:
		_, _ = io.WriteString(w, text)
	case strings.HasSuffix(r.URL.Path, "/deployments/ks-apiserver") && a.installed:
		_, _ = io.WriteString(w, `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"ks-apiserver"}}`)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
}

// Its Deployment, which says that all is there, does not come last.
const software = `# A comment.
---
apiVersion: v1
kind: Namespace
metadata: {name: kubesphere-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ks-apiserver, namespace: kubesphere-system}
---
apiVersion: v1
kind: Secret
metadata: {name: kubesphere-config, namespace: kubesphere-system}
`

// F10: what a member runs is applied by the credential that was given, where and how its Cluster says, and nowhere else.
func TestOurProgramsAreInstalledWhereThatIsWanted(t *testing.T) {
	const namespace, secret, deployment = "/api/v1/namespaces/kubesphere-system", "/api/v1/namespaces/kubesphere-system/secrets/kubesphere-config",
		"/apis/apps/v1/namespaces/kubesphere-system/deployments/ks-apiserver"
	all := []string{namespace, secret, deployment}
	for name, x := range map[string]struct {
		cluster *applied
		action  clusterv1alpha1.CoreAction
		text    string
		want    []string
		fails   string
	}{
		"Install":              {action: clusterv1alpha1.ActionInstall, want: all},
		"InstallWhatIsThere":   {cluster: &applied{installed: true}, action: clusterv1alpha1.ActionInstall},
		"Upgrade":              {cluster: &applied{installed: true}, action: clusterv1alpha1.ActionUpgrade, want: []string{namespace, deployment}},
		"UpgradeNothing":       {action: clusterv1alpha1.ActionUpgrade, fails: "install it first"},
		"Reinstall":            {cluster: &applied{installed: true}, action: clusterv1alpha1.ActionReinstall, want: all},
		"AnotherHost":          {cluster: &applied{host: "other"}, action: clusterv1alpha1.ActionInstall, fails: `managed by the host "other"`},
		"ThisHost":             {cluster: &applied{host: "host"}, action: clusterv1alpha1.ActionInstall, want: all},
		"WithoutTheRight":      {cluster: &applied{refuses: "kubesphere-config"}, action: clusterv1alpha1.ActionInstall, want: all[:1], fails: "apply Secret"},
		"AKindThatIsNotThere":  {action: clusterv1alpha1.ActionInstall, text: "apiVersion: no/v1\nkind: Such\nmetadata: {name: x}\n", fails: "has no Such"},
		"WhatIsNoYAML":         {action: clusterv1alpha1.ActionInstall, text: "a: [", fails: "read what the cluster runs"},
		"NothingToBeInstalled": {action: clusterv1alpha1.ActionInstall, text: "# nothing\n---\n", fails: "has no ks-apiserver"},
	} {
		t.Run(name, func(t *testing.T) {
			if x.cluster == nil {
				x.cluster = &applied{}
			}
			srv := httptest.NewServer(x.cluster)
			defer srv.Close()
			text := x.text
			if text == "" {
				text = software
			}
			err := direct.Install(t.Context(), &rest.Config{Host: srv.URL}, x.action, []byte(text), "host")
			if x.fails == "" && err != nil || x.fails != "" && (err == nil || !strings.Contains(err.Error(), x.fails)) {
				t.Errorf("%v, want %q", err, x.fails)
			}
			var got []string
			for _, o := range x.cluster.objects {
				path, how, _ := strings.Cut(o, " ")
				got = append(got, path)
				if how != "application/apply-patch+yaml ks-fleet-hub" {
					t.Errorf("it is sent as %s", how)
				}
			}
			if !slices.Equal(got, x.want) {
				t.Errorf("it applies %v, want %v", got, x.want)
			}
		})
	}
}
