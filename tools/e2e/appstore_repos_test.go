package e2e

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// hasApp sets what the index has: one application with these versions.
func (m *museum) hasApp(t *testing.T, app string, versions ...string) {
	t.Helper()
	m.has(t, app, false, versions, "  broken:\n  - [\n")
}

// repoIs returns a condition: a Repo has a state, and an Event of it has a text.
func (c caller) repoIs(path, state, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.do(ctx, http.MethodGet, path, nil)
		if err == nil && !strings.Contains(r.body, `"state":"`+state+`"`) {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		if err != nil {
			return err
		}
		return c.answersWith(http.StatusOK, path+"/events", text)(ctx)
	}
}

// X28, X29, X32: a workspace adds a repository, whose applications are its own; its credential is shown to nobody, and goes to no other host.
func TestARepositoryIsACatalogueOfApplications(t *testing.T) {
	a, m := admin(t), newMuseum(t)
	one := unique("repos")
	owner, other := newTenant(t, one+"-a"), newTenant(t, one+"-b")
	repos := storeAPI + "/workspaces/" + owner.workspace + "/repos"
	name, app := unique("museum"), "shop"
	repo, object := repos+"/"+name, name+"-"+app
	withPassword := strings.Replace(m.URL, "://", "://ann:"+canary+"@", 1) + "/charts"
	body := func(url string, credential obj) obj {
		return obj{"metadata": obj{"name": name}, "spec": obj{"url": url, "syncPeriod": 0, "credential": credential}}
	}
	m.hasApp(t, app, "1.0.0", "1.1.0")
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, storeKube+"/repos/"+name, nil) })

	step(t, "an index is looked at", func(t *testing.T) { validatesRepos(t, owner.caller, repos, body, m, withPassword) })
	step(t, "it becomes applications", func(t *testing.T) {
		if got := owner.must(t, http.StatusOK, http.MethodPost, repos, body(withPassword, nil)).body; got != `{"repo_id":"`+name+`"}` {
			t.Errorf("%s", got)
		}
		owner.must(t, http.StatusConflict, http.MethodPost, repos, body(withPassword, nil))
		eventually(t, "it is read", owner.repoIs(repo, "successful", "broken: it can't be read"))
		for path, want := range map[string][]string{
			repos: {`"name":"` + name + `"`, `"totalItems":`},
			storeKube + "/applications/" + object: {`"state":"active"`, `"kubesphere.io/workspace":"` + owner.workspace + `"`,
				`"application.kubesphere.io/latest-app-version":"1.1.0"`, `"application.kubesphere.io/repo-name":"` + name + `"`},
			storeKube + "/applicationversions/" + object + "-1.0.0": {`"state":"active"`, `"versionName":"1.0.0"`, m.URL + "/charts/shop-1.0.0.tgz"},
		} {
			reader := a
			if strings.HasPrefix(path, repos) {
				reader = owner.caller
			}
			got := reader.must(t, http.StatusOK, http.MethodGet, path, nil).body
			for _, text := range want {
				if !strings.Contains(got, text) {
					t.Errorf("%s has no %s: %s", path, text, clip(got))
				}
			}
		}
	})
	step(t, "nobody sees its credential", func(t *testing.T) {
		if !strings.Contains(stored(t, storeKube+"/repos/"+name), canary) {
			t.Fatal("there is nothing to see")
		}
		for _, path := range []string{repos, repo, repo + "/events", storeAPI + "/repos", storeAPI + "/repos/" + name, storeKube + "/repos/" + name,
			storeKube + "/repos", "/api/v1/namespaces/default/events", storeKube + "/applicationversions"} {
			if got := a.must(t, http.StatusOK, http.MethodGet, path, nil).body; strings.Contains(got, canary) || strings.Contains(got, "ann:") {
				t.Errorf("%s shows the credential", path)
			}
		}
	})
	step(t, "another workspace has none of it", func(t *testing.T) {
		foreign := storeAPI + "/workspaces/" + other.workspace + "/repos"
		if got := other.must(t, http.StatusOK, http.MethodGet, foreign, nil).body; strings.Contains(got, name) {
			t.Errorf("%s", clip(got))
		}
		for _, c := range []struct {
			method, path string
			body         any
		}{
			{http.MethodGet, "/" + name, nil}, {http.MethodGet, "/" + name + "/events", nil}, {http.MethodDelete, "/" + name, nil},
			{http.MethodPost, "/" + name + "/action", nil}, {http.MethodPatch, "/" + name, obj{"spec": obj{"description": "x"}}},
		} {
			other.must(t, http.StatusNotFound, c.method, foreign+c.path, c.body)
			other.must(t, http.StatusForbidden, c.method, repos+c.path, c.body)
		}
		other.must(t, http.StatusForbidden, http.MethodPost, repos+"?validate=true", body(m.URL, nil))
		other.must(t, http.StatusForbidden, http.MethodDelete, storeKube+"/repos/"+name, nil)
	})
	step(t, "it is read by hand", func(t *testing.T) {
		m.hasApp(t, app, "1.0.0", "1.1.0", "2.0.0")
		owner.must(t, http.StatusOK, http.MethodPost, repo+"/action", nil)
		eventually(t, "the new version is there", a.is(http.StatusOK, http.MethodGet, storeKube+"/applicationversions/"+object+"-2.0.0"))
		m.has(t, app, true, []string{"3.0.0"}, "")
		owner.must(t, http.StatusOK, http.MethodPost, repo+"/action", nil)
		eventually(t, "a failure is told", owner.repoIs(repo, "failed", "only a part of the index"))
		a.must(t, http.StatusOK, http.MethodGet, storeKube+"/applicationversions/"+object+"-1.0.0", nil)
		m.hasApp(t, app, "1.0.0", "1.1.0", "2.0.0")
		owner.must(t, http.StatusOK, http.MethodPost, repo+"/action", nil)
		eventually(t, "it is well again", owner.repoIs(repo, "successful", "only a part of the index"))
	})
	step(t, "a package is fetched when it is asked for", func(t *testing.T) {
		versions := storeAPI + "/workspaces/" + owner.workspace + "/apps/" + object + "/versions/" + object + "-"
		for version, path := range map[string]string{"1.0.0": "/charts/shop-1.0.0.tgz", "2.0.0": "/charts/shop-2.0.0.tgz"} { // the latter is elsewhere
			for range 2 {
				got := decode[struct {
					Package []byte `json:"package"`
				}](t, owner.must(t, http.StatusOK, http.MethodGet, versions+version+"/package", nil).body)
				m.mu.Lock()
				if string(got.Package) != string(m.charts["shop-"+version+".tgz"]) || m.asked[path] != 1 {
					t.Errorf("%s: %d bytes; it was fetched %d times", version, len(got.Package), m.asked[path])
				}
				m.mu.Unlock()
			}
		}
	})
	step(t, "its credential goes to no other host", func(t *testing.T) {
		owner.must(t, http.StatusOK, http.MethodPatch, repo, obj{"spec": obj{"description": "of all shops"}})
		if !strings.Contains(stored(t, storeKube+"/repos/"+name), canary) {
			t.Error("a change of another field lost the credential")
		}
		owner.must(t, http.StatusOK, http.MethodPatch, repo, obj{"spec": obj{"url": m.elsewhere.URL + "/charts"}})
		if got := stored(t, storeKube+"/repos/"+name); strings.Contains(got, canary) || !strings.Contains(got, "of all shops") {
			t.Errorf("with another host it is %s", clip(got))
		}
		eventually(t, "it is read there", a.answersWith(http.StatusOK, storeKube+"/applicationversions/"+object+"-1.0.0", m.elsewhere.URL))
	})
	step(t, "it goes with its applications, but for what is used", func(t *testing.T) { removesRepo(t, a, owner, repo, object) })
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.leaked) > 0 {
		t.Errorf("the credential went to another host: %v", m.leaked)
	}
}

// validatesRepos holds what is answered for the index of a repository that is only looked at.
func validatesRepos(t *testing.T, owner caller, repos string, body func(string, obj) obj, m *museum, withPassword string) {
	t.Helper()
	secure := httptest.NewTLSServer(http.HandlerFunc(m.serve))
	t.Cleanup(secure.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	leads := func(to string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }))
		t.Cleanup(s.Close)
		return strings.Replace(s.URL, "://", "://ann:"+canary+"@", 1)
	}
	for claim, c := range map[string]struct {
		code       int
		url        string
		credential obj
		say        string
	}{
		"with a password in its URL":      {200, withPassword, nil, `{"ok":true}`},
		"with a credential":               {200, m.URL + "/charts", obj{"username": "ann", "password": canary}, `{"ok":true}`},
		"without a password":              {502, m.URL + "/charts", nil, "check spec.credential"},
		"of an unknown authority":         {502, secure.URL + "/charts", nil, "spec.credential.caFile"},
		"of its own authority":            {200, secure.URL + "/charts", obj{"caFile": string(authority)}, `{"ok":true}`},
		"of its own authority, in base64": {200, secure.URL + "/charts", obj{"caFile": base64.StdEncoding.EncodeToString(authority)}, `{"ok":true}`},
		"that is declared insecure":       {200, secure.URL + "/charts", obj{"insecureSkipTLSVerify": true}, `{"ok":true}`},
		"with a path for its authority":   {400, secure.URL + "/charts", obj{"caFile": "/etc/ssl/certs/ca-certificates.crt"}, "no certificate in PEM"},
		"that leads elsewhere":            {200, leads(m.elsewhere.URL + "/charts/index.yaml"), nil, `{"ok":true}`},
		"that leads to metadata":          {502, leads("http://169.254.169.254/latest"), nil, "metadata address"},
		"at a metadata address":           {502, "http://169.254.169.254", nil, "metadata address"},
		"that is a file":                  {400, "file:///etc/passwd", nil, "no http, https or oci URL"},
		"at no path of a registry":        {400, "oci://registry.example.com/Charts", nil, "no name of a repository in a registry"},
		"that is a chart":                 {502, m.elsewhere.URL + "/charts/shop-1.0.0.tgz", nil, "answers 404"},
	} {
		got := owner.must(t, c.code, http.MethodPost, repos+"?validate=true", body(c.url, c.credential)).body
		if !strings.Contains(got, c.say) || strings.Contains(got, canary) {
			t.Errorf("%s: %s", claim, clip(got))
		}
	}
	if got := owner.must(t, http.StatusOK, http.MethodGet, repos, nil).body; strings.Contains(got, "museum") {
		t.Errorf("to look at an index writes %s", clip(got))
	}
}

// removesRepo holds what stays of a repository that is removed, and how long.
func removesRepo(t *testing.T, a caller, owner tenant, repo, app string) {
	t.Helper()
	release, version := unique("release"), storeKube+"/applicationversions/"+app+"-1.0.0"
	a.create(t, storeKube+"/applicationreleases", obj{"apiVersion": "application.kubesphere.io/v2", "kind": "ApplicationRelease",
		"metadata": obj{"name": release, "annotations": obj{"application.kubesphere.io/req-user": "admin"}, "labels": obj{
			workspaceLabel: owner.workspace, "application.kubesphere.io/app-id": app, "application.kubesphere.io/appversion-id": app + "-1.0.0"}},
		"spec": obj{"appID": app, "appVersionID": app + "-1.0.0", "appType": "helm"}})
	if got := owner.must(t, http.StatusOK, http.MethodDelete, repo, nil).body; got != `{"message":"success"}` {
		t.Errorf("%s", got)
	}
	owner.must(t, http.StatusNotFound, http.MethodDelete, repo, nil)
	eventually(t, "what nobody uses goes", a.is(http.StatusNotFound, http.MethodGet, storeKube+"/applicationversions/"+app+"-1.1.0"))
	for _, path := range []string{version, storeKube + "/applications/" + app} {
		a.must(t, http.StatusOK, http.MethodGet, path, nil)
	}
	a.must(t, http.StatusOK, http.MethodDelete, storeKube+"/applicationreleases/"+release, nil)
	eventually(t, "what was used goes", a.is(http.StatusNotFound, http.MethodGet, version))
	eventually(t, "and its application", a.is(http.StatusNotFound, http.MethodGet, storeKube+"/applications/"+app))
}

// X32: everybody who sees a repository sees its address, so nobody writes a password there: through ks-apiserver it moves to the credential, and
// kube-apiserver refuses it.
func TestAPasswordInTheURLOfARepoIsRefused(t *testing.T) {
	a, m, name := admin(t), newMuseum(t), unique("museum")
	m.hasApp(t, "shop", "1.0.0")
	with := strings.Replace(m.URL, "://", "://ann:"+canary+"@", 1) + "/charts"
	repo := func(group, kind, url string) obj {
		return obj{"apiVersion": group, "kind": kind, "metadata": obj{"name": name}, "spec": obj{"url": url}}
	}
	const repositories = "/apis/kubesphere.io/v1alpha1/repositories"
	for _, url := range []string{with, "https://" + canary + "@charts.example.com", "oci://ann:" + canary + "@charts.example.com/x",
		"//ann:" + canary + "@charts.example.com"} {
		for path, body := range map[string]obj{storeKube + "/repos": repo("application.kubesphere.io/v2", "Repo", url),
			repositories: repo("kubesphere.io/v1alpha1", "Repository", url)} {
			if r := a.must(t, http.StatusUnprocessableEntity, http.MethodPost, path, body); strings.Contains(r.body, canary) {
				t.Errorf("%s repeats the password: %s", path, clip(r.body))
			}
			a.must(t, http.StatusNotFound, http.MethodGet, path+"/"+name, nil)
		}
	}
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, storeKube+"/repos/"+name, nil) })
	a.must(t, http.StatusOK, http.MethodPost, storeAPI+"/repos", repo("application.kubesphere.io/v2", "Repo", with))
	own := obj{"username": "ann", "password": unique("password")} // an address without it is refused for another reason
	a.must(t, http.StatusUnprocessableEntity, http.MethodPatch, storeKube+"/repos/"+name, obj{"spec": obj{"url": with, "credential": own}}, asMerge)
	a.must(t, http.StatusOK, http.MethodPatch, storeKube+"/repos/"+name, obj{"spec": obj{"description": "a@b"}}, asMerge)
	spec := decode[struct {
		Spec struct {
			URL        string
			Credential struct{ Username, Password string }
		}
	}](t, stored(t, storeKube+"/repos/"+name)).Spec
	if spec.URL != m.URL+"/charts" || spec.Credential.Username != "ann" || spec.Credential.Password != canary {
		t.Errorf("%s %s", spec.URL, spec.Credential.Username)
	}
}
