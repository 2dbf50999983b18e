package apiserver

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"

	kapisconfig "kapis.dev/ks-apiserver/pkg/kapis/config"
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	kapisversion "kapis.dev/ks-apiserver/pkg/kapis/version"
)

func someServices() []*restful.WebService {
	all := kapisversion.Handler{}.WebServices()
	all = append(all, kapisconfig.Handler{}.V1alpha2(), (&resources.V1alpha3{}).WebService())
	return append(all, dynamic.WebServices(&dynamic.Handler{})...)
}

func TestTheShortWayLeadsWhereCurlyRouterDoes(t *testing.T) {
	services := someServices()
	r := newRouter(services)
	words := []string{"kapis", "kapi", "version", "resources.kubesphere.io", "config.kubesphere.io", "apps", "v1", "v1alpha2", "v1alpha3", "configs", "configz",
		"namespaces", "workspaces", "default", "pods", "a", ""}
	random := rand.New(rand.NewPCG(1, 2))
	short := 0
	compare := func(method, path, accept string) {
		req := httptest.NewRequest(method, "/", nil)
		req.URL.Path = path
		if accept != "" {
			req.Header.Set("Accept", accept)
		}
		ws, route, err := r.SelectRoute(services, req)
		wantWS, want, wantErr := restful.CurlyRouter{}.SelectRoute(services, req)
		if (err == nil) != (wantErr == nil) || err == nil && (ws != wantWS || route.Path != want.Path || route.Method != want.Method) {
			t.Fatalf("%s %s (Accept %q): %+v %v, want %+v %v", method, path, accept, route, err, want, wantErr)
		}
		if _, found := r.find(path); found != nil {
			short++
		}
	}
	for range 20000 {
		path := "/" + []string{"kapis/resources.kubesphere.io/v1alpha3", "kapis/apps/v1", "kapi/v1", "version", "x"}[random.IntN(5)]
		for range random.IntN(7) {
			path += "/" + words[random.IntN(len(words))]
		}
		compare([]string{"GET", "GET", "HEAD", "POST"}[random.IntN(4)], path, []string{"", "*/*", "application/json", "text/html"}[random.IntN(4)])
	}
	if short < 2000 {
		t.Errorf("the short way was taken %d times of 20000", short)
	}
	compare(http.MethodGet, "/kapis/"+strings.Repeat("a/", 40), "")
}

func BenchmarkRouter(b *testing.B) {
	services := someServices()
	req := httptest.NewRequest(http.MethodGet, "/kapis/resources.kubesphere.io/v1alpha3/namespaces/default/pods", nil)
	for name, r := range map[string]restful.RouteSelector{"ours": newRouter(services), "curly": restful.CurlyRouter{}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := r.SelectRoute(services, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
