package request_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	endpoints "k8s.io/apiserver/pkg/endpoints/request"

	"kapis.dev/ks-apiserver/pkg/request"
)

var factory = &endpoints.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

// checkAgreement compares the request that is sent on for i with kube-apiserver's own reading of it.
func checkAgreement(t *testing.T, i *request.Info, method, rawQuery string) {
	t.Helper()
	path, rawPath := i.URLPath()
	upstream, err := url.ParseRequestURI((&url.URL{Path: path, RawPath: rawPath, RawQuery: rawQuery}).String())
	if err != nil {
		t.Fatalf("%q can't be sent on: %v", path, err)
	}
	if upstream.Path != i.Path {
		t.Fatalf("authorized %q, sent on %q", i.Path, upstream.Path)
	}
	if !i.IsKubernetes {
		return
	}
	k, err := factory.NewRequestInfo(&http.Request{Method: method, URL: upstream})
	if err != nil {
		t.Fatalf("kube-apiserver can't read %q: %v", upstream, err)
	}
	if k.IsResourceRequest != i.IsResource || k.Verb != i.Verb {
		t.Fatalf("%s %s: kube-apiserver reads resource=%v verb=%q, we resource=%v verb=%q",
			method, upstream, k.IsResourceRequest, k.Verb, i.IsResource, i.Verb)
	}
	if !i.IsResource {
		return
	}
	theirs := [...]string{k.APIPrefix, k.APIGroup, k.APIVersion, k.Namespace, k.Resource, k.Subresource, k.Name}
	ours := [...]string{i.APIPrefix, i.APIGroup, i.APIVersion, i.Namespace, i.Resource, i.Subresource, i.Name}
	if theirs != ours {
		t.Fatalf("%s %s\nkube-apiserver reads %q\n            we read %q", method, upstream, theirs, ours)
	}
}

func TestKubernetesReadsThePathAsWeDo(t *testing.T) {
	prefixes := []string{"/api/v1", "/apis/apps/v1", "/apis/tenant.kubesphere.io/v1beta1", "/api", "/apis", "/apis/apps"}
	paths := []string{
		"", "/", "/pods", "/pods/", "/pods/p", "/pods/p/status", "/pods/p/proxy/", "/pods/p/proxy/a/b/", "/pods/p/exec/more",
		"/namespaces", "/namespaces/n", "/namespaces/n/status", "/namespaces/n/finalize", "/namespaces/n/status/x", "/namespaces/n/pods",
		"/namespaces/n/namespaces", "/namespaces/n/namespaces/m", "/namespaces/n/namespaces/m/status", "/namespaces/n/pods/p/log",
		"/watch/pods", "/watch/namespaces/n", "/watch/namespaces/n/pods/p", "/watch/watch/pods", "/watch/proxy/p", "/watch/namespaces",
		"/proxy/pods/p", "/proxy/namespaces/n/services/s/a/b", "/proxy/namespaces/n/status/x", "/proxy/nodes/n/",
		"/workspaces", "/workspaces/w", "/workspaces/w/namespaces", "/workspaces/w/namespaces/n/pods", "/workspacetemplates/w/status",
		"/clusters", "/clusters/c", "/*/x", "/a%20b/c%25d/e", "/clusterroles/system:x",
	}
	queries := []string{
		"", "watch", "watch=", "watch=true", "watch=0", "watch=FALSE", "watch=t&limit=5", "limit=x", "watch=1&timeoutSeconds=x",
		"fieldSelector=metadata.name%3Dx", "fieldSelector=metadata.name==x,spec.nodeName=y&watch=1", "fieldSelector=metadata.name!=x",
		"fieldSelector=metadata.name=", "fieldSelector=metadata.name=a/b", "fieldSelector=metadata.name=..", "fieldSelector=spec.nodeName=x",
		"fieldSelector=metadata.name=a&fieldSelector=metadata.name%3Da", "fieldSelector=metadata.name%3D%5C%2Cx",
	}
	accepted := 0
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		for _, prefix := range prefixes {
			for _, p := range paths {
				for _, q := range queries {
					i, err := request.Parse(newRequest(t, method, strings.TrimSuffix(prefix+p+"?"+q, "?")))
					if err != nil {
						continue
					}
					accepted++
					checkAgreement(t, i, method, q)
				}
			}
		}
	}
	if accepted < 10000 {
		t.Errorf("only %d requests were accepted: the test has lost its point", accepted)
	}
}

// FuzzParse: Parse is total; what it accepts has one meaning, here and at kube-apiserver (S23).
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"/api/v1/namespaces/a/pods/p/log?follow=true", "/apis/apps/v1/watch/deployments", "/kapis/a/v1/workspaces/w/namespaces/n/x/y/z",
		"/clusters/host/kapis/a/v1/x", "/apis/clusters/c/apps/v1/x", "/kapi/v1/pods?watch=1", "/a%2fb", "/a/%2e%2e/b", "/a//b", "/a;b", "/%25%32%65",
		"/api/v1/nodes/n/proxy/x/", "/clusters/a/clusters/b/c", "http://h/p", "//h/p", "/%ff", "/api/v1/pods?fieldSelector=metadata.name=x&watch=false",
		"/api/v1/pods?fieldSelector=metadata.name=a&limit=q", "/kapis/tenant.kubesphere.io/v1beta1/workspaces/w/status", "/proxy/x/",
		"/api/v1/pods?%66ieldSelector=metadata.name=x&w%61tch",
	} {
		f.Add("GET", s)
		f.Add("DELETE", s)
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		i, err := request.Parse(&http.Request{Method: method, URL: u})
		if err != nil {
			return
		}
		checkAgreement(t, i, method, u.RawQuery)
		checkCanonical(t, i)
		again, err := request.Parse(&http.Request{Method: method, URL: &url.URL{Path: clusterPath(i), RawQuery: u.RawQuery}})
		if err != nil || *again != *i {
			t.Fatalf("the canonical form of %q is read as %+v (%v), not as %+v", target, again, err, i)
		}
		if i.IsResource && (i.Verb == "" || i.Resource == "" || i.APIVersion == "") {
			t.Fatalf("%q: a request for a resource lacks one: %+v", target, i)
		}
	})
}

func clusterPath(i *request.Info) string {
	if i.Cluster == "" {
		return i.Path
	}
	return "/clusters/" + i.Cluster + i.Path
}

func checkCanonical(t *testing.T, i *request.Info) {
	t.Helper()
	path := strings.TrimSuffix(i.Path, "/")
	if path == "" {
		return
	}
	for _, segment := range strings.Split(path[1:], "/") {
		if segment == "" || segment == "." || segment == ".." || strings.ContainsAny(segment, "\\;\x00\n\x7f") {
			t.Fatalf("the path %q is not canonical", i.Path)
		}
	}
}
