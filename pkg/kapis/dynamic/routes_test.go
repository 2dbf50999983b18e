package dynamic_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/kapis/dynamic"
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic/read"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"

	restful "github.com/emicklei/go-restful/v3"
)

func TestRoutes(t *testing.T) {
	h := &dynamic.Handler{Handler: &read.Handler{Resources: kapistest.NewService(t)}}
	c := kapistest.Container(dynamic.WebServices(h)...)
	const tenant = "/kapis/tenant.kubesphere.io/v1beta1"
	for _, r := range []struct {
		name, path string
		code       int
		has, lacks string
	}{
		{"AllNamespaces", "/kapi/v1/pods", 200, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"3","remainingItemCount":0}`, ""},
		{"Page", "/kapi/v1/pods?limit=2&sortBy=name", 200, `"remainingItemCount":1},"totalItems":3,"items":[`, `"name":"p1"`},
		{"OneNamespace", "/kapi/v1/namespaces/b/pods", 200, "p3", "p1"},
		{"Object", "/kapi/v1/namespaces/a/pods/p1", 200, `"name":"p1"`, "items"},
		{"TheNamespaceItself", "/kapi/v1/namespaces/a", 200, `"kind":"Namespace"`, ""},
		{"Group", tenant + "/workspaces", 200, `"kind":"WorkspaceList"`, ""},
		{"TheWorkspaceItself", tenant + "/workspaces/w", 200, `"kind":"Workspace"`, ""},
		{"InAWorkspace", "/kapi/v1/workspaces/w-a/pods", 200, `"totalItems":2`, "p3"},
		{"WhatALabelClaimsIsNotInTheWorkspace", "/kapi/v1/workspaces/w-p1/pods", 200, `"totalItems":0,"items":[]`, ""},
		{"InAWorkspaceUnderAnySelector", "/kapi/v1/workspaces/w-b/pods?labelSelector=kubesphere.io/workspace%3Dw-p1", 200, `"totalItems":0,"items":[]`, ""},
		{"ObjectInItsWorkspace", "/kapi/v1/workspaces/w-a/namespaces/a/pods/p1", 200, `"name":"p1"`, ""},
		{"ObjectOfAnotherWorkspace", "/kapi/v1/workspaces/w-b/namespaces/a/pods/p1", 404, "NotFound", ""},
		{"ObjectThatClaimsAnotherWorkspace", "/kapi/v1/workspaces/w-p1/namespaces/a/pods/p1", 404, "NotFound", ""},
		{"ClusterObjectOfAWorkspace", "/kapi/v1/workspaces/w-a/namespaces/a", 200, `"kind":"Namespace"`, ""},
		{"ClusterObjectOfAnotherWorkspace", "/kapi/v1/workspaces/w-b/namespaces/a", 404, "NotFound", ""},
		{"UnknownKind", "/kapi/v1/unicorns", 404, "unicorns", ""},
		{"UnknownVersion", "/kapi/v9/pods", 404, "pods", ""},
		{"UnknownGroup", "/kapis/none.example.com/v1/pods", 404, "none.example.com", ""},
		{"GroupOfAnotherKind", "/kapis/tenant.kubesphere.io/v1beta1/pods", 404, "pods", ""},
		{"SubResourcesAreNoKinds", "/kapi/v1/namespaces/a/pods/p1/log", 404, "", ""},

		{"BadPage", "/kapi/v1/pods?page=x", 400, "page", ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			rec := kapistest.Serve(t, c, http.MethodGet, r.path)
			body := rec.Body.String()
			if rec.Code != r.code || !strings.Contains(body, r.has) || r.lacks != "" && strings.Contains(body, r.lacks) {
				t.Fatalf("%d %s", rec.Code, body)
			}
		})
	}
}

func TestListsAndObjectsAreTablesWhereThatIsAccepted(t *testing.T) { // O33
	h := &dynamic.Handler{Handler: &read.Handler{Resources: kapistest.NewService(t)}}
	c := kapistest.Container(dynamic.WebServices(h)...)
	for path, want := range map[string]string{
		"/kapi/v1/pods?sortBy=name&ascending=true&limit=1": `"totalItems":3,"columnDefinitions":[{"name":"Name"`,
		"/kapi/v1/namespaces/a/pods/p1":                    `"rows":[{"cells":["p1",`,
		"/kapi/v1/namespaces/a/pods/p1?includeObject=x":    `"field":"includeObject"`,
		"/kapi/v1/pods?includeObject=x":                    `"field":"includeObject"`,
	} {
		r, rec := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil), httptest.NewRecorder()
		r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
		info, err := request.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		if c.ServeHTTP(rec, r.WithContext(request.WithInfo(r.Context(), info))); !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
}

func TestGroupsWithTheirOwnWebServiceMountTheRoutesToo(t *testing.T) {
	h := &dynamic.Handler{Handler: &read.Handler{Resources: kapistest.NewService(t)}}
	own := new(restful.WebService)
	own.Path("/kapis/tenant.kubesphere.io/v1beta1").Produces(restful.MIME_JSON)
	own.Route(own.GET("/metrics").To(func(_ *restful.Request, r *restful.Response) { _, _ = r.Write([]byte("own")) }))
	h.Mount(own)
	c := kapistest.Container(append(dynamic.WebServices(h), own)...)
	for path, want := range map[string]string{"/metrics": "own", "/workspaces": `"WorkspaceList"`, "/workspaces/w": `"Workspace"`} {
		rec := kapistest.Serve(t, c, http.MethodGet, "/kapis/tenant.kubesphere.io/v1beta1"+path)
		if rec.Code != 200 || !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
}
