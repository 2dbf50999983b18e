package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	allowList = "testdata/allowed.txt"
	iamRoute  = "/kapis/iam.kubesphere.io/v1beta1"
	// foreignMark is in the names of everything that is B's. Nobody else is ever shown it.
	foreignMark = "foreign-mark"
)

// The three rules over all that is said of access (S1, S2, S10): every route of the live table, every kind at every path that serves kinds, watches,
// sub-resources and what is passed on, by every method, with ids that exist, as {anonymous, somebody without a role, a member of A at what is B's, a member of
// B at what is A's, the admin}. What is not refused to the first four stands in testdata/allowed.txt, written and reviewed by people: what is answered and does
// not stand there fails, and so does a line that nothing needs any more. Whatever is answered shows nothing that is the other's, and all that was
// asked has changed nothing.
func TestSweep(t *testing.T) {
	proves(t, "S1", "S2", "S3", "S10")
	w, list := newSweep(t), readAllowList(t)
	// What controllers make in their time would be new later: of the tenants' roles, and of a namespace.
	ns := newNamespace(t)
	eventually(t, "the namespace is complete", admin(t).is(http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+ns+"/configmaps/kube-root-ca.crt"))
	(&arena{t: t, namespace: ns}).settle()
	before := w.digests(t)
	for _, who := range w.people {
		begun := time.Now()
		asked := w.sweep(t, who, list)
		t.Logf("%s was answered %d questions in %v", who.user, asked, time.Since(begun).Round(time.Second))
	}
	for _, change := range w.changes(before, w.digests(t)) {
		t.Errorf("refused, and yet done: %s", change)
	}
	list.unused(t)
}

// visitor is who asks, and whose things he asks for.
type visitor struct {
	caller
	name    string            // in the allow-list; "" for who may do everything
	user    string            // what messages call him
	ids     map[string]string // by the parameter's name in a route
	foreign string            // what no answer shows
}

// allowance is a line of the allow-list: WHO METHODS CODES PATH. Anybody is everybody, a user has logged in, a member has a role somewhere.
// METHODS and CODES are lists with commas; the code "part" is 200 with the caller's own part only (X-Kapis-Partial). PATH is a regular
// expression for the whole path of the route.
type allowance struct {
	line           string
	who            []string
	methods, codes []string
	path           *regexp.Regexp
	used           map[string]bool // by who
}

type allowances []*allowance

func readAllowList(t *testing.T) allowances {
	t.Helper()
	raw, err := os.ReadFile(allowList)
	if err != nil {
		t.Fatal(err)
	}
	who := map[string][]string{"anybody": {"anonymous", "user", "member"}, "user": {"user", "member"}, "member": {"member"}}
	var out allowances
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(f) != 4 || who[f[0]] == nil {
			t.Fatalf("%s: %q is not WHO METHODS CODES PATH", allowList, line)
		}
		path, err := regexp.Compile("^(?:" + f[3] + ")$")
		if err != nil {
			t.Fatalf("%s: %v", allowList, err)
		}
		out = append(out, &allowance{strings.TrimSpace(line), who[f[0]], strings.Split(f[1], ","), strings.Split(f[2], ","), path, map[string]bool{}})
	}
	return out
}

// allows tells whether an answer stands in the list; the first line that has it remembers what it was needed for.
func (l allowances) allows(who string, q question, code string) bool {
	for _, a := range l {
		if slices.Contains(a.who, who) && slices.Contains(a.methods, q.method) && slices.Contains(a.codes, code) && a.path.MatchString(q.route) {
			for _, need := range []string{who, q.method, code} {
				a.used[need] = true
			}
			return true
		}
	}
	return false
}

// unused fails the test where a line allows more than was answered.
func (l allowances) unused(t *testing.T) {
	t.Helper()
	for _, a := range l {
		for _, need := range slices.Concat(a.who, a.methods, a.codes) {
			if !a.used[need] {
				t.Errorf("in %s, and not needed for %q: %s", allowList, need, a.line)
			}
		}
	}
}

// answer is what a question got.
type answer struct {
	question
	reply
	err error
}

// sweep asks everything as v, and returns how many questions that was.
func (w *sweep) sweep(t *testing.T, v visitor, list allowances) int {
	t.Helper()
	all := w.questions(t, v)
	if v.name == "" { // he would do what he is asked for, and wait for watches
		all = slices.DeleteFunc(all, func(q question) bool { return q.method != http.MethodGet || strings.Contains(q.path, "timeoutSeconds") })
	}
	answers := make([]answer, len(all))
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(askers)
	for i, q := range all {
		group.Go(func() error {
			r, err := v.ask(ctx, q)
			answers[i] = answer{q, r, err}
			return nil
		})
	}
	_ = group.Wait()             // errors are in the answers
	wrong := map[string]string{} // one of each route
	for _, a := range answers {
		if complaint := v.judge(a, list); complaint != "" {
			wrong[a.method+" "+a.route] = complaint
		}
	}
	for _, what := range slices.Sorted(maps.Keys(wrong)) {
		t.Errorf("%s: %s: %s", v.user, what, wrong[what])
	}
	if v.token != "" { // that all was refused since the login was over says nothing
		v.must(t, http.StatusOK, http.MethodGet, "/oauth/userinfo", nil)
	}
	return len(all)
}

func (v visitor) ask(ctx context.Context, q question) (reply, error) {
	var body any
	if q.method != http.MethodGet && q.method != http.MethodHead && q.method != http.MethodOptions {
		body = "{}"
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return v.whenLoaded(ctx, q.method, q.path, body)
}

var nameField = regexp.MustCompile(`"name":"[^"]*"`)

// judge says what is wrong with an answer.
func (v visitor) judge(a answer, list allowances) string {
	refused := a.code == http.StatusUnauthorized || a.code == http.StatusForbidden
	elsewhere := strings.Contains(a.path, "/proxy") || strings.HasPrefix(a.path, "/oauth/") // a pod answers, or a page that wants a cookie
	code := fmt.Sprint(a.code)
	if a.code == http.StatusOK && a.header.Get(partial) != "" {
		code = "part"
	}
	shown := a.code < http.StatusMultipleChoices && v.foreign != "" && !strings.HasPrefix(a.path, "/openapi") && strings.Contains(a.body, v.foreign)
	if shown && !strings.Contains(nameField.ReplaceAllString(a.body, ""), v.foreign) {
		code, shown = "names", false
	}
	what := fmt.Sprintf("%s %s: %d %s", a.method, a.path, a.code, clip(a.body))
	switch {
	case a.err != nil:
		return a.err.Error()
	case v.name == "" && elsewhere:
		return ""
	case breaks(a.code, a.path):
		return "it breaks: " + what
	case v.name == "":
		if refused && !strings.Contains(a.path, "/users/") { // some things are their owner's only
			return "the admin is refused: " + what
		}
		return ""
	case refused, a.code == http.StatusMethodNotAllowed:
		return ""
	case shown:
		return "shows what is another's: " + what
	case !list.allows(v.name, a.question, code):
		return "not refused, and " + code + " is not in " + allowList + ": " + what
	}
	return ""
}

// tenant is a workspace with a namespace and what is in it, and its admin.
type tenant struct {
	caller
	workspace, namespace, user, pod, secret string
}

func newTenant(t *testing.T, name string) tenant {
	t.Helper()
	a := admin(t)
	w := tenant{workspace: name, namespace: name + "-ns", user: name + "-user", pod: name + "-pod", secret: name + "-secret"}
	w.caller = newUser(t, w.user)
	newTeam(t, w.workspace)
	a.must(
		t,
		http.StatusOK,
		http.MethodPost,
		iamRoute+"/workspaces/"+name+"/workspacemembers",
		[]any{map[string]any{"username": w.user, "roleRef": name + "-admin"}},
	)
	a.must(t, http.StatusOK, http.MethodPost, tenants+"/workspaces/"+name+"/namespaces", map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": w.namespace, "labels": map[string]any{"kubesphere.io/managed": "true"}},
	})
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, "/api/v1/namespaces/"+w.namespace, nil) })
	core := "/api/v1/namespaces/" + w.namespace
	a.create(
		t,
		core+"/secrets",
		map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": w.secret}, "stringData": map[string]any{"key": name + "-data"}},
	)
	eventually(t, "a pod of "+name, func(ctx context.Context) error {
		r, err := a.do(ctx, http.MethodPost, core+"/pods", map[string]any{
			"apiVersion": "v1",
			"kind":       "Pod",
			"metadata":   map[string]any{"name": w.pod},
			"spec":       map[string]any{"containers": []any{map[string]any{"name": "c", "image": "none.example/x"}}},
		})
		if err == nil && r.code != http.StatusCreated && r.code != http.StatusConflict {
			err = errors.New(clip(r.body))
		}
		return err
	})
	newSweptRelease(t, w)
	// What controllers add to all of it in their time would be taken for somebody's write.
	eventually(t, "workspace "+name+" is complete", a.conditionIs(tenantAPI+"/workspaces/"+name, "Ready", "True", ""))
	eventually(t, "the namespace of "+name+" has its authority", a.is(http.StatusOK, http.MethodGet, core+"/configmaps/kube-root-ca.crt"))
	eventually(t, "the namespace of "+name+" has its roles", a.has("/api/v1/namespaces/"+w.namespace, `"kapis.dev/initialized":"true"`))
	eventually(t, "the pod of "+name+" has its node", a.has(core+"/pods/"+w.pod, `"phase":"Running"`))
	eventually(t, "kube-apiserver knows the admin of "+name, w.is(http.StatusOK, http.MethodGet, "/apis/apps/v1/namespaces/"+w.namespace+"/deployments"))
	eventually(t, "the admin of "+name+" sees his pod", w.has("/kapi/v1/namespaces/"+w.namespace+"/pods", w.pod))
	return w
}

// newTeam makes a workspace in the host cluster, and returns once its roles are there.
func newTeam(t *testing.T, name string) {
	t.Helper()
	a := admin(t)
	a.must(t, http.StatusOK, http.MethodPost, tenants+"/workspacetemplates", map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceTemplate", // the group that the console sends
		"metadata": map[string]any{"name": name}, "spec": map[string]any{
			"template": map[string]any{"spec": map[string]any{"manager": "admin"}}, "placement": map[string]any{"clusters": []any{map[string]any{"name": "host"}}},
		},
	})
	t.Cleanup(func() {
		_, _ = a.do(context.Background(), http.MethodDelete, tenants+"/workspacetemplates/"+name, map[string]any{})
	})
	eventually(
		t,
		"the roles of workspace "+name,
		a.has(iamRoute+"/workspaces/"+name+"/workspaceroles", name+"-admin", name+"-viewer", name+"-regular", name+"-self-provisioner"),
	)
}

// breaks reports whether an answer is a fault of the server's.
func breaks(code int, path string) bool {
	return code >= http.StatusInternalServerError && (code != http.StatusNotImplemented || !isSwitchedOff(path))
}

// isSwitchedOff reports whether a path is of shells on nodes, of kubectl shells or of gateways of projects, which have to be configured.
func isSwitchedOff(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	return strings.Contains(path, "/terminal.kubesphere.io/") && strings.Contains(path, "/nodes/") || strings.HasSuffix(path, "/kubectl") ||
		strings.Contains(path, "/gateway.kubesphere.io/v1alpha1/") || strings.HasSuffix(path, "/router")
}
