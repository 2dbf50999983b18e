package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
)

const (
	catalogue = "/apis/kubesphere.io/v1alpha1"
	packages  = "/kapis/package.kubesphere.io/v1alpha1"
)

// museum is a chart repository that wants a password, has an own host for some charts, and can break off.
type museum struct {
	*httptest.Server
	elsewhere *httptest.Server

	mu     sync.Mutex
	index  string
	cut    bool
	charts map[string][]byte
	asked  map[string]int
	leaked []string
}

func newMuseum(t *testing.T) *museum {
	t.Helper()
	m := &museum{charts: map[string][]byte{}, asked: map[string]int{}}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ann" || password != canary {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		m.serve(w, r)
	}))
	m.elsewhere = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		if r.Header.Get("Authorization") != "" {
			m.leaked = append(m.leaked, r.URL.Path)
		}
		m.mu.Unlock()
		m.serve(w, r)
	}))
	t.Cleanup(m.Close)
	t.Cleanup(m.elsewhere.Close)
	return m
}

func (m *museum) serve(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[r.URL.Path]++
	body, ok := m.charts[strings.TrimPrefix(r.URL.Path, "/charts/")]
	if r.URL.Path == "/charts/index.yaml" {
		body, ok = []byte(m.index), true
	}
	switch {
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	case m.cut:
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	default:
		_, _ = w.Write(body)
	}
}

// has sets what the index has: the versions of an extension, and entries as they are.
func (m *museum) has(t *testing.T, extension string, cut bool, versions []string, entries string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nentries:\n%s  %s:\n", entries, extension)
	for _, v := range versions {
		raw := packedChart(t, extension, v)
		sum, host := sha256.Sum256(raw), ""
		if v == "2.0.0" {
			host = m.elsewhere.URL + "/charts/"
		}
		m.charts[extension+"-"+v+".tgz"] = raw
		fmt.Fprintf(&b, "  - name: %s\n    version: %s\n    digest: %s\n    created: \"2026-11-21T00:00:00Z\"\n    urls:\n    - %s%s-%s.tgz\n",
			extension, v, hex.EncodeToString(sum[:]), host, extension, v)
	}
	b.WriteString("generated: \"2026-11-21T00:00:00Z\"\n")
	m.index, m.cut = b.String(), cut
}

// packedChart returns the chart of an extension. Version 2.0.0 is for a platform that there is not yet.
func packedChart(t *testing.T, name, version string) []byte {
	t.Helper()
	needs := ">=4.0.0"
	if version == "2.0.0" {
		needs = ">=99.0.0"
	}
	return charttest.Pack(t, name, map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: " + name + "\nversion: " + version + "\n",
		"extension.yaml": "apiVersion: kubesphere.io/v1alpha1\nname: " + name + "\nversion: " + version + "\ndisplayName: {en: The Shop, zh: 商店}\n" +
			"category: database\nksVersion: '" + needs + "'\ninstallationMode: HostOnly\nprovider: {en: {name: Shops}}\nicon: static/icon.svg\n",
		"static/icon.svg": "<svg/>",
		"values.yaml":     "a: 1\n",
	})
}

// resync has a repository be read at once.
func (c caller) resync(t *testing.T, repository string) {
	t.Helper()
	c.must(t, http.StatusOK, http.MethodPatch, catalogue+"/repositories/"+repository,
		`{"metadata":{"annotations":{"kapis.dev/sync":"`+unique("nonce")+`"}}}`, asMerge)
}

// X16, X17, X37: a repository that somebody adds is the catalogue of its extensions; what is broken in it changes nothing else, and what is
// installed stays.
func TestARepositoryIsACatalogueOfExtensions(t *testing.T) {
	a, m, name, repo := admin(t), newMuseum(t), unique("shop"), unique("museum")
	const bad = "  Bad_Name:\n  - {name: Bad_Name, version: 1.0.0, urls: [x.tgz]}\n  broken:\n  - [\n"
	m.has(t, name, false, []string{"1.0.0", "2.0.0", "1.1.0"}, bad)
	a.create(t, catalogue+"/repositories", obj{"apiVersion": "kubesphere.io/v1alpha1", "kind": "Repository", "metadata": obj{"name": repo},
		"spec": obj{"url": m.URL + "/charts", "basicAuth": obj{"username": "ann", "password": canary}}})
	extension, version := catalogue+"/extensions/"+name, func(v string) string { return catalogue + "/extensionversions/" + name + "-" + v }
	const all = `"versions":[{"creationTimestamp":"2026-11-21T00:00:00Z","version":"2.0.0"},{"creationTimestamp":"2026-11-21T00:00:00Z","version":"1.1.0"},` +
		`{"creationTimestamp":"2026-11-21T00:00:00Z","version":"1.0.0"}]`
	eventually(t, "all versions are in the catalogue", a.answersWith(http.StatusOK, extension, all))
	for path, want := range map[string][]string{
		extension:                           {`"recommendedVersion":"1.1.0"`, `"en":"The Shop"`, `"kubesphere.io/category":"database"`, `"kubesphere.io/repository-ref":"` + repo + `"`},
		version("1.1.0"):                    {`"ksVersion":"\u003e=4.0.0"`, `"repository":"` + repo + `"`, `"icon":"data:image/svg+xml;base64,PHN2Zy8+"`, `"type":"ChartRead"`},
		catalogue + "/repositories/" + repo: {`"type":"EntriesValid"`, "2 entries are left out", "Bad_Name", "broken: it can't be read"},
		catalogue + "/extensions":           {`"name":"` + name + `"`, `"status":{`},
		"/kapis/kubesphere.io/v1alpha1/extensions?limit=-1&q=" + name:        {`"name":"` + name + `"`, all, "remainingItemCount"},
		"/kapis/kubesphere.io/v1alpha1/extensionversions/" + name + "-1.0.0": {`"version":"1.0.0"`},
	} {
		eventually(t, path+" says so", func(ctx context.Context) error { // each by a controller of its own, or from a cache
			r, err := a.do(ctx, http.MethodGet, path, nil)
			if strings.Contains(r.body, canary) {
				t.Errorf("%s has the password", path)
			}
			for _, text := range want {
				has := strings.Contains(r.body, text) || strings.Contains(r.body, strings.ReplaceAll(text, `\u003e`, ">"))
				if err == nil && (r.code != http.StatusOK || !has) {
					err = fmt.Errorf("%d, it has no %s: %s", r.code, text, r.body)
				}
			}
			return err
		})
	}
	eventually(t, "its category counts it", a.answersWith(http.StatusOK, catalogue+"/categories/database", `"kubesphere.io/count":"1"`))
	if out, err := superuser(t, "", "get", "extensions", name); err != nil || !strings.Contains(out, "1.1.0") || !strings.Contains(out, "The Shop") {
		t.Errorf("kubectl: %s %v", out, err)
	}
	m.filesAreServed(t, name)

	m.has(t, name, true, []string{"3.0.0"}, "")
	a.resync(t, repo)
	eventually(t, "a cut off index is told", a.answersWith(http.StatusOK, catalogue+"/repositories/"+repo, "only a part of the index"))
	if body := a.must(t, http.StatusOK, http.MethodGet, extension, nil).body; !strings.Contains(body, all) {
		t.Errorf("a cut off index changes versions: %s", body)
	}

	plan := catalogue + "/installplans"
	a.create(t, plan, obj{"apiVersion": "kubesphere.io/v1alpha1", "kind": "InstallPlan", "metadata": obj{"name": name},
		"spec": obj{"extension": obj{"name": name, "version": "1.1.0"}, "enabled": true}})
	eventually(t, "the plan is mirrored", a.answersWith(http.StatusOK, extension, `"plannedInstallVersion":"1.1.0"`))
	m.has(t, name, false, []string{"3.0.0"}, "")
	a.resync(t, repo)
	eventually(t, "what is gone goes", a.is(http.StatusNotFound, http.MethodGet, version("1.0.0")))
	eventually(t, "what is installed stays", a.answersWith(http.StatusOK, version("1.1.0"), `"type":"Orphaned"`))
	for _, path := range []string{extension, version("1.1.0")} {
		r := a.must(t, http.StatusConflict, http.MethodDelete, path, nil)
		if !strings.Contains(r.body, "InstallPlan "+name) {
			t.Errorf("DELETE %s: %s", path, r.body)
		}
	}
	a.must(t, http.StatusOK, http.MethodDelete, plan+"/"+name, nil)
	eventually(t, "an orphan goes when nothing uses it", a.is(http.StatusNotFound, http.MethodGet, version("1.1.0")))
	eventually(t, "the new version is recommended", a.answersWith(http.StatusOK, extension, `"recommendedVersion":"3.0.0"`))
	a.must(t, http.StatusOK, http.MethodDelete, catalogue+"/repositories/"+repo, nil)
	eventually(t, "nothing is left of a repository that is gone", a.is(http.StatusNotFound, http.MethodGet, extension))
	a.must(t, http.StatusNotFound, http.MethodGet, version("3.0.0"), nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.leaked) > 0 || m.asked["/charts/"+name+"-2.0.0.tgz"] == 0 {
		t.Errorf("the credentials of the repository went to another host: %v; it was asked %v", m.leaked, m.asked)
	}
}

// filesAreServed holds that who may read them gets the files of a chart, which ks-apiserver fetches once. ks-controller-manager had to, and does
// so again where another of its controllers has changed the version meanwhile.
func (m *museum) filesAreServed(t *testing.T, name string) {
	t.Helper()
	a, path := admin(t), packages+"/extensionversions/"+name+"-1.1.0/files"
	fetched := func() int {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.asked["/charts/"+name+"-1.1.0.tgz"]
	}
	before := fetched()
	for range 3 {
		var files []struct {
			Name string
			Data []byte
		}
		body := a.must(t, http.StatusOK, http.MethodGet, path, nil).body
		if err := json.Unmarshal([]byte(body), &files); err != nil || len(files) != 4 || files[0].Name != "Chart.yaml" || string(files[3].Data) != "a: 1\n" {
			t.Fatalf("%s %v", body, err)
		}
	}
	if n := fetched(); before == 0 || n != before+1 {
		t.Errorf("the chart was fetched %d times, and then %d times", before, n-before)
	}
	a.must(t, http.StatusNotFound, http.MethodGet, packages+"/extensionversions/"+name+"-9.9.9/files", nil)
	newUser(t, unique("stranger")).must(t, http.StatusForbidden, http.MethodGet, path, nil)
	anonymous().must(t, http.StatusForbidden, http.MethodGet, path, nil)
	reader := withRole(t, unique("reader"), obj{"rules": []rule{{[]string{"package.kubesphere.io"}, []string{"extensionversions/files"}, []string{"get"}}}})
	eventually(t, "the right counts", reader.answersWith(http.StatusOK, path, "extension.yaml"))
	gone := unique("gone")
	a.create(t, catalogue+"/extensionversions", obj{"apiVersion": "kubesphere.io/v1alpha1", "kind": "ExtensionVersion", "metadata": obj{"name": gone + "-1.0.0"},
		"spec": obj{"version": "1.0.0", "chartURL": m.URL + "/charts/none.tgz"}})
	eventually(t, "a chart that can't be read is 502", func(ctx context.Context) error {
		return a.answersWith(http.StatusBadGateway, packages+"/extensionversions/"+gone+"-1.0.0/files", "check spec.basicAuth")(ctx)
	})
	a.must(t, http.StatusOK, http.MethodDelete, catalogue+"/extensionversions/"+gone+"-1.0.0", nil)
}
