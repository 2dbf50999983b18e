package terminal_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	kapisterminal "kapis.dev/ks-apiserver/pkg/kapis/terminal"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/terminal"
	"kapis.dev/ks-apiserver/pkg/terminal/kubectlshell"
	"kapis.dev/ks-apiserver/pkg/terminal/recording"
	"kapis.dev/ks-apiserver/pkg/token"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	kubectlPath = "/kapis/terminal.kubesphere.io/v1alpha2/users/bob/kubectl"
	olderPath   = "/kapis/resources.kubesphere.io/v1alpha2/users/bob/kubectl"
	ownPodPath  = "/kapis/terminal.kubesphere.io/v1alpha2/namespaces/kubesphere-terminals/pods/kubectl-" + bobUID
	login       = "X-Login: console"
)

// shellPods is a kube-apiserver with the pod of bob's shells, to bob in the group of kubectl shells.
type shellPods struct {
	t *testing.T
	// born is the phase of a pod that is made.
	born corev1.PodPhase

	mu    sync.Mutex
	pod   *corev1.Pod
	asked []string
	// after is called after each request.
	after func(p *shellPods, asked string)
}

func (p *shellPods) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ctx := httptest.NewRecorder(), r.Context()
	if d := authz.DecisionFrom(ctx); !d.Allowed() || d.Group != "kapis:platform:terminal" || request.UserFrom(ctx).GetName() != "bob" {
		p.t.Errorf("%s %s as %v by %+v", r.Method, r.URL, request.UserFrom(ctx), d)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Error(err)
	}
	asked := r.Method + strings.NewReplacer("/api/v1/namespaces/kubesphere-terminals", " ", "/apis/coordination.k8s.io/v1/namespaces/kubesphere-terminals", " ",
		"/kubectl-"+bobUID, "/own").Replace(r.URL.Path)
	p.asked = append(p.asked, asked)
	var answer any = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lease", UID: "l"}}
	switch asked {
	case "GET /pods/own":
		answer = p.pod
	case "POST /pods":
		p.pod = &corev1.Pod{}
		if err := json.Unmarshal(body, p.pod); err != nil {
			p.t.Error(err)
		}
		p.pod.UID, p.pod.Status.Phase = "made", p.born
		answer = p.pod
	case "DELETE /pods/own":
		if !strings.Contains(string(body), `"uid":"`+string(p.pod.UID)+`"`) {
			p.t.Errorf("the deletion is of %s", body)
		}
		p.pod = nil
	case "POST /leases", "PATCH /leases/own":
	default:
		p.t.Errorf("it is asked for %s", asked)
	}
	if answer == (*corev1.Pod)(nil) {
		web.WriteError(w, r, apierrors.NewNotFound(corev1.Resource("pods"), "own"))
	} else if err := json.NewEncoder(w).Encode(answer); err != nil {
		p.t.Error(err)
	}
	if p.after != nil {
		p.after(p, asked)
	}
	return w.Result(), nil
}

func (p *shellPods) questions() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(slices.Compact(slices.Clone(p.asked)), ", ")
}

// sessions are the sessions in bob's.
type sessions struct {
	over bool
	// browser is the session that bob's is in.
	browser string

	mu     sync.Mutex
	opened []session.Login
	ended  []string
}

func (s *sessions) Find(_ context.Context, name string) (*session.Session, *iam.User, error) {
	if s.over {
		return nil, nil, iam.ErrOver
	}
	in := &session.Session{Name: name, Parent: s.browser, User: "bob", UserUID: bobUID, Provider: "ldap", Groups: []string{"g"}}
	return in, &iam.User{Name: "bob", UID: bobUID}, nil
}

func (s *sessions) Open(_ context.Context, l session.Login) (*session.Session, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, l)
	return &session.Session{Name: "child", User: l.User.Name, UserUID: l.User.UID, Client: l.Client, Scopes: l.Scopes, Expires: time.Now().Add(time.Hour)}, "", nil
}

func (s *sessions) End(_ context.Context, name, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, name)
	return nil
}

// container is the container of the pod: it records what is run there.
type container struct {
	mu    sync.Mutex
	runs  []string // the last argument or two of each command
	input string   // of the command that writes
	full  string   // all URLs
	fails error    // of the command that writes
}

func (c *container) Exec(r *http.Request, s terminal.Streams) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, info := authz.DecisionFrom(r.Context()), request.InfoFrom(r.Context())
	if d.Group != kubectlshell.Group || info.Asked() != `create pods/exec "kubectl-`+bobUID+`"` || info.Namespace != kubectlshell.Namespace {
		return errors.New("the exec is not authorized")
	}
	q := r.URL.Query()
	c.full += r.URL.String() + "\n"
	switch command := q["command"]; {
	case s.TTY:
		c.runs = append(c.runs, "shell "+command[len(command)-1])
		s.Started()
		_, err := io.WriteString(s.Stdout, "in the shell")
		return err
	case command[0] == "rm":
		c.runs = append(c.runs, "rm")
	default:
		c.runs = append(c.runs, "write")
		text, err := io.ReadAll(s.Stdin)
		c.input = string(text)
		if err == nil && c.fails != nil {
			_, _ = io.WriteString(s.Stderr, "sh: cat: not found")
			return c.fails
		}
		return err
	}
	return nil
}

// kubectl returns kubectl shells of that plane.
func kubectl(t *testing.T, p *shellPods, s *sessions) *kapisterminal.Kubectl {
	t.Helper()
	keys, err := token.Generate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &kapisterminal.Kubectl{
		Image: "tools", Timeout: time.Minute, AsCaller: caller.Client{Kube: p}, Limits: terminal.NewLimiter(terminal.KubectlLimits, time.Now),
		Target: func() (kubectlshell.Target, error) { return kubectlshell.Target{Server: "https://ks.example"}, nil },
		Logins: &kapisterminal.Logins{Sessions: s, Tokens: &token.Issuer{Keys: keys, URL: "https://ks.example", Audience: "kapis", Now: time.Now}, Now: time.Now,
			OriginOf: func(r *http.Request) iam.Origin { return iam.Origin{UserAgent: r.UserAgent()} }},
	}
}

func TestAKubectlShellIsLoggedInAsItsCaller(t *testing.T) { // O8, O9
	for path, parent := range map[string]string{kubectlPath + "?shell=sh": "s-1", ownPodPath + "/exec?container=kubectl&shell=sh": "browser",
		ownPodPath + "?shell=sh": "s-1"} {
		p, s, c := &shellPods{t: t, born: corev1.PodRunning}, &sessions{}, &container{}
		if parent == "browser" {
			s.browser = parent
		}
		h := &kapisterminal.V1alpha2{Kubectl: kubectl(t, p, s), Executor: c, Max: time.Hour}
		srv := serve(t, h,
			func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
				t.Error("another right is asked about")
				return authz.Decision{}, nil
			})
		conn, _, said := dial(t, srv.URL+path, login, "User-Agent: page")
		if conn == nil {
			t.Fatal(said)
		}
		if code, shown := ended(t, conn); code != websocket.StatusNormalClosure || shown != "in the shell" {
			t.Errorf("%d, %q", code, shown)
		}
		idle(t, h.Kubectl.Limits)
		if want := "GET /pods/own, POST /pods, POST /leases, GET /pods/own"; p.questions() != want {
			t.Errorf("%s, want %s", p.questions(), want)
		}
		if got := strings.Join(c.runs, ", "); got != "write, shell sh, rm" {
			t.Errorf("it runs %s", got)
		}
		_, access, _ := strings.Cut(c.input, "\n")
		if strings.Count(access, ".") != 2 || strings.Contains(c.full, access) {
			t.Errorf("the token is %q, the commands are %s", access, c.full)
		}
		if len(s.opened) != 1 || strings.Join(s.ended, " ") != "child" {
			t.Fatalf("opened: %+v, ended: %q", s.opened, s.ended)
		}
		if l := s.opened[0]; l.Client != "kubectl-terminal" || l.Parent != parent || !l.NoRefresh || l.Provider != "ldap" || strings.Join(l.Groups, " ") != "g" ||
			l.User.UID != bobUID || strings.Join(l.Scopes, " ") != "api" || l.UserAgent != "page" {
			t.Errorf("%+v", l)
		}
	}
}

// A kubectl shell is recorded as any other, and without its recording nothing is made: what its login is written by is in no cast.
func TestAKubectlShellIsRecorded(t *testing.T) { // O9, O12
	p, s, c := &shellPods{t: t, born: corev1.PodRunning}, &sessions{}, &container{}
	r, folder, stop := recorder(t, recording.Options{Strict: true})
	srv := serve(t, &kapisterminal.V1alpha2{Kubectl: kubectl(t, p, s), Executor: c, Recorder: r, Max: time.Hour}, nil)
	conn, _, said := dial(t, srv.URL+kubectlPath, login)
	if conn == nil {
		t.Fatal(said)
	}
	ended(t, conn)
	stop()
	casts, err := filepath.Glob(filepath.Join(folder, "*.cast"))
	if err != nil || len(casts) != 1 {
		t.Fatalf("got %d casts, %v, want one", len(casts), err)
	}
	cast, err := os.ReadFile(casts[0])
	_, access, _ := strings.Cut(c.input, "\n")
	if err != nil || !strings.Contains(string(cast), "in the shell") || access == "" || strings.Contains(string(cast), access) {
		t.Errorf("the cast is %s, %v", cast, err)
	}

	p, s = &shellPods{t: t, born: corev1.PodRunning}, &sessions{}
	r, folder, _ = recorder(t, recording.Options{Strict: true})
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	srv = serve(t, &kapisterminal.V1alpha2{Kubectl: kubectl(t, p, s), Executor: &container{}, Recorder: r}, nil)
	conn, res, _ := dial(t, srv.URL+kubectlPath, login)
	if conn != nil || res.StatusCode != http.StatusServiceUnavailable || p.questions() != "" || len(s.opened) != 0 {
		t.Errorf("without a recording: %d, asked %q, %d logins", res.StatusCode, p.questions(), len(s.opened))
	}
}

func TestThePodOfKubectlShellsIsSharedByItsUsers(t *testing.T) { // O8
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := kubectlshell.Shell{Image: "tools", User: "bob", UID: bobUID}.Pod()
		p.UID, p.Status.Phase = "former", corev1.PodRunning
		change(p)
		return p
	}
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		after func(p *shellPods, asked string)
		born  corev1.PodPhase
		code  int // of HTTP, or of the end
		asked string
	}{
		"ItRuns": {pod: pod(func(*corev1.Pod) {}), code: 1000, asked: "GET /pods/own, PATCH /leases/own, GET /pods/own"},
		"ItHasEnded": {pod: pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), born: corev1.PodRunning, code: 1000,
			asked: "GET /pods/own, DELETE /pods/own, GET /pods/own, POST /pods, POST /leases, GET /pods/own"},
		"ItIsBeingDeleted": {pod: pod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }), born: corev1.PodRunning, code: 1000,
			after: func(p *shellPods, _ string) {
				if p.pod != nil && p.pod.UID == types.UID("former") && len(p.asked) > 2 {
					p.pod = nil
				}
			}, asked: "GET /pods/own, POST /pods, POST /leases, GET /pods/own"},
		"ItIsAnothers": {pod: pod(func(p *corev1.Pod) { p.Labels["terminal.kapis.dev/user-uid"] = "x" }), code: 409, asked: "GET /pods/own"},
		"ItDies":       {born: corev1.PodFailed, code: 4404, asked: "GET /pods/own, POST /pods, POST /leases, GET /pods/own"},
		"ItGoesBeforeItIsUsed": {pod: pod(func(*corev1.Pod) {}), born: corev1.PodRunning, code: 1000, after: func(p *shellPods, asked string) {
			if asked == "PATCH /leases/own" {
				p.pod = nil
			}
		}, asked: "GET /pods/own, PATCH /leases/own, GET /pods/own, POST /pods, POST /leases, GET /pods/own"},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := &shellPods{t: t, pod: c.pod, born: c.born, after: c.after}, &sessions{}
			h := &kapisterminal.V1alpha2{Kubectl: kubectl(t, p, s), Executor: &container{}}
			srv := serve(t, h, nil)
			conn, res, said := dial(t, srv.URL+kubectlPath, login)
			code := res.StatusCode
			if conn != nil {
				end, _ := ended(t, conn)
				code = int(end)
			}
			idle(t, h.Kubectl.Limits)
			if code != c.code || p.questions() != c.asked || (code == 1000) != (len(s.opened) == 1) || len(s.opened) != len(s.ended) {
				t.Errorf("%d %s: %s; %d are opened, %q ended", code, said, p.questions(), len(s.opened), s.ended)
			}
		})
	}
}

// What fails after the pod was made says why, and leaves no login.
func TestALoginThatFailsOpensNoShell(t *testing.T) { // O9
	for name, c := range map[string]struct {
		over  bool
		fails error
		code  int
		says  string
	}{
		"TheLoginIsOver":     {true, nil, 4403, "the login has ended"},
		"TheImageHasNoTools": {false, &terminal.ExitError{Code: 127}, 4404, "sh: cat: not found"},
	} {
		t.Run(name, func(t *testing.T) {
			p, s, in := &shellPods{t: t, born: corev1.PodRunning}, &sessions{over: c.over}, &container{fails: c.fails}
			h := &kapisterminal.V1alpha2{Kubectl: kubectl(t, p, s), Executor: in}
			srv := serve(t, h, nil)
			conn, _, said := dial(t, srv.URL+kubectlPath, login)
			if conn == nil {
				t.Fatal(said)
			}
			if code, shown := ended(t, conn); int(code) != c.code || !strings.Contains(shown, c.says) {
				t.Errorf("%d %s", code, shown)
			}
			idle(t, h.Kubectl.Limits)
			if len(s.opened) != len(s.ended) || slices.Contains(in.runs, "shell") {
				t.Errorf("%d are opened, %q ended; it runs %q", len(s.opened), s.ended, in.runs)
			}
		})
	}
}

func TestWhatIsRefusedMakesNoPodWithKubectl(t *testing.T) { // O8, O6
	full := terminal.NewLimiter(terminal.Limits{Total: 1, Of: "kubectl shells", Window: time.Second}, time.Now)
	noServer := func() (kubectlshell.Target, error) {
		return kubectlshell.Target{}, status.Errorf(http.StatusNotImplemented, "set aggregated.enabled")
	}
	for name, c := range map[string]struct {
		user    string
		change  func(*kapisterminal.V1alpha2)
		headers []string
		code    int
		says    string
	}{
		"AnothersName":    {"ann", nil, []string{login}, 403, `nobody opens one for \"ann\"`},
		"AnothersAndOff":  {"ann", func(h *kapisterminal.V1alpha2) { h.Kubectl = nil }, []string{login}, 403, "nobody opens one"},
		"Off":             {"bob", func(h *kapisterminal.V1alpha2) { h.Kubectl = nil }, []string{login}, 501, "set terminal.kubectl.image"},
		"NoServer":        {"bob", func(h *kapisterminal.V1alpha2) { h.Kubectl.Target = noServer }, []string{login}, 501, "set aggregated.enabled"},
		"NoLogin":         {"bob", nil, nil, 403, "has another credential"},
		"ByAKubectlShell": {"bob", nil, []string{"X-Login: kubectl-terminal"}, 403, "opens no other"},
		"NobodysUID":      {"bob", nil, []string{login, "X-Uid: ../x"}, 403, "whose UID is known here"},
		"AnotherSite":     {"bob", nil, []string{login, "Sec-Fetch-Site: cross-site"}, 403, "another site"},
		"TooMany":         {"bob", func(h *kapisterminal.V1alpha2) { h.Kubectl.Limits = full }, []string{login}, 429, "has 0 kubectl shells open"},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := &shellPods{t: t}, &sessions{}
			opened := executor(func(*http.Request, terminal.Streams) error { t.Error("it is opened"); return nil })
			h := &kapisterminal.V1alpha2{Kubectl: kubectl(t, p, s), Executor: opened}
			if c.change != nil {
				c.change(h)
			}
			url := serve(t, h, nil).URL
			for _, path := range []string{kubectlPath, olderPath} {
				if path == olderPath && name == "AnotherSite" {
					continue // it is no terminal
				}
				conn, res, said := dial(t, url+strings.Replace(path, "/bob/", "/"+c.user+"/", 1), c.headers...)
				if conn != nil || res.StatusCode != c.code || !strings.Contains(said, c.says) || p.questions() != "" || len(s.opened) != 0 {
					t.Errorf("%d %s; %s", res.StatusCode, said, p.questions())
				}
			}
			if h.Kubectl != nil && h.Kubectl.Limits.Open() != 0 {
				t.Errorf("%d are counted", h.Kubectl.Limits.Open())
			}
		})
	}
}

// An older client asks for the pod, and opens a terminal there.
func TestOlderClientsAskForThePodOfKubectlShells(t *testing.T) { // O8
	p, s := &shellPods{t: t, born: corev1.PodRunning}, &sessions{}
	_, res, said := dial(t, serve(t, &kapisterminal.V1alpha2{Kubectl: kubectl(t, p, s)}, nil).URL+olderPath, login)
	var got map[string]string
	if err := json.Unmarshal([]byte(said), &got); err != nil || res.StatusCode != http.StatusOK || len(got) != 3 ||
		got["namespace"] != "kubesphere-terminals" || got["pod"] != "kubectl-"+bobUID || got["container"] != "kubectl" || len(s.opened) != 0 {
		t.Errorf("%d %s %v", res.StatusCode, said, err)
	}
	p.pod.Status.Phase = corev1.PodPending
	slow := kubectl(t, p, s)
	slow.Timeout = time.Nanosecond
	_, res, said = dial(t, serve(t, &kapisterminal.V1alpha2{Kubectl: slow}, nil).URL+olderPath, login)
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !strings.Contains(said, "does not run") {
		t.Errorf("%d %s", res.StatusCode, said)
	}
}

func TestTheRightToAKubectlShellIsOneOfItsUser(t *testing.T) { // O8
	bob := &user.DefaultInfo{Name: "bob", UID: bobUID}
	const pods = "/kapis/terminal.kubesphere.io/v1alpha2/namespaces/kubesphere-terminals/pods/"
	for path, want := range map[string]string{
		"GET " + ownPodPath + "/exec": `get users/kubectl.terminal.kubesphere.io "bob"`,
		"GET " + ownPodPath:           `get users/kubectl.terminal.kubesphere.io "bob"`,
		"GET " + olderPath:            `get users/kubectl.terminal.kubesphere.io "bob"`,
		"GET " + strings.Replace(olderPath, "/bob/", "/ann/", 1): `get users/kubectl.terminal.kubesphere.io "ann"`,
		"GET " + kubectlPath:                                                       "",
		"POST " + ownPodPath + "/exec":                                             "",
		"GET " + ownPodPath + "/file":                                              "",
		"GET " + ownPodPath + "-x/exec":                                            "",
		"GET " + pods + "kubectl-" + bobUID[:35]:                                   "",
		"GET " + pods + "kubectl-" + bobUID[:35] + "5/exec":                        "",
		"GET " + strings.Replace(ownPodPath, "kubesphere-terminals", "default", 1): "",
		"GET " + strings.Replace(ownPodPath, "/kapis/terminal.kubesphere.io/v1alpha2", "/api/v1", 1): "",
		"GET " + strings.Replace(ownPodPath, "terminal.kubesphere.io", "resources.kubesphere.io", 1): "",
		"GET " + strings.Replace(olderPath, "/kapis/", "/apis/", 1):                                  "",
		"GET " + strings.Replace(olderPath, "/kubectl", "/kubeconfig", 1):                            "",
	} {
		method, at, _ := strings.Cut(path, " ")
		info := requesttest.Info(t, method, at)
		before, got := *info, ""
		if own := kapisterminal.OwnShell(bob, info); own != nil {
			got = own.Asked()
			if terms := requesttest.Info(t, "GET", kubectlPath); own.Scope != terms.Scope || own.Namespace != "" {
				t.Errorf("%s is %+v, want the scope of %+v", path, own, terms)
			}
		}
		if got != want || *info != before {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
		unknown := &user.DefaultInfo{Name: "bob"}
		if kapisterminal.OwnShell(nil, info) != nil || strings.Contains(path, "/pods/") && kapisterminal.OwnShell(unknown, info) != nil {
			t.Errorf("%s is somebody else's", path)
		}
	}
}
