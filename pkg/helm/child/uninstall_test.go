package child

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	restfake "k8s.io/client-go/rest/fake"
)

// answering returns a client of ConfigMaps and namespaces with an answer for each name, and the mapping of ConfigMaps.
func answering(answers map[string]string) (*restfake.RESTClient, *meta.RESTMapping) {
	client := &restfake.RESTClient{GroupVersion: schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
		Client: restfake.CreateHTTPClient(func(r *http.Request) (*http.Response, error) {
			code, body, _ := strings.Cut(answers[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]], " ")
			status := map[string]int{"200": 200, "403": 403, "404": 404, "500": 500, "503": 503}[code]
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewBufferString(body))}, nil
		})}
	mapping := &meta.RESTMapping{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Scope: meta.RESTScopeNamespace}
	return client, mapping
}

// X27, X33: an object that can't be read is not taken for one that was removed; only what is not there is, and, where no hooks are run, what may not be read is
// left to be named.
func TestX27WhatCantBeReadIsNotTakenForRemoved(t *testing.T) {
	answers := map[string]string{ // by name
		"there":  `200 {"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"there"}}`,
		"gone":   `404 {"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`,
		"denied": `403 {"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`,
		"broken": `500 {"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}`,
		"busy":   `503 {"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`,
		// and of namespaces
		"shop":        `200 {"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop"}}`,
		"removed":     `404 {"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`,
		"terminating": `200 {"kind":"Namespace","apiVersion":"v1","metadata":{"name":"terminating","deletionTimestamp":"2026-01-02T03:04:05Z"}}`,
		"unknown":     `500 {"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}`,
	}
	client, mapping := answering(answers)
	for _, c := range []struct {
		names, namespace string
		leavesForbidden  bool
		wrong            []string
		left             int
	}{
		{"there gone", "shop", false, nil, 2},
		{"there gone denied", "shop", true, nil, 3},
		{"there denied", "shop", false, []string{"denied"}, 2},
		{"denied", "removed", false, nil, 0},
		{"denied", "terminating", false, nil, 0},
		{"there denied", "unknown", false, []string{"denied"}, 2},
		{"there broken busy", "shop", true, []string{"broken", "busy"}, 3},
		{"broken", "removed", true, []string{"broken"}, 1},
		{"broken", "terminating", true, []string{"broken"}, 1},
	} {
		all := kube.ResourceList{}
		for name := range strings.FieldsSeq(c.names) {
			all.Append(&resource.Info{Client: client, Mapping: mapping, Namespace: c.namespace, Name: name})
		}
		out, err := (&tolerant{leavesForbidden: c.leavesForbidden, isGone: func(namespace string) bool {
			return isGone(t.Context(), typedcorev1.New(client).Namespaces(), namespace)
		}}).readable(all)
		if (err == nil) != (c.wrong == nil) || len(out) != c.left {
			t.Errorf("%s in %s: %d objects, %v", c.names, c.namespace, len(out), err)
		}
		for _, name := range c.wrong {
			if err != nil && !strings.Contains(err.Error(), "ConfigMap "+name) {
				t.Errorf("%s in %s: %v", c.names, c.namespace, err)
			}
		}
	}
}

// X27, X33: of what the former revision has, what may not be read is named and left where no hooks are run, as of the newest one; otherwise it is an error.
func TestX27WhatTheFormerRevisionHasIsLeftWhereItMayNotBeRead(t *testing.T) {
	client, mapping := answering(map[string]string{
		"own": `200 {"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"own","annotations":{"meta.helm.sh/release-name":"web",` +
			`"meta.helm.sh/release-namespace":"shop"}}}`,
		"theirs": `200 {"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"theirs"}}`,
		"gone":   `404 {"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`,
		"denied": `403 {"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`,
	})
	all := kube.ResourceList{}
	for _, name := range []string{"denied", "theirs", "gone", "own"} {
		all.Append(&resource.Info{Client: client, Mapping: mapping, Namespace: "shop", Name: name})
	}
	left := &tolerant{leavesForbidden: true}
	own, err := left.owned(all, "web", "shop")
	if err != nil || len(own) != 1 || own[0].Name != "own" || len(left.kept) != 1 || !strings.Contains(left.kept[0], "ConfigMap denied") {
		t.Errorf("%v, %q, %v", own, left.kept, err)
	}
	if own, err = (&tolerant{}).owned(all, "web", "shop"); err == nil || len(own) > 0 {
		t.Errorf("with hooks: %v, %v", own, err)
	}
}
