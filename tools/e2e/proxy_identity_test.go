package e2e

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// door is one way by which a request reaches kube-apiserver.
type door struct {
	name, method, target, body string
	upgrade                    string // the protocol that it asks for
}

// send sends a request through d, with lines of headers as they are and with further names in its Connection header.
func (d door) send(t *testing.T, c caller, connection string, lines ...string) reply {
	t.Helper()
	switch {
	case d.upgrade != "":
		lines = append(lines, "Upgrade: "+d.upgrade, "Connection: Upgrade"+connection)
	case connection != "":
		lines = append(lines, "Connection: close"+connection)
	}
	if d.body != "" {
		lines = append(lines, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(d.body)))
	}
	w := dial(t, c.base)
	w.say(head(d.method, d.target, c, lines...) + d.body)
	return w.answer()
}

// passage is somebody with a role in a namespace, and his ways to kube-apiserver.
type passage struct {
	*recorder
	ns, name string
	me       caller
	doors    []door
}

func newPassage(t *testing.T) *passage {
	t.Helper()
	r, ns, name := recorded(t), newNamespace(t), unique("passenger")
	me := r.as(newUser(t, name))
	all := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	role(t, ns, "passenger", rule{[]string{""}, []string{"configmaps", "pods", "pods/exec", "services/proxy"}, all})
	bind(t, ns, "passenger", map[string]any{"kind": "User", "name": name})
	maps, pod := "/api/v1/namespaces/"+ns+"/configmaps", "/api/v1/namespaces/"+ns+"/pods/p"
	object := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"` + ns + `"}}`
	eventually(t, "the role counts", me.is(http.StatusOK, http.MethodGet, maps))
	eventually(t, "and for writes", me.accepts(http.StatusCreated, http.MethodPost, maps+"?dryRun=All", object))
	refuse := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }
	r.answer(t, ns+"/pods/p/exec", refuse)
	r.answer(t, ns+"/configmaps?watch", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "application/json") })
	return &passage{r, ns, name, me, []door{
		{"a read", http.MethodGet, maps, "", ""},
		{"a read of the named cluster", http.MethodGet, "/clusters/host" + maps, "", ""},
		{"a watch", http.MethodGet, maps + "?watch=true", "", ""},
		{"a write", http.MethodPost, maps + "?dryRun=All", object, ""},
		{"a write of ours", http.MethodPost, "/kapi/v1/namespaces/" + ns + "/configmaps?dryRun=All", object, ""},
		{"a WebSocket", http.MethodGet, pod + "/exec?command=a", "", "websocket"},
		{"SPDY", http.MethodPost, pod + "/exec?command=b", "", "SPDY/3.1"},
	}}
}

// through sends a request through d, and returns what kube-apiserver saw of it.
func (p *passage) through(t *testing.T, d door, connection string, lines ...string) (reply, []seen) {
	t.Helper()
	before := len(p.about(p.ns))
	r := d.send(t, p.me, connection, lines...)
	return r, p.about(p.ns)[before:]
}

var (
	// impersonations are how a client of Kubernetes asks to be somebody else. They are refused.
	impersonations = [][]string{
		{"Impersonate-User: admin"}, {"impersonate-user: admin", "IMPERSONATE-GROUP: system:masters"},
		{"Impersonate-User: admin", "Impersonate-User: system:admin", "Impersonate-Group: system:masters", "Impersonate-Group: kapis:global:platform-admin"},
		{"Impersonate-Uid: 0"}, {"Impersonate-Extra-x: y", "Impersonate-Extra-Scopes%2f: z", "Impersonate-Extra-: z"},
		{"Impersonate-Group: system:masters", "Impersonate-User:", "Impersonate-Uid: 0", "Impersonate-Extra-Scopes%2f: z"},
	}
	// statements are what else a client says of itself that wants to be somebody else at kube-apiserver. They are nothing.
	statements = [][]string{
		{"X-Remote-User: admin", "X-Remote-Group: system:masters", "X-Remote-Uid: 0", "X-Remote-Extra-Scopes: x"}, {"x-remote-user: admin",
			"x-remote-group: system:masters"},
		{"X-KubeSphere-Authorization: Bearer x", "X-KubeSphere-Rawquery: dryRun=All", "x-kubesphere-user: admin"},
		{"Cookie: token=x; refreshToken=y"}, {"Forwarded: for=10.9.9.9;by=admin"},
	}
	// takings are names in a Connection header, by which a client wants a proxy to drop what it added.
	takings = []string{
		", Impersonate-User, Impersonate-Group, Authorization, X-Remote-User", ", impersonate-user",
		"\r\nConnection: Impersonate-Group, Impersonate-Uid\r\nConnection: Impersonate-User",
		",Authorization ,, Impersonate-Extra-Scopes", ", X-Forwarded-For, Host, Content-Length",
	}
)

// By each way there, kube-apiserver sees the caller as this server knows him, whatever he says of himself and whatever he wants to be dropped: S14, and
// S22 for the headers by which a host talked to its members. Who asks for impersonation is refused, the administrator too: S13.
func TestKubeAPIServerSeesTheCallerAndNothingOfWhatHeClaims(t *testing.T) {
	proves(t, "S13", "S14", "S22")
	p := newPassage(t)
	for _, d := range p.doors {
		t.Run(d.name, func(t *testing.T) {
			clean, saw := p.through(t, d, "")
			if len(saw) == 0 {
				t.Fatalf("nothing reached kube-apiserver: %d %s", clean.code, clip(clean.body))
			}
			want := saw[len(saw)-1].identity()
			if user := want["Impersonate-User"]; !slices.Equal(user, []string{p.name}) || len(want["Impersonate-Uid"]) != 1 ||
				!slices.Contains(want["Impersonate-Group"], "kapis:namespace:passenger") {
				t.Fatalf("kube-apiserver saw %v", want)
			}
			check := func(connection string, lines ...string) {
				t.Helper()
				r, saw := p.through(t, d, connection, lines...)
				if r.code == http.StatusBadRequest && len(saw) == 0 {
					return
				}
				if r.code != clean.code || len(saw) == 0 {
					t.Errorf("%q %q: %d %s, want %d", lines, connection, r.code, clip(r.body), clean.code)
				}
				for _, s := range saw {
					if got := s.identity(); !reflect.DeepEqual(got, want) {
						t.Errorf("%q %q: kube-apiserver saw %v, want %v", lines, connection, got, want)
					}
				}
			}
			for _, lines := range statements {
				check("", lines...)
			}
			for _, names := range takings {
				check(names)
				check(names, statements[0]...)
			}
			for _, lines := range impersonations {
				for _, names := range append(takings, "") {
					r, saw := p.through(t, d, names, lines...)
					asked := r.code == http.StatusForbidden && strings.Contains(r.body, "impersonation is not offered")
					if !asked && r.code != http.StatusBadRequest || len(saw) > 0 {
						t.Errorf("%q %q: %d %s, and kube-apiserver saw %v", lines, names, r.code, clip(r.body), saw)
					}
				}
			}
		})
	}
	t.Run("whom nothing is allowed reaches nothing by it", func(t *testing.T) {
		nobody, mark := p.as(newUser(t, unique("claimant"))), unique("marker")
		for _, lines := range append(statements, impersonations...) {
			for _, names := range append(takings, "") {
				for _, target := range []string{"/api/v1/secrets?fieldSelector=metadata.name=" + mark, "/kapi/v1/secrets?name=" + mark, "/api/v1/namespaces/" + p.ns +
					"/pods/" + mark + "/exec"} {
					d := door{method: http.MethodGet, target: target}
					if strings.HasSuffix(target, "exec") {
						d.upgrade = "websocket"
					}
					if r := d.send(t, nobody, names, lines...); r.code != http.StatusForbidden && r.code != http.StatusBadRequest {
						t.Errorf("%s %q %q: %d", target, lines, names, r.code)
					}
				}
			}
		}
		if saw := p.about(mark); len(saw) > 0 {
			t.Errorf("kube-apiserver saw %v", saw)
		}
	})
	t.Run("nor is the administrator anybody else", func(t *testing.T) {
		a := p.as(admin(t))
		mark := unique("marker")
		d := door{method: http.MethodGet, target: "/api/v1/namespaces/" + p.ns + "/configmaps?fieldSelector=metadata.name=" + mark}
		r := d.send(t, a, "", "Impersonate-User: "+p.name, "Impersonate-Group: nobody")
		if saw := p.about(mark); r.code != http.StatusForbidden || len(saw) > 0 {
			t.Errorf("he is told %d %s, and kube-apiserver saw %v", r.code, clip(r.body), saw)
		}
	})
}

// An authenticating proxy has header names of its own. They are nobody else's to send, and neither they nor the usual ones reach a server
// after this one.
func TestNoHeaderOfAnAuthenticatingProxyPasses(t *testing.T) {
	proves(t, "S19")
	p := newPassage(t)
	lines := []string{"X-Ks-Who: admin", "x-ks-who: root", "X-Ks-Teams: system:masters", "X-Ks-Number: 0", "X-Remote-User: admin",
		"X-Remote-Group: system:masters"}
	read := p.doors[0]
	if _, saw := p.through(t, read, "", lines...); len(saw) != 1 || len(saw[0].header["X-Ks-Who"]) != 2 {
		t.Fatalf("before, these were headers like any other; kube-apiserver saw %v", saw)
	}
	_, ca, _ := authority(t)
	name := unique("gate")
	admin(t).create(t, secretsPath, providerSecret(name, "name: "+name+"\ntype: HeaderIdentityProvider\nmappingMethod: auto\nprovider:\n  allowedNames: [gate]\n"+
		"  usernameHeaders: [X-Ks-Who]\n  groupHeaders: [X-Ks-Teams]\n  uidHeaders: [X-Ks-Number]\n  clientCAData: |\n    "+strings.ReplaceAll(strings.TrimSpace(string(ca)), "\n", "\n    ")+"\n"))
	awaitCondition(t, name, "Configured", "True", "")
	eventually(t, "the names are known", func(context.Context) error {
		if _, saw := p.through(t, read, "", lines...); len(saw) != 1 || len(saw[0].header["X-Ks-Who"]) > 0 {
			return fmt.Errorf("kube-apiserver saw %v", saw)
		}
		return nil
	})
	for _, d := range p.doors {
		for _, names := range append(takings, "", ", X-Ks-Who") {
			_, saw := p.through(t, d, names, lines...)
			for _, s := range saw {
				for k, v := range s.identity() {
					if !strings.HasPrefix(k, "Impersonate-") || slices.Contains(v, "admin") || slices.Contains(v, "system:masters") {
						t.Errorf("%s %q: kube-apiserver saw %s: %q", d.name, names, k, v)
					}
				}
			}
		}
	}
	r := door{method: http.MethodGet, target: "/api/v1/secrets"}.send(t, caller{base: p.me.base}, "", lines...)
	if r.code != http.StatusForbidden || !strings.Contains(r.body, "system:anonymous") {
		t.Errorf("without a certificate they name somebody: %d %s", r.code, clip(r.body))
	}
}

// What a query says is what was authorized and what is done: a dry run is one on every way, however often it is said, and a header that rewrites the query
// of a member is nothing to this server.
func TestADryRunDeletesNothingOnAnyWay(t *testing.T) {
	proves(t, "S22")
	p := newPassage(t)
	admin(t).create(t, "/api/v1/namespaces/"+p.ns+"/configmaps", obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "stays"}})
	stays := "/namespaces/" + p.ns + "/configmaps/stays"
	for _, root := range []string{"/api/v1", "/clusters/host/api/v1", "/api/clusters/host/v1", "/kapi/v1", "/clusters/host/kapi/v1"} {
		for query, code := range map[string]int{
			"?dryRun=All": http.StatusOK, "?dryRun=All&dryRun=All": http.StatusOK, "?%64ryRun=%41ll": http.StatusOK, "?gracePeriodSeconds=0&dryRun=All": http.StatusOK,
			"?dryRun=Some": 0, "?dryRun=All&dryRun=Some": 0, "?dryRun=all": 0,
		} {
			for _, lines := range [][]string{nil, {"X-KubeSphere-Rawquery: gracePeriodSeconds=0"}, {"X-KubeSphere-Rawquery: ",
				"X-KubeSphere-Authorization: Bearer " + admin(t).token}} {
				r := door{method: http.MethodDelete, target: root + stays + query}.send(t, p.me, "", lines...)
				if code == http.StatusOK && r.code != code || code == 0 && r.code < 400 {
					t.Errorf("%s%s %q: %d %s", root, query, lines, r.code, clip(r.body))
				}
				p.me.must(t, http.StatusOK, http.MethodGet, "/api/v1"+stays, nil)
			}
		}
		for _, body := range []string{`{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`,
			`{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All","All"]}`} {
			p.me.must(t, http.StatusOK, http.MethodDelete, root+stays, body)
			p.me.must(t, http.StatusOK, http.MethodGet, "/api/v1"+stays, nil)
		}
	}
	for _, s := range p.about(stays) {
		if s.method == http.MethodDelete && strings.Contains(s.uri, "gracePeriodSeconds=0") && !strings.Contains(s.uri, "dryRun=All") {
			t.Errorf("a query was rewritten: %s", s.uri)
		}
	}
}
