package e2e

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// disguises write a path in ways that a router, an authorizer and a server after this one may read differently.
func disguises(path, other string) []string {
	out := []string{path + "/", path + "//", path + "/.", path + "/..", path + "/%2e", path + "/%2e%2e/", path + ";a=b", path + "%20", path + "%00", path +
		"%0d%0aX-A:%20b", path + "%23", path + "%3fwatch=true", path + "?a=%2f..%2f", path + "%", path + "%zz",
		"/" + path, "///" + path[1:], "/." + path, "/.." + path, "/%2e%2e" + path, "/%2f" + path[1:], "\\" + path[1:], "/%5c" + path[1:], "/x/.." + path,
		"/x/%2e%2e" + path, "http://evil.example" + path, "http://" + path, "HTTP://localhost" + path, "//evil.example" + path,
		"/clusters/host" + path, "/clusters/host/clusters/host" + path, "/clusters/host/../host" + path, "/clusters/%2e%2e" + path, "/clusters/host%2f" +
			path[1:], "/clusters//" + path[1:], "/clusters/nowhere" + path, "/clusters/nowhere/clusters/host" + path, "/clusters/HOST" + path, "/Clusters/host" + path,
		strings.ToUpper(path), strings.ReplaceAll(path, "namespaces", "Namespaces"), strings.ReplaceAll(path, "configmaps", "ConfigMaps"), path + "/x/" + other,
		path + "/../../" + other + "/configmaps", path + "/%2e%2e/%2e%2e/" + other + "/configmaps", path + "/..%2f..%2f" + other + "/configmaps",
		path + "/..;/..;/" + other + "/configmaps", path + "/%252e%252e/%252e%252e/" + other + "/configmaps", path + "/%c0%ae%c0%ae/" + other, path +
			"/%ef%bc%8f" + other, path + "/\u2215" + other, path + "/..\\..\\" + other + "\\configmaps"}
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		for _, slash := range []string{"//", "/./", "/x/../", "/%2e/", "/x/%2e%2e/", "/x/%2E./", "%2f", "%2F", "%252f", "\\", "%5c", "/%5c/", ";/", ";a=b/",
			"/;/", "%20/", "/%00/", "%09/", "/%ff/", "/." + "%00/"} {
			out = append(out, path[:i]+slash+path[i+1:])
		}
		out = append(out, path[:i+1]+"%"+"6"+path[i+1:], path[:i]+"?/"+path[i+1:], path[:i]+"#/"+path[i+1:])
	}
	return out
}

// However a path is written, it is answered as the one that it means, or refused; and what is sent on is the path that was authorized.
func TestHoweverAPathIsWrittenItIsJudgedAsSent(t *testing.T) {
	proves(t, "S23")
	p, other := newPassage(t), newNamespace(t)
	canary := unique("foreign-canary")
	admin(t).create(t, "/api/v1/namespaces/"+other+"/configmaps", obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": canary}})
	own := "/api/v1/namespaces/" + p.ns + "/configmaps"
	for _, root := range []string{"/api/v1", "/kapi/v1", kapis, "/kapis/clusters/host/resources.kubesphere.io/v1alpha3", "/clusters/host/kapi/v1",
		"/api/clusters/host/v1"} {
		mine, theirs := root+"/namespaces/"+p.ns+"/configmaps", root+"/namespaces/"+other+"/configmaps"
		eventually(t, "the role counts", p.me.is(http.StatusOK, http.MethodGet, mine))
		p.me.must(t, http.StatusForbidden, http.MethodGet, theirs, nil)
		targets := append(disguises(mine, other), disguises(theirs, p.ns)...)
		for _, sub := range []string{"/services/s/proxy", "/pods/p/proxy", "/services/http:s:80/proxy"} {
			inside := root + "/namespaces/" + p.ns + sub
			targets = append(targets, inside+"/../../../../"+other+"/configmaps", inside+"/%2e%2e/%2e%2e/%2e%2e/"+other+"/configmaps",
				inside+"/..%2f..%2f..%2f..%2f"+other+"/configmaps", inside+"//api/v1/namespaces/"+other, inside+"/x;/../"+other,
				inside+"/%5c..%5c"+other, root+"/proxy/namespaces/"+other+"/services/s", root+"/namespaces/"+p.ns+"/services/..%2f..%2f"+other+"%2fconfigmaps/proxy/",
				root+"/namespaces/"+p.ns+"/services/s:..%2f/proxy/")
		}
		conn, left := dial(t, p.me.base), 0
		for _, target := range targets {
			if left++; left%50 == 0 {
				conn = dial(t, p.me.base)
			}
			before := len(p.about(""))
			conn.say(head(http.MethodGet, target, p.me))
			r := conn.answer()
			if r.header.Get("Connection") == "close" {
				conn = dial(t, p.me.base)
			}
			if r.code >= 300 && r.code < 400 || r.code >= 500 && r.code != http.StatusServiceUnavailable || strings.Contains(r.body, canary) {
				t.Errorf("%s = %d %v %s", target, r.code, r.header, clip(r.body))
			}
			for _, s := range p.about("")[before:] {
				if !slices.Equal(s.header["Impersonate-User"], []string{p.name}) {
					continue
				}
				sent, err := url.ParseRequestURI(s.uri)
				path, _, _ := strings.Cut(s.uri, "?") // a query is no path, whatever it says
				if err != nil || strings.Contains(path, "..") || strings.Contains(path, "//") || strings.ContainsAny(path, "\\;") ||
					strings.Contains(strings.ToLower(sent.EscapedPath()), "%2f") {
					t.Errorf("%s was sent on as %s", target, s.uri)
				}
				// "/api?/v1/..." is a question for /api.
				if r.code == http.StatusOK && sent.Path != own && sent.Path != "/api" && sent.Path != "/api/v1" {
					t.Errorf("%s was sent on as %s, and allowed", target, s.uri)
				}
			}
		}
	}
}
