package filter_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/tools/hostile"
)

// pass reports whether a request goes on past the filter, and with which answer it is refused.
func pass(t *testing.T, f filter.Unrecorded, u user.Info, method, target string, headers ...string) (passed bool, answer *httptest.ResponseRecorder) {
	t.Helper()
	at, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	r := (&http.Request{Method: method, URL: at, Header: http.Header{}}).WithContext(t.Context())
	for _, line := range headers {
		k, v, _ := strings.Cut(line, ": ")
		r.Header.Set(k, v)
	}
	answer = httptest.NewRecorder()
	last := f.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed = true }))
	filter.Info(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), u)))
	})).ServeHTTP(answer, r)
	return passed, answer
}

var ann = &user.DefaultInfo{Name: "ann", Groups: []string{"system:authenticated", "developers"}}

// O12: where all must be recorded, no door to a container is open that is not.
func TestWhatCantBeRecordedIsRefused(t *testing.T) {
	strict := filter.Unrecorded{Refuse: true, Users: []string{"ops", "system:serviceaccount:ci:runner"}, Groups: []string{"breakglass"}}
	const pod = "/api/v1/namespaces/shop/pods/web"
	websocket, spdy := []string{"Connection: Upgrade", "Upgrade: websocket"}, []string{"Connection: Upgrade", "Upgrade: SPDY/3.1"}
	refused := map[string][]string{
		http.MethodGet: {pod + "/exec", pod + "/exec?command=sh&stdin=true", pod + "/attach", pod + "/portforward", pod + "/exec/", pod + "/exec/more", pod + "/%65xec",
			"/clusters/host" + pod + "/exec", "/api/clusters/host/v1/namespaces/shop/pods/web/attach",
			"/kapi/v1/namespaces/shop/pods/web/exec", "/clusters/host/kapi/v1/namespaces/shop/pods/web/portforward", "/kapi/v1/workspaces/w/namespaces/shop/pods/web/exec",
			"/api/v2/namespaces/shop/pods/web/exec", "/api/v1/pods/web/exec", "/api/v1/watch/namespaces/shop/pods/web/exec",
			"/api/v1/nodes/n/proxy", "/api/v1/nodes/n/proxy/", "/api/v1/nodes/n/proxy/exec/shop/web/c", "/api/v1/nodes/n/proxy/run/shop/web/c", "/api/v1/nodes/n/proxy/attach/shop/web/c",
			"/api/v1/nodes/n:10250/proxy/exec/a", "/api/v1/nodes/https:n:10250/proxy/portForward/a", "/api/v1/nodes/n/proxy/exec/nodes/n/proxy/metrics",
			"/api/v1/nodes/n/proxy/Metrics", "/api/v1/nodes/n/proxy/metricsx", "/api/v1/proxy/nodes/n/metrics", "/api/v1/proxy/nodes/n/exec/a"},
		http.MethodPost: {pod + "/exec", pod + "/attach", pod + "/portforward", pod + "/ephemeralcontainers", "/api/v1/nodes/n/proxy/run/shop/web/c", "/api/v1/nodes/n/proxy/metrics"},
		http.MethodPatch: {pod + "/ephemeralcontainers", "/kapi/v1/namespaces/shop/pods/web/ephemeralcontainers", "/kapi/v1/workspaces/w/namespaces/shop/pods/web/ephemeralcontainers",
			"/clusters/host" + pod + "/ephemeralcontainers/", pod + "/ephemeral%63ontainers"},
		http.MethodPut:    {pod + "/ephemeralcontainers", pod + "/exec"},
		http.MethodDelete: {pod + "/exec"},
		http.MethodHead:   {pod + "/exec", pod + "/portforward"},
	}
	for method, targets := range refused {
		for _, target := range targets {
			for _, headers := range [][]string{nil, websocket, spdy} {
				passed, answer := pass(t, strict, ann, method, target, headers...)
				if passed || answer.Code != http.StatusForbidden || method != http.MethodHead && !strings.Contains(answer.Body.String(), "terminal.recording.passthrough") {
					t.Errorf("%s %s %v goes on: %t; %d %s", method, target, headers, passed, answer.Code, answer.Body)
				}
				if (answer.Header().Get("Connection") == "close") != (headers != nil) {
					t.Errorf("%s %s %v: the connection stays open", method, target, headers)
				}
				if passed, _ := pass(t, filter.Unrecorded{}, ann, method, target, headers...); !passed {
					t.Errorf("%s %s is refused where nothing must be recorded", method, target)
				}
			}
		}
	}
	for _, u := range []user.Info{&user.DefaultInfo{Name: "ops"}, &user.DefaultInfo{Name: "system:serviceaccount:ci:runner"},
		&user.DefaultInfo{Name: "eve", Groups: []string{"developers", "breakglass"}}} {
		if passed, answer := pass(t, strict, u, http.MethodPost, pod+"/exec", spdy...); !passed {
			t.Errorf("%v is refused: %s", u, answer.Body)
		}
	}
}

// O12: what runs nothing in a container goes on.
func TestWhatRunsNothingIsNotRefused(t *testing.T) {
	strict := filter.Unrecorded{Refuse: true}
	for target, method := range map[string]string{
		"/api/v1/namespaces/shop/pods/web":                                             http.MethodPatch,
		"/api/v1/namespaces/shop/pods/web/log?follow=true":                             http.MethodGet,
		"/api/v1/namespaces/shop/pods/web/ephemeralcontainers":                         http.MethodGet,
		"/api/v1/namespaces/shop/pods/exec":                                            http.MethodGet,
		"/api/v1/namespaces/exec/configmaps/exec/exec":                                 http.MethodGet,
		"/api/v1/namespaces/shop/pods":                                                 http.MethodPost,
		"/api/v1/namespaces/shop/services/web/proxy/exec":                              http.MethodGet,
		"/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/web/exec":                   http.MethodGet,
		"/kapis/terminal.kubesphere.io/v1alpha2/namespaces/shop/pods/web/exec":         http.MethodGet,
		"/kapis/terminal.kubesphere.io/v1alpha2/namespaces/shop/pods/web":              http.MethodGet,
		"/kapis/terminal.kubesphere.io/v1alpha2/namespaces/shop/pods/web/file?path=/a": http.MethodPost,
		"/kapis/terminal.kubesphere.io/v1alpha2/nodes/n/exec":                          http.MethodGet,
		"/api/v1/nodes/n/proxy/metrics":                                                http.MethodGet,
		"/api/v1/nodes/n/proxy/metrics/cadvisor":                                       http.MethodHead,
		"/api/v1/nodes/n:10250/proxy/stats/summary":                                    http.MethodGet,
		"/api/v1/nodes/n":  http.MethodGet,
		"/oauth/authorize": http.MethodGet,
	} {
		if passed, answer := pass(t, strict, ann, method, target); !passed {
			t.Errorf("%s %s is refused: %s", method, target, answer.Body)
		}
	}
	if passed, _ := pass(t, strict, ann, http.MethodGet, "/api/v1/nodes/n/proxy/metrics", "Connection: Upgrade", "Upgrade: websocket"); passed {
		t.Error("a connection to kubelet goes on")
	}
}

// O12: nobody passes but those who are listed, by exactly their names.
func TestNoWordIsTheNameOfThoseWhoPass(t *testing.T) {
	strict := filter.Unrecorded{Refuse: true, Users: []string{"ops"}, Groups: []string{"breakglass"}}
	passed, refused := 0, 0
	for seed := range uint64(1000) {
		g := hostile.New(seed)
		u := &user.DefaultInfo{Name: g.Mixed("ops", "Ops", "ops ", "breakglass"), Groups: []string{g.Mixed("breakglass", "ops", "break"), g.Word()}}
		listed := u.Name == "ops" || u.Groups[0] == "breakglass" || u.Groups[1] == "breakglass"
		through, _ := pass(t, strict, u, http.MethodPost, "/api/v1/namespaces/shop/pods/web/exec")
		if through != listed {
			t.Errorf("%q goes on: %t", u, through)
		}
		if passed++; !through {
			refused, passed = refused+1, passed-1
		}
	}
	if passed == 0 || refused == 0 {
		t.Errorf("%d passed, %d were refused", passed, refused)
	}
}

// No word is a path of kubelet that only reads but those.
func TestNoWordIsAPathOfKubeletThatReads(t *testing.T) {
	strict := filter.Unrecorded{Refuse: true}
	reads := map[string]bool{"metrics": true, "stats": true, "pods": true, "healthz": true, "configz": true}
	refused := 0
	for seed := range uint64(1000) {
		word := hostile.New(seed).Mixed("metrics", "exec", "run", "stats", "metrics/../exec", "./exec")
		target := "/api/v1/nodes/n/proxy/" + url.PathEscape(word) + "/shop/web/c"
		if through, _ := pass(t, strict, ann, http.MethodGet, target); through != reads[word] {
			t.Errorf("%q goes on: %t", target, through)
		} else if !through {
			refused++
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// O12: a Group that a workspace has made with the name of one in passthrough lets nobody do unrecorded what others may not.
func TestAGroupOfAWorkspaceIsNotTheOneThatPasses(t *testing.T) {
	reported := false
	strict := filter.Unrecorded{Refuse: true, Groups: []string{"break-glass"}, GroupsOf: func(u user.Info) []string {
		return slices.DeleteFunc(slices.Clone(u.GetGroups()), func(g string) bool { return g == "break-glass" && !reported })
	}}
	member := &user.DefaultInfo{Name: "mallory", Groups: []string{"break-glass", "system:authenticated"}}
	const exec = "/api/v1/namespaces/shop/pods/web/exec"
	if passed, answer := pass(t, strict, member, http.MethodPost, exec); passed || answer.Code != http.StatusForbidden {
		t.Errorf("goes on: %t; %d %s", passed, answer.Code, answer.Body)
	}
	reported = true
	if passed, answer := pass(t, strict, member, http.MethodPost, exec); !passed {
		t.Errorf("the provider's group is refused: %s", answer.Body)
	}
}
