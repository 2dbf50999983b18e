package e2e

import (
	"context"
	"encoding/base64"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/pkg/egress/egresstest"
)

// X32, X33: what a registry with a password has is in the store of a workspace, and is installed and upgraded from there, without a file of its package in the
// cluster; a package that was replaced under its tag is not; and a removal needs the registry no more.
func TestX32WhatARegistryHasIsInstalled(t *testing.T) {
	a, ws, ns, name := admin(t), newManagedWorkspace(t, "admin"), unique("store"), unique("registry")
	newProject(t, ns, ws, nil)
	bob, _ := installerOf(t, unique("bob"), ns)
	in := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	pushed := httptest.NewServer(in)
	t.Cleanup(pushed.Close)
	registry := httptest.NewServer(egresstest.BasicAuth("ann", canary, in))
	t.Cleanup(registry.Close)
	push := func(version, tag string) string {
		t.Helper()
		raw := redisChart(t, version, "")
		charttest.Push(t, pushed.URL, "charts/redis", tag, charttest.ArtifactOf("redis", version, raw))
		return chart.Digest(raw)
	}
	first := push("1.0.0", "1.0.0")
	push("1.1.0", "1.1.0")
	repos := storeAPI + "/workspaces/" + ws + "/repos"
	url := "oci" + strings.TrimPrefix(registry.URL, "http") + "/charts"
	body := func(password string) obj {
		return obj{"metadata": obj{"name": name}, "spec": obj{"url": url, "credential": obj{"username": "ann", "password": password, "insecureSkipTLSVerify": true}}}
	}
	t.Cleanup(func() {
		for _, path := range []string{"/applicationreleases/" + name, "/repos/" + name} {
			_, _ = a.do(context.Background(), http.MethodDelete, storeKube+path, nil)
		}
	})
	if r := a.must(t, http.StatusBadGateway, http.MethodPost, repos, body("wrong")); !strings.Contains(r.body, "check spec.credential") {
		t.Error(clip(r.body))
	}
	a.must(t, http.StatusOK, http.MethodPost, repos, body(canary))
	app, versions := name+"-redis", storeAPI+"/workspaces/"+ws+"/apps/"+name+"-redis/versions/"
	v1, v2 := app+"-1.0.0", app+"-1.1.0"
	eventually(t, "it is in the store", a.has(versions+v2, `"state":"active"`, `/charts/redis:1.1.0"`))
	if got := a.must(t, http.StatusOK, http.MethodGet, versions+v1, nil).body; !strings.Contains(got, first) || strings.Contains(got, canary) {
		t.Errorf("%s", clip(got))
	}

	routes, web := storeAPI+"/namespaces/"+ns+"/applications", "/api/v1/namespaces/"+ns+"/configmaps/redis-web"
	values := base64.StdEncoding.EncodeToString([]byte("greeting: hi\n"))
	bob.must(t, http.StatusOK, http.MethodPost, routes, appRelease(name, ws, ns, app, v1, values))
	eventually(t, "it is installed", bob.has(routes+"/"+name, `"state":"active"`))
	a.answers(t, web, `"value":"hi 1.0.0"`)
	bob.must(t, http.StatusOK, http.MethodPost, routes+"/"+name, appRelease(name, ws, ns, app, v2, values))
	eventually(t, "it is upgraded", a.has(web, `"value":"hi 1.1.0"`))

	step(t, "what was replaced under its tag is not what the store has", func(t *testing.T) {
		push("1.2.0", "1.2.0")
		a.must(t, http.StatusOK, http.MethodPost, repos+"/"+name+"/action", nil)
		v3 := app + "-1.2.0"
		eventually(t, "the new version is there", a.has(versions+v3, `"state":"active"`))
		raw := redisChart(t, "1.2.0", "# replaced\n")
		charttest.Push(t, pushed.URL, "charts/redis", "1.2.0", charttest.ArtifactOf("redis", "1.2.0", raw))
		bob.must(t, http.StatusOK, http.MethodPost, routes+"/"+name, appRelease(name, ws, ns, app, v3, values))
		eventually(t, "what the store has is installed, by its digest", a.has(web, `"value":"hi 1.2.0"`))
	})
	step(t, "a removal needs no registry", func(t *testing.T) {
		registry.Close()
		bob.must(t, http.StatusOK, http.MethodDelete, routes+"/"+name, nil)
		isGone(t, web)
		isGone(t, storeKube+"/applicationreleases/"+name)
		a.must(t, http.StatusOK, http.MethodDelete, repos+"/"+name, nil)
		isGone(t, storeKube+"/applicationversions/"+v2)
	})
}
