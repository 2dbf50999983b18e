package repo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	restful "github.com/emicklei/go-restful/v3"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/kapis/application/repo"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scopetest"
)

// world is the routes, with chart repositories that they may look at.
type world struct {
	*scopetest.World
	t            *testing.T
	museum, away *httptest.Server
	mu           sync.Mutex
	asked        []string // "museum|away path user:password"
	// hold keeps what asks below /hold, which says so to held.
	hold, held chan struct{}
}

func (w *world) serve(name string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		w.mu.Lock()
		w.asked = append(w.asked, strings.TrimSuffix(name+" "+r.URL.Path+" "+user+":"+password, " :"))
		w.mu.Unlock()
		switch {
		case strings.HasPrefix(r.URL.Path, "/none"):
			out.WriteHeader(http.StatusNotFound)
		case strings.HasPrefix(r.URL.Path, "/metadata"):
			http.Redirect(out, r, "http://169.254.169.254/latest", http.StatusFound)
		case strings.HasPrefix(r.URL.Path, "/hold"):
			w.held <- struct{}{}
			<-w.hold
			fallthrough
		default:
			_, _ = out.Write([]byte("apiVersion: v1\nentries: {}\ngenerated: x\n"))
		}
	}))
	w.t.Cleanup(s.Close)
	return s
}

// Repo implements source.Repos.
func (w *world) Repo(_ context.Context, name string) (*v2.Repo, error) {
	raw, err := json.Marshal(w.Live("repos", name))
	if err != nil {
		return nil, err
	}
	out := &v2.Repo{}
	if err := json.Unmarshal(raw, out); err != nil || out.Name == "" {
		return nil, err
	}
	return out, nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, hold: make(chan struct{}), held: make(chan struct{}, 3)}
	w.museum, w.away = w.serve("museum"), w.serve("away")
	of := func(name, workspace, path string) map[string]any {
		o := scopetest.Object("repos", name, workspace, "successful", nil)
		o["spec"] = map[string]any{"url": w.museum.URL + path, "description": "of " + workspace, "syncPeriod": 600,
			"credential": map[string]any{"username": "ann", "password": "canary", "caFile": ""}}
		return o
	}
	event := func(name, uid, kind string) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": name, "namespace": "default", "uid": "e-" + name}, "reason": "Synced",
			"involvedObject": map[string]any{"kind": kind, "name": "of-a", "uid": uid}}
	}
	w.World = scopetest.New(t, map[string][]map[string]any{
		"repos": {of("of-a", "a", "/a"), of("of-b", "b", "/b"), of("shared", "", "/s")},
		"/api/v1/namespaces/default/events": {event("one", "u-of-a", "Repo"), event("former", "u-former", "Repo"),
			event("other", "u-of-b", "Repo"), event("pod", "u-of-a", "Pod")},
		"/api/v1/events": {event("one", "u-of-a", "Repo"), event("former", "u-former", "Repo"), event("other", "u-of-b", "Repo"),
			event("pod", "u-of-a", "Pod")},
	}, func(s *scope.Store, ws *restful.WebService) {
		repo.New(s, source.New(egress.Options{AllowLoopback: true}), w).Routes(ws)
	})
	w.Users = map[string]scopetest.Rights{
		"admin":  {Platform: []string{"*"}},
		"ann":    {Workspaces: map[string][]string{"a": {"*"}}},
		"bob":    {Workspaces: map[string][]string{"b": {"*"}}},
		"viewer": {Workspaces: map[string][]string{"a": {"get repos", "list repos", "get repos/events", "list repos/events"}}},

		"system:serviceaccount:shop:one": {Workspaces: map[string][]string{"a": {"*"}}},
		"system:serviceaccount:shop:two": {Workspaces: map[string][]string{"a": {"*"}}},
	}
	return w
}

// requests returns what the repositories were asked since the last call.
func (w *world) requests() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := strings.Join(w.asked, ", ")
	w.asked = nil
	return out
}

// spec returns the spec of a Repo as kube-apiserver has it.
func (w *world) spec(name string) *v2.RepoSpec {
	is, err := w.Repo(w.t.Context(), name)
	if err != nil || is == nil {
		w.t.Fatal(name, err)
	}
	return &is.Spec
}

func TestX28AWorkspaceSeesItsReposAndTheSystems(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		who, path string
		want      string
	}{
		{"ann", "/workspaces/a/repos", "of-a shared"},
		{"viewer", "/workspaces/a/repos?conditions=status=active&sortBy=creationTimestamp&limit=10&page=1", "of-a shared"},
		{"admin", "/workspaces/b/repos", "of-b shared"},
		{"admin", "/repos", "of-a of-b shared"},
		{"ann", "/repos", "of-a shared"},
	} {
		body := w.Expect(http.StatusOK, c.who, http.MethodGet, c.path, "")
		got := scopetest.Names(t, body)
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s sees %v at %s, want %s", c.who, got, c.path, c.want)
		}
		if strings.Contains(body, "canary") || strings.Contains(body, "credential") {
			t.Errorf("%s: %s", c.path, body)
		}
	}
	for _, path := range []string{"/workspaces/a/repos/of-a", "/workspaces/a/repos/shared"} {
		if body := w.Expect(http.StatusOK, "viewer", http.MethodGet, path, ""); strings.Contains(body, "canary") || !strings.Contains(body, `"kind":"Repo"`) {
			t.Errorf("%s: %s", path, body)
		}
	}
	if got := scopetest.Names(t, w.Expect(http.StatusOK, "viewer", http.MethodGet, "/workspaces/a/repos/of-a/events", "")); strings.Join(got, " ") != "one" {
		t.Errorf("events are %v", got)
	}
	// Nothing of another workspace is seen or changed, by whatever path and method.
	for _, c := range []struct{ method, path, body string }{
		{http.MethodGet, "/workspaces/a/repos/of-b", ""}, {http.MethodGet, "/workspaces/a/repos/of-b/events", ""},
		{http.MethodPatch, "/workspaces/a/repos/of-b", `{"spec":{"description":"x"}}`},
		{http.MethodPatch, "/workspaces/a/repos/shared", `{"spec":{"description":"x"}}`},
		{http.MethodPatch, "/workspaces/a/repos/of-b?validate=true", `{}`},
		{http.MethodDelete, "/workspaces/a/repos/of-b", ""}, {http.MethodDelete, "/workspaces/a/repos/shared", ""},
		{http.MethodPost, "/workspaces/a/repos/of-b/action", ""}, {http.MethodPost, "/workspaces/a/repos/shared/action", ""},
		{http.MethodGet, "/workspaces/a/repos/none", ""}, {http.MethodDelete, "/workspaces/a/repos/none", ""},
	} {
		w.Expect(http.StatusNotFound, "ann", c.method, c.path, c.body)
	}
	if got := w.Writes(); len(got) > 0 || w.requests() != "" {
		t.Errorf("written: %v", got)
	}
}

func TestX32ARepoIsAddedWhenItsIndexIsThere(t *testing.T) {
	w := newWorld(t)
	withPassword := strings.Replace(w.museum.URL, "://", "://ann:canary@", 1)
	body := func(name, url, more string) string {
		return fmt.Sprintf(`{"apiVersion":"x","kind":"HelmRepo","metadata":{"name":%q,"labels":{"kubesphere.io/workspace":"b","x":"y"},`+
			`"finalizers":["f"],"ownerReferences":[{"kind":"Repo"}],"annotations":{"kubesphere.io/alias-name":"Al","application.kubesphere.io/req-user":"eve",`+
			`"kubectl.kubernetes.io/last-applied-configuration":"canary"}},"spec":{"url":%q%s},"status":{"state":"successful"}}`, name, url, more)
	}
	if got := w.Expect(http.StatusOK, "ann", http.MethodPost, "/workspaces/a/repos?validate=1", body("new", withPassword, "")); got != `{"ok":true}` {
		t.Errorf("%s", got)
	}
	if got := w.requests(); got != "museum /index.yaml ann:canary" || len(w.Writes()) > 0 {
		t.Errorf("asked %s", got)
	}
	got := w.Expect(http.StatusOK, "ann", http.MethodPost, "/workspaces/a/repos", body("new", withPassword, `,"syncPeriod":0,"unknown":1`))
	if got != `{"repo_id":"new"}` {
		t.Errorf("%s", got)
	}
	raw, _ := json.Marshal(w.Live("repos", "new"))
	for _, want := range []string{`"url":"` + w.museum.URL + `"`, `"password":"canary"`, `"username":"ann"`, `"kubesphere.io/workspace":"a"`,
		`"application.kubesphere.io/req-user":"ann"`, `"kubesphere.io/creator":"ann"`, `"kubesphere.io/alias-name":"Al"`, `"kind":"Repo"`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s has no %s", raw, want)
		}
	}
	for _, no := range []string{"finalizers", "ownerReferences", "last-applied", `"x":"y"`, "eve", "@", "successful"} {
		if strings.Contains(string(raw), no) {
			t.Errorf("%s has %s", raw, no)
		}
	}
	w.Writes()
	for _, c := range []struct {
		code             int
		name, url, more  string
		say              string
		validates, asked bool
	}{
		{409, "new", w.museum.URL, "", "already exists", false, true},
		{400, "upload", w.museum.URL, "", "people upload", true, false},
		{400, strings.Repeat("a", 49), w.museum.URL, "", "48 letters", true, false},
		{400, "A/../b", w.museum.URL, "", "no name", false, true},
		{400, "n", w.museum.URL, `,"syncPeriod":179`, "at least 180", true, false},
		{400, "n", w.museum.URL, `,"syncPeriod":-1`, "at least 180", true, false},
		{400, "n", w.museum.URL, `,"credential":{"password":7}`, "no Repo as JSON", true, false},
		{400, "n", w.museum.URL, `,"credential":{"caFile":"/etc/passwd"}`, "no certificate in PEM", true, false},
		{400, "n", "", "", "no http, https or oci URL", true, false},
		{400, "n", "file:///etc/passwd", "", "no http, https or oci URL", true, false},
		{400, "n", "oci://canary@registry.example.com/X", "", "no name of a repository in a registry", true, false},
		{400, "n", "oci://registry.example.com/x?token=canary", "", "a query is not taken", true, false},
		{502, "n", "oci://169.254.169.254/x", "", "metadata address", true, false},
		{400, "n", w.museum.URL + "?token=canary", "", "a query is not taken", true, false},
		{400, "n", w.museum.URL + "/" + strings.Repeat("a", 2048), "", "2048 letters", true, false},
		{502, "n", w.museum.URL + "/none", "", "answers 404", true, true},
		{502, "n", w.museum.URL + "/metadata", "", "metadata address", true, true},
		{502, "n", "http://169.254.169.254/", "", "metadata address", true, false},
	} {
		for _, query := range []string{"?validate=true", ""} {
			if query != "" && !c.validates {
				continue
			}
			got := w.Expect(c.code, "ann", http.MethodPost, "/workspaces/a/repos"+query, body(c.name, c.url, c.more))
			if !strings.Contains(got, c.say) || strings.Contains(got, "canary") {
				t.Errorf("%s: %s, want %s", c.url, got, c.say)
			}
			if asked := w.requests(); (asked != "") != c.asked {
				t.Errorf("%s asks %q", c.url, asked)
			}
		}
	}
	for _, c := range []struct {
		code int
		body string
	}{{400, "canary"}, {400, `{"spec":{"url":["canary"]}}`}, {413, `{"spec":{"description":"` + strings.Repeat("a", 300<<10) + `"}}`}} {
		if got := w.Expect(c.code, "ann", http.MethodPost, "/workspaces/a/repos", c.body); strings.Contains(got, "canary") {
			t.Error(got)
		}
	}
	if got := w.Writes(); len(got) != 1 || got[0] != "POST repos" { // the one that is there
		t.Errorf("%v", got)
	}
	w.Expect(http.StatusOK, "admin", http.MethodPost, "/repos", `{"metadata":{"name":"of-all"},"spec":{"url":"`+w.museum.URL+`"}}`)
	if raw, _ := json.Marshal(w.Live("repos", "of-all")); !strings.Contains(string(raw), `"kubesphere.io/workspace":"system-workspace"`) {
		t.Errorf("%s", raw)
	}
}

// X32, S66: what is absent stays, what is empty is cleared, and a credential goes to no other address than it was written for.
func TestX32AChangeIsAPatch(t *testing.T) {
	const at = "/workspaces/a/repos/of-a"
	for name, c := range map[string]struct {
		body string
		code int
		want string // url, description, period, user, password
		ask  string
	}{
		"Nothing":      {`{}`, 200, "M/a|of a|600|ann|canary", ""},
		"Description":  {`{"spec":{"description":"new"}}`, 200, "M/a|new|600|ann|canary", ""},
		"Cleared":      {`{"spec":{"description":"","syncPeriod":0}}`, 200, "M/a||0|ann|canary", ""},
		"Null":         {`{"spec":{"description":null,"syncPeriod":null}}`, 200, "M/a||-|ann|canary", ""},
		"SameURL":      {`{"spec":{"url":"M/a","credential":{}}}`, 200, "M/a|of a|600|ann|canary", ""},
		"Slash":        {`{"spec":{"url":"M/a/"}}`, 200, "M/a|of a|600|ann|canary", ""},
		"Password":     {`{"spec":{"credential":{"password":"new"}}}`, 200, "M/a|of a|600|ann|new", "museum /a/index.yaml ann:new"},
		"NoPassword":   {`{"spec":{"credential":{"username":"","password":""}}}`, 200, "M/a|of a|600||", "museum /a/index.yaml"},
		"NoCredential": {`{"spec":{"credential":null}}`, 200, "M/a|of a|600||", "museum /a/index.yaml"},
		"Host":         {`{"spec":{"url":"A/a"}}`, 200, "A/a|of a|600||", "away /a/index.yaml"},
		"HostName":     {`{"spec":{"url":"A/a","credential":{"username":"bob"}}}`, 200, "A/a|of a|600|bob|", "away /a/index.yaml bob:"},
		"HostPassword": {`{"spec":{"url":"A/a","credential":{"username":"bob","password":"new"}}}`, 200, "A/a|of a|600|bob|new", "away /a/index.yaml bob:new"},
		"InURL":        {`{"spec":{"url":"B/a"}}`, 200, "A/a|of a|600|bob|new", "away /a/index.yaml bob:new"},
		"Path":         {`{"spec":{"url":"M/other"}}`, 200, "M/other|of a|600||", "museum /other/index.yaml"},
		"Repeated":     {`{"spec":{"url":"A/a","credential":{"password":"canary"}}}`, 403, "M/a|of a|600|ann|canary", ""},
		"Insecure":     {`{"spec":{"credential":{"insecureSkipTLSVerify":true}}}`, 403, "M/a|of a|600|ann|canary", ""},
		"Missing":      {`{"spec":{"url":"M/none"}}`, 502, "M/a|of a|600|ann|canary", "museum /none/index.yaml"},
		"Period":       {`{"spec":{"syncPeriod":5}}`, 400, "M/a|of a|600|ann|canary", ""},
		"NoURL":        {`{"spec":{"url":""}}`, 400, "M/a|of a|600|ann|canary", ""},
		"Type":         {`{"spec":{"url":7}}`, 400, "M/a|of a|600|ann|canary", ""},
		"CredType":     {`{"spec":{"credential":["x"]}}`, 400, "M/a|of a|600|ann|canary", ""},
		"NoJSON":       {`{"spec":`, 400, "M/a|of a|600|ann|canary", ""},
		"Name":         {`{"metadata":{"name":"of-b"},"spec":{"description":"x"}}`, 400, "M/a|of a|600|ann|canary", ""},
		"Workspace":    {`{"metadata":{"labels":{"kubesphere.io/workspace":"b"}},"spec":{"description":"x"}}`, 400, "M/a|of a|600|ann|canary", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			fill := strings.NewReplacer("M/", w.museum.URL+"/", "A/", w.away.URL+"/", "B/", strings.Replace(w.away.URL, "://", "://bob:new@", 1)+"/")
			body := fill.Replace(c.body)
			// To validate writes nothing, and is answered as the write would be.
			code := c.code
			if got := w.Expect(code, "ann", http.MethodPatch, at+"?validate=true", body); strings.Contains(got, "canary") || code == 200 && got != `{"ok":true}` {
				t.Errorf("%s", got)
			}
			if asked := w.requests(); c.ask != "" && asked != c.ask || code == 200 && asked == "" || code != 200 && asked != c.ask || len(w.Writes()) > 0 {
				t.Errorf("to validate asks %q, want %q", asked, c.ask)
			}
			if got := w.Expect(code, "ann", http.MethodPatch, at, body); strings.Contains(got, "canary") || code == 200 && got != `{"repo_id":"of-a"}` {
				t.Errorf("%s", got)
			}
			if got := w.requests(); got != c.ask {
				t.Errorf("asked %q, want %q", got, c.ask)
			}
			s, period := w.spec("of-a"), "-"
			if s.SyncPeriod != nil {
				period = fmt.Sprint(*s.SyncPeriod)
			}
			got := strings.Join([]string{s.URL, s.Description, period, s.Credential.Username, s.Credential.Password}, "|")
			if want := strings.NewReplacer("M/", w.museum.URL+"/", "A/", w.away.URL+"/").Replace(c.want); got != want {
				t.Errorf("it is %s, want %s", got, want)
			}
			live, _ := w.Live("repos", "of-a")["spec"].(map[string]any)
			if _, there := live["credential"]; !there {
				t.Error("without the field, a webhook puts the credential back")
			}
		})
	}
}

func TestAnnotationsArePatchedWithoutThoseOfTheStore(t *testing.T) {
	w := newWorld(t)
	w.Expect(http.StatusOK, "ann", http.MethodPatch, "/workspaces/a/repos/of-a", `{"metadata":{"labels":{"kubesphere.io/workspace":"a"},"annotations":`+
		`{"kubesphere.io/alias-name":"Al","kubesphere.io/description":"d","kubesphere.io/creator":"eve","application.kubesphere.io/req-user":"eve",`+
		`"kapis.dev/x":"y"}}}`)
	w.Expect(http.StatusOK, "ann", http.MethodPatch, "/workspaces/a/repos/of-a", `{"metadata":{"annotations":{"kubesphere.io/description":null,"none":null}}}`,
		"Content-Type: application/merge-patch+json")
	raw, _ := json.Marshal(w.Live("repos", "of-a")["metadata"])
	if !strings.Contains(string(raw), `"kubesphere.io/alias-name":"Al"`) || !strings.Contains(string(raw), `req-user":"ann"`) ||
		strings.Contains(string(raw), "eve") || strings.Contains(string(raw), "kapis.dev/x") || strings.Contains(string(raw), "description") {
		t.Errorf("%s", raw)
	}
	if got := w.Writes(); len(got) != 2 || w.requests() != "" {
		t.Errorf("%v", got)
	}
	w.Expect(http.StatusOK, "ann", http.MethodPatch, "/workspaces/a/repos/of-a", `{"metadata":{"annotations":{"kubesphere.io/alias-name":"Al"}}}`)
	if got := w.Writes(); len(got) != 0 {
		t.Errorf("what is so already is written: %v", got)
	}
}

func TestX32ARepoIsReadByHandAndRemoved(t *testing.T) {
	w := newWorld(t)
	for _, at := range []struct{ who, path string }{{"ann", "/workspaces/a/repos/of-a"}, {"admin", "/repos/of-b"},
		{"admin", "/workspaces/system-workspace/repos/shared"}} {
		if got := w.Expect(http.StatusOK, at.who, http.MethodPost, at.path+"/action", ""); got != `{"message":"success"}` {
			t.Errorf("%s", got)
		}
		name := at.path[strings.LastIndex(at.path, "/")+1:]
		if got := w.Live("repos", name)["status"].(map[string]any)["state"]; got != "manualTrigger" {
			t.Errorf("%s: %v", at.path, got)
		}
		if got := w.Expect(http.StatusOK, at.who, http.MethodDelete, at.path, ""); got != `{"message":"success"}` || w.Live("repos", name) != nil {
			t.Errorf("%s", got)
		}
	}
}

// What one user has looked at takes nothing from others, and all of it is bounded. The service accounts of a namespace are one user.
func TestAFewIndexesAreLookedAtAtOnce(t *testing.T) {
	for name, as := range map[string][3]string{
		"OfAUser":           {"ann", "ann", "ann"},
		"OfServiceAccounts": {"system:serviceaccount:shop:one", "system:serviceaccount:shop:one", "system:serviceaccount:shop:two"},
	} {
		t.Run(name, func(t *testing.T) { aFewIndexesAreLookedAt(t, as) })
	}
}

func aFewIndexesAreLookedAt(t *testing.T, as [3]string) {
	t.Helper()
	w := newWorld(t)
	body := `{"metadata":{"name":"n"},"spec":{"url":"` + w.museum.URL + `/hold"}}`
	var all sync.WaitGroup
	for _, who := range as[:2] {
		all.Go(func() { w.Expect(http.StatusOK, who, http.MethodPost, "/workspaces/a/repos?validate=true", body) })
	}
	for range 2 {
		<-w.held
	}
	got := w.Expect(http.StatusServiceUnavailable, as[2], http.MethodPost, "/workspaces/a/repos?validate=true", body)
	if !strings.Contains(got, "at this moment") {
		t.Errorf("%s", got)
	}
	w.Expect(http.StatusOK, "bob", http.MethodPost, "/workspaces/b/repos?validate=true", strings.Replace(body, "/hold", "", 1))
	close(w.hold)
	all.Wait()
	w.Expect(http.StatusOK, as[2], http.MethodPost, "/workspaces/a/repos?validate=true", body)
}
