package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// api is a server of queries: of a ks-apiserver, of query.kapis.dev, or of neither.
type api struct {
	*program
	t         *testing.T
	out, told bytes.Buffer

	mu                sync.Mutex
	kapis, aggregated bool
	asked             []*url.URL
	accepts           []string
	answers           map[string]string // by path
	redirect          string            // where requests for objects are sent, empty for nowhere
	second            func()            // is called at the second request, if it is not nil
}

const widgetRow = `{"cells":["w1","Running",%d],"object":{"metadata":{"name":"w1","namespace":"a","uid":"u1","resourceVersion":"%d"}}}`

func row(n int) string { return fmt.Sprintf(widgetRow, n, n) }

const columnDefinitions = `"columnDefinitions":[{"name":"Name","type":"string","priority":0},{"name":"Status","type":"string","priority":0},
	{"name":"Size","type":"integer","priority":1}]`

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{t: t, answers: map[string]string{}}
	a.program = &program{out: &a.out, tell: &a.told, env: func(string) string { return "" }, now: time.Now, read: true}
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	file := filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", file)
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],
		"contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"a"}}],"users":[{"name":"u","user":{"token":"t"}}]}`, srv.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	const kind = `{"resource":%q,"singularResource":"widget","shortNames":%s,"verbs":["get","list","watch"],"scope":%q,` +
		`"responseKind":{"group":%q,"version":"v1","kind":%q}}`
	widget := fmt.Sprintf(kind, "widgets", `["wd"]`, "Namespaced", "", "Widget")
	gadget := fmt.Sprintf(kind, "gadgets", `[]`, "Cluster", "example.com", "Gadget")
	other := fmt.Sprintf(kind, "widgets", `[]`, "Namespaced", "example.com", "Widget")
	switch r.URL.Path {
	case "/api":
		fmt.Fprintf(w, `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":""},"versions":[{"version":"v1","resources":[%s]}]}]}`, widget)
	case "/apis":
		query := ""
		if a.aggregated {
			named := strings.Replace(other, `"resource":"widgets"`, `"resource":"widgets-example.com"`, 1)
			query = fmt.Sprintf(`,{"metadata":{"name":"query.kapis.dev"},"versions":[{"version":"v1alpha1","resources":[%s,%s]}]}`, widget, named)
		}
		fmt.Fprintf(w, `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"example.com"},"versions":[{"version":"v1","resources":[%s,%s]}]}%s]}`,
			gadget, other, query)
	case "/kapis/version":
		if !a.kapis {
			w.WriteHeader(http.StatusForbidden) // as kube-apiserver answers most users
			return
		}
		fmt.Fprint(w, `{"gitVersion":"v4","kubernetes":{"gitVersion":"v1.37.1"}}`)
	default:
		a.asked, a.accepts = append(a.asked, r.URL), append(a.accepts, r.Header.Get("Accept"))
		if a.redirect != "" {
			http.Redirect(w, r, a.redirect, http.StatusFound)
			return
		}
		if len(a.asked) == 2 && a.second != nil {
			a.second()
		}
		text, ok := a.answers[r.URL.Path]
		if more, found := a.answers[r.URL.Path+"?watch"]; found && (r.URL.Query().Has("watch") || r.URL.Query().Has("view")) {
			text = more
		}
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"widgets \"x\" not found","code":404}`
		}
		fmt.Fprint(w, text)
	}
}

// run runs `kubectl ks get`.
func (a *api) run(ctx context.Context, args ...string) (string, error) {
	a.t.Helper()
	a.out.Reset()
	a.told.Reset()
	a.mu.Lock()
	a.asked, a.accepts = nil, nil
	a.mu.Unlock()
	cmd := a.command()
	cmd.SetArgs(append([]string{"get"}, args...))
	err := cmd.ExecuteContext(ctx)
	return a.out.String(), err
}

func (a *api) must(args ...string) string {
	a.t.Helper()
	out, err := a.run(a.t.Context(), args...)
	if err != nil {
		a.t.Fatalf("%v: %v", args, err)
	}
	return out
}

func TestTheAPIThatIsThereIsUsed(t *testing.T) { // O33
	for _, c := range []struct {
		kapis, aggregated bool
		args              []string
		path, fault       string
	}{
		{aggregated: true, args: []string{"widgets"}, path: "/apis/query.kapis.dev/v1alpha1/namespaces/a/widgets"},
		{aggregated: true, args: []string{"widgets.example.com"}, path: "/apis/query.kapis.dev/v1alpha1/namespaces/a/widgets-example.com"},
		{aggregated: true, args: []string{"gadgets"}, fault: "are not in query.kapis.dev yet"},
		{kapis: true, args: []string{"wd", "-n", "b"}, path: "/kapi/v1/namespaces/b/widgets"},
		{kapis: true, args: []string{"Widget", "-A"}, path: "/kapi/v1/widgets"},
		{kapis: true, args: []string{"gadget.v2.example.com"}, fault: "doesn't have a resource type"},
		{kapis: true, args: []string{"gadgets.v1.example.com"}, path: "/kapis/example.com/v1/gadgets"},
		{kapis: true, aggregated: true, args: []string{"widgets"}, path: "/kapi/v1/namespaces/a/widgets"},
		{kapis: true, aggregated: true, args: []string{"widgets", "--through=aggregated"},
			path: "/apis/query.kapis.dev/v1alpha1/namespaces/a/widgets"},
		{kapis: true, args: []string{"widgets", "--through=aggregated"}, fault: "aggregated.enabled"},
		{aggregated: true, args: []string{"widgets", "--through=kapis"}, fault: "kubectl ks kubeconfig --server"},
		{args: []string{"widgets"}, fault: "aggregated.enabled"},
		{args: []string{"widgets"}, fault: "kubectl ks kubeconfig --server"},
		{kapis: true, aggregated: true, args: []string{"widgets", "--as=ann"}, fault: "lets nobody act as another user"},
		{aggregated: true, args: []string{"widgets", "--as=ann"}, path: "/apis/query.kapis.dev/v1alpha1/namespaces/a/widgets"},
	} {
		a := newAPI(t)
		a.kapis, a.aggregated = c.kapis, c.aggregated
		a.answers[c.path] = `{"kind":"Table",` + columnDefinitions + `,"rows":[]}`
		_, err := a.run(t.Context(), c.args...)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil || len(a.asked) != 1 || a.asked[0].Path != c.path {
			t.Errorf("%+v: asked %v, %v", c, a.asked, err)
		}
	}
}

const widgets = "/kapi/v1/namespaces/a/widgets"

func kapisAPI(t *testing.T) *api {
	a := newAPI(t)
	a.kapis = true
	a.answers[widgets] = `{"kind":"Table","metadata":{"resourceVersion":"7"},` + columnDefinitions + `,"totalItems":45,"facets":{".status.phase":
		{"Running":30,"":15}},"facetsOthers":{".status.phase":2},"rows":[` + row(1) + `]}`
	return a
}

func TestFlagsAreParametersOfTheQuery(t *testing.T) { // O33
	a := kapisAPI(t)
	out := a.must("widgets", "-l", "app in (a,b)", "--filter", "status.phase!=Running", "--filter", "spec.x=1", "--cel", "object.spec.x > 1", "--search", "web up",
		"--sort-by", ".status.startTime,name", "--desc", "--facets", "status.phase,spec.x", "--page", "2", "-o", "wide")
	want := url.Values{"labelSelector": {"app in (a,b)"}, "fieldSelector": {"status.phase!=Running,spec.x=1"}, "cel": {"object.spec.x > 1"}, "q": {"web up"},
		"sortBy": {".status.startTime,name"}, "ascending": {"false"}, "facets": {"status.phase,spec.x"}, "page": {"2"}, "limit": {"20"}}
	if got := a.asked[0].Query(); got.Encode() != want.Encode() {
		t.Errorf("asked %v, want %v", got, want)
	}
	const shown = `NAME   STATUS    SIZE
w1     Running   1

FACET           VALUE      COUNT
.status.phase   Running    30
.status.phase   <none>     15
.status.phase   (others)   2
`
	if out != shown {
		t.Errorf("got\n%s", out)
	}
	if !strings.Contains(a.told.String(), "Page 2 of 3, 45 objects in all.") {
		t.Errorf("told %q", a.told.String())
	}
	a.must("widgets")
	if got := a.asked[0].Query(); got.Get("sortBy") != "namespace,name" || got.Get("ascending") != "true" || got.Has("limit") || got.Has("page") {
		t.Errorf("asked %v", got)
	}
	if out := a.must("widgets", "--no-headers"); !strings.HasPrefix(out, "w1   Running\n") {
		t.Errorf("got %q", out)
	}
	a.answers["/kapi/v1/widgets"] = a.answers[widgets]
	if out := a.must("widgets", "-A"); !strings.HasPrefix(out, "NAMESPACE   NAME   STATUS\na           w1     Running\n") {
		t.Errorf("got %q", out)
	}
}

func TestBadFlagsSayWhatIsAllowed(t *testing.T) { // O33
	a := kapisAPI(t)
	for line, want := range map[string]string{
		"widgets -o tabel": "want table, wide, json, yaml or name", "widgets --through door": "want kapis or aggregated",
		"widgets --page -1": "want a number from 1", "widgets --limit -5": "want a number from 1", "widgets --page 0": "want a number from 1",
		"widgets --limit=0": "want a number from 1", "widgets --as ann": "another user", "widgets --live --watch": "want one of them",
		"widgets --live -o json": "want table or wide", "widgets --live --facets x": "no facets", "widgets --watch --limit 501": "at most 500",
		"widgets --output-watch-events": "--watch", "widgets -A -n a": "want one of them", "widgets x -A": "--namespace", "widgets x -l a=b": "want either",
		"widgets ..": "no name of an object", "widgets a/../b": "no name of an object", "widgets -n a/b": "no name of a namespace",
		"gizmos": "doesn't have a resource type", "": "at least 1 arg", "widgets --page x": "invalid argument",
	} {
		if _, err := a.run(t.Context(), strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
		if len(a.asked) > 0 {
			t.Errorf("%q: asked %v", line, a.asked)
		}
	}
}

func TestObjectsAreKubernetesObjectsInOtherFormats(t *testing.T) { // O33
	a := kapisAPI(t)
	object := `{"apiVersion":"v1","kind":"Widget","metadata":{"name":"w1","uid":"u1"}}`
	a.answers[widgets] = `{"kind":"WidgetList","metadata":{"resourceVersion":"7"},"totalItems":1,"items":[` + object + `]}`
	a.answers[widgets+"/w1"] = object
	var list struct {
		Kind       string
		TotalItems int
		Items      []struct{ Kind string }
	}
	if out := a.must("widgets", "-o", "json"); json.Unmarshal([]byte(out), &list) != nil || list.Kind != "List" || list.TotalItems != 1 ||
		len(list.Items) != 1 || list.Items[0].Kind != "Widget" {
		t.Errorf("got %s", out)
	}
	for format, want := range map[string]string{"name": "widget/w1\n", "yaml": "apiVersion: v1\nkind: Widget\n"} {
		if out := a.must("widgets/w1", "-o", format); !strings.HasPrefix(out, want) {
			t.Errorf("got %q, want %q", out, want)
		}
	}
	out, err := a.run(t.Context(), "widgets", "w1", "x", "-o", "name")
	if out != "widget/w1\n" || err == nil || failure(err) != `Error from server (NotFound): widgets "x" not found` {
		t.Errorf("got %q, %v", out, err)
	}
	if a.accepts[0] != "application/json" {
		t.Errorf("JSON is asked for by %q", a.accepts)
	}
	if _, err := a.run(t.Context(), "widgets"); err == nil || !strings.Contains(err.Error(), "without a table") {
		t.Errorf("a server without tables: %v", err)
	}
}

func TestFailuresAreToldAsKubectlTellsThem(t *testing.T) { // O33
	a := kapisAPI(t)
	for reason, want := range map[string]string{
		"Forbidden":    "Error from server (Forbidden): no \\u202e",
		"Unauthorized": "error: You must be logged in to the server (no \\u202e)",
		"":             "Error from server: no \\u202e",
	} {
		a.answers[widgets] = `{"kind":"Table"}`
		a.answers[widgets+"?watch"] = `{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":400,"reason":"` + reason + `","message":"no \u202e"}}`
		if _, err := a.run(t.Context(), "widgets", "--watch"); err == nil || failure(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestCredentialsGoToNoOtherServer(t *testing.T) { // O33
	a := kapisAPI(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect is followed with %q", r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	a.redirect = elsewhere.URL
	if _, err := a.run(t.Context(), "widgets"); err == nil || failure(err) != "Error from server: the server answers 302 Found" {
		t.Errorf("got %v", err)
	}
}

func TestWatchesPrintRowsAsTheyChange(t *testing.T) { // O33
	a := kapisAPI(t)
	event := func(typ, columns, r string) string {
		return `{"type":"` + typ + `","object":{"kind":"Table","columnDefinitions":` + columns + `,"rows":[` + r + `]}}`
	}
	_, columns, _ := strings.Cut(columnDefinitions, ":")
	a.answers[widgets+"?watch"] = event("MODIFIED", columns, row(2)) + event("BOOKMARK", "null", row(3)) + event("DELETED", "null", row(4))
	out := a.must("widgets", "--watch", "-o", "wide", "--output-watch-events", "--filter", "a=b")
	const want = `EVENT      NAME   STATUS    SIZE
ADDED      w1     Running   1

FACET           VALUE      COUNT
.status.phase   Running    30
.status.phase   <none>     15
.status.phase   (others)   2
MODIFIED   w1     Running   2
DELETED    w1     Running   4
`
	if out != want {
		t.Errorf("got\n%s", out)
	}
	if got := a.asked[1].Query(); got.Get("resourceVersion") != "7" || got.Get("fieldSelector") != "a=b" || got.Has("limit") || got.Has("sortBy") {
		t.Errorf("asked %v", got)
	}
}

const page = `{"generation":1,"totalItems":3,` + columnDefinitions + `,"items":[%s]}`

func TestAPageIsFollowed(t *testing.T) { // O33
	a := kapisAPI(t)
	other := strings.ReplaceAll(strings.ReplaceAll(row(5), "w1", "w2"), "u1", "u2")
	a.answers[widgets+"?watch"] = fmt.Sprintf(page, row(1)) +
		`{"totalItems":3,"order":["u2","u1"],"changes":[{"type":"ADDED","object":` + other + `},{"type":"MODIFIED","object":` + row(6) + `}]}` +
		`{"totalItems":2,"order":["u2"],"changes":[{"type":"DELETED","object":{"metadata":{"name":"w1","uid":"u1"}}}]}` +
		`{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"over"}}`
	out, err := a.run(t.Context(), "widgets", "--watch", "--limit=2", "-o", "wide", "--output-watch-events", "--sort-by=name")
	if err == nil || failure(err) != "Error from server (Forbidden): over" {
		t.Errorf("the end is %v", err)
	}
	_, rows, _ := strings.Cut(out, "(others)   2\n")
	if want := "ADDED      w2     Running   5\nMODIFIED   w1     Running   6\nDELETED    w1     Running   6\n"; rows != want {
		t.Errorf("got\n%s", out)
	}
	if got := a.asked[1].Query(); got.Get("view") != "live" || got.Get("limit") != "2" || got.Get("sortBy") != "name" {
		t.Errorf("asked %v", got)
	}
}

// untilSecond ends a call when the live page is opened for the second time.
func untilSecond(a *api) context.Context {
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Minute)
	a.t.Cleanup(cancel)
	a.second = cancel
	return ctx
}

func TestALivePageIsPrintedAgainWithoutATerminal(t *testing.T) { // O33
	a := kapisAPI(t)
	a.answers[widgets+"?watch"] = fmt.Sprintf(page, row(1)) + `{"totalItems":3,"changes":[{"type":"MODIFIED","object":` + row(2) + `}]}`
	out, _ := a.run(untilSecond(a), "widgets", "--live", "-o", "wide", "--no-headers")
	if want := "w1   Running   1\n\nw1   Running   2\n\n"; !strings.HasPrefix(out, want) {
		t.Errorf("got %q, want %q", out, want)
	}
	if got := a.asked[0].Query(); got.Get("limit") != "20" || got.Has("timeoutSeconds") {
		t.Errorf("asked %v", got)
	}
}

func TestALiveViewIsDrawnOnATerminal(t *testing.T) { // O33
	a := kapisAPI(t)
	a.size = func() (int, int) { return 12, 9 }
	a.answers[widgets+"?watch"] = fmt.Sprintf(page, row(1))
	out, _ := a.run(untilSecond(a), "widgets", "--live")
	if !strings.HasPrefix(out, "\x1b[?1049h\x1b[?25l\x1b[H") || !strings.HasSuffix(out, "\x1b[?25h\x1b[?1049l") || !strings.Contains(out, "w1     Runni\x1b[K\n") {
		t.Errorf("got %q", out)
	}
	if got := a.asked[0].Query(); got.Get("limit") != "5" {
		t.Errorf("asked %v", got)
	}
}

func TestColoursAreForTerminals(t *testing.T) { // O33
	a := kapisAPI(t)
	if out := a.must("widgets"); strings.Contains(out, "\x1b") {
		t.Errorf("got %q", out)
	}
	a.colours = true
	if out := a.must("widgets"); !strings.HasPrefix(out, "\x1b[1mNAME\x1b[0m   \x1b[1mSTATUS\x1b[0m\nw1     \x1b[32mRunning\x1b[0m\n") {
		t.Errorf("got %q", out)
	}
}

func TestNothingOfAnObjectIsACommandToTheTerminal(t *testing.T) { // O33
	for text, want := range map[string]string{
		"plain é 文": "plain é 文", "a\x1b[31mb": "a^[[31mb", "one\ntwo": "one...", "a\rb\tc": "a^Mb^Ic", "a\u009bb": `a\u009bb`,
		"a\u202eb": `a\u202eb`, "a\u200bb": `a\u200bb`, "\x7f": `\u007f`, "\xff": `\ufffd`,
	} {
		if got := plainText(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestKindsNamespacesAndNamesAreCompleted(t *testing.T) { // O33
	a := kapisAPI(t)
	a.answers[widgets] = `{"items":[{"metadata":{"name":"w1"}},{"metadata":{"name":"w2"}}]}`
	for line, want := range map[string][]string{
		"":           {"gadgets", "widgets", "widgets.example.com"},
		"widgets":    {"w1", "w2"},
		"widgets w1": {"w2"},
	} {
		a.out.Reset()
		cmd := a.command()
		cmd.SetArgs(append(append([]string{"__complete", "get"}, strings.Fields(line)...), ""))
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := strings.Fields(strings.Split(a.out.String(), "\n:")[0])
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q", line, got)
		}
	}
}
