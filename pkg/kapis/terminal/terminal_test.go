package terminal_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	restful "github.com/emicklei/go-restful/v3"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	kapisterminal "kapis.dev/ks-apiserver/pkg/kapis/terminal"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/terminal"
)

const path = "/kapis/terminal.kubesphere.io/v1alpha2/namespaces/a/pods/p"

// executor is an Executor made of a function.
type executor func(r *http.Request, s terminal.Streams) error

func (e executor) Exec(r *http.Request, s terminal.Streams) error { return e(r, s) }

// serve serves the routes to bob, as if the filters had let each request pass.
func serve(t *testing.T, h *kapisterminal.V1alpha2, may authz.Func) *httptest.Server {
	t.Helper()
	return serveWithin(t, t.Context(), h, may)
}

// serveWithin is serve for requests whose contexts have the values of ctx.
func serveWithin(t *testing.T, ctx context.Context, h *kapisterminal.V1alpha2, may authz.Func) *httptest.Server {
	t.Helper()
	old := goleak.IgnoreCurrent()
	if may == nil {
		may = func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
			return authz.Allow("", "kapis:namespace:opener"), nil
		}
	}
	h.Authorizer = may
	if h.Streams == nil {
		h.Streams = stream.New(stream.Options{})
	}
	if h.Pods == nil {
		h.Pods = terminal.NewLimiter(terminal.PodLimits, time.Now)
	}
	if h.Executor == nil {
		h.Executor = executor(func(_ *http.Request, s terminal.Streams) error { _, err := io.ReadAll(s.Stdin); return err })
	}
	older := new(restful.WebService).Path("/kapis/resources.kubesphere.io/v1alpha2").Produces(restful.MIME_JSON)
	h.MountOlder(older)
	c := kapistest.Container(h.WebService(), older)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := request.Parse(r)
		if err != nil {
			t.Error(err)
			return
		}
		bob := &user.DefaultInfo{Name: "bob", UID: bobUID}
		if r.Header.Get("X-Uid") != "" {
			bob.UID = r.Header.Get("X-Uid")
		}
		ctx := request.WithUser(request.WithInfo(r.Context(), info), bob)
		if client := r.Header.Get("X-Login"); client != "" { // bob has logged in to that client
			in := &session.Session{Name: "s-1", User: "bob", UserUID: bob.UID, Client: client}
			ctx = request.WithUser(ctx, session.WithSession(bob, in))
		}
		ctx = authz.WithDecision(ctx, authz.Allow("", "kapis:global:authenticated")) // as filter.Authorize does
		c.ServeHTTP(w, r.WithContext(ctx))
	}))
	srv.Config.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
	srv.Start()
	t.Cleanup(func() {
		srv.Close()
		goleak.VerifyNone(t, old)
	})
	return srv
}

// dial opens a terminal, or returns the answer that refuses it, with its body.
func dial(t *testing.T, url string, headers ...string) (*websocket.Conn, *http.Response, string) {
	t.Helper()
	h := http.Header{}
	for _, line := range headers {
		k, v, _ := strings.Cut(line, ": ")
		h.Add(k, v)
	}
	conn, res, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPHeader: h})
	if err == nil {
		t.Cleanup(func() { _ = conn.CloseNow() })
		return conn, res, ""
	}
	if res == nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return nil, res, string(body)
}

func TestAShellIsAnExecOfTheCallers(t *testing.T) { // O1
	for query, want := range map[string]string{
		"":                        "command=sh&command=-c&command=command+-v+bash+%3E%2Fdev%2Fnull+%26%26+exec+bash+%7C%7C+exec+sh&stdin=true&stdout=true&tty=true",
		"?container=web&shell=sh": "command=sh&container=web&stdin=true&stdout=true&tty=true",
		"?container=&shell=bash":  "command=bash&stdin=true&stdout=true&tty=true",
		"?shell=rm+-rf+/":         "command=sh&command=-c&command=command+-v+bash+%3E%2Fdev%2Fnull+%26%26+exec+bash+%7C%7C+exec+sh&stdin=true&stdout=true&tty=true",
	} {
		for _, suffix := range []string{"", "/exec"} {
			asked := make(chan *http.Request, 1)
			srv := serve(t, &kapisterminal.V1alpha2{Executor: executor(func(r *http.Request, _ terminal.Streams) error {
				asked <- r
				return nil
			})}, nil)
			conn, _, said := dial(t, srv.URL+path+suffix+query, "User-Agent: console", "Audit-Id: a-1", "Authorization: Bearer secret", "Cookie: token=secret")
			if conn == nil {
				t.Fatal(said)
			}
			r := <-asked
			info, d := request.InfoFrom(r.Context()), authz.DecisionFrom(r.Context())
			if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/a/pods/p/exec" || r.URL.RawQuery != want ||
				info.Asked() != `create pods/exec "p"` || !d.Allowed() || d.Group != "kapis:namespace:opener" || request.UserFrom(r.Context()).GetName() != "bob" {
				t.Errorf("%s %s, %s, %+v", r.Method, r.URL, info.Asked(), d)
			}
			if len(r.Header) != 2 || r.Header.Get("User-Agent") != "console" || r.Header.Get("Audit-Id") != "a-1" {
				t.Errorf("%v", r.Header)
			}
			if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
				t.Errorf("%v", err)
			}
		}
	}
}

func TestWhatIsRefusedOpensNothing(t *testing.T) { // O1, O6
	opened := executor(func(*http.Request, terminal.Streams) error { t.Error("it is opened"); return nil })
	no := func(context.Context, user.Info, *request.Info) (authz.Decision, error) { return authz.Decision{}, nil }
	broken := func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
		return authz.Allow("", ""), errors.New("secret detail")
	}
	full := terminal.NewLimiter(terminal.Limits{Total: 1, Openings: 1, Window: time.Second, Of: "terminals"}, time.Now)
	busy := stream.New(stream.Options{PerUser: 1})
	held, _, err := busy.Over(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil).WithContext(
		request.WithUser(t.Context(), &user.DefaultInfo{Name: "bob"})))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Stop()
	for name, c := range map[string]struct {
		h    kapisterminal.V1alpha2
		may  authz.Func
		path string
		code int
		says string
	}{
		"WithoutTheRight": {kapisterminal.V1alpha2{}, no, path + "/exec", 403, `cannot create resource \"pods/exec\" in API group \"\" in the namespace \"a\"`},
		"Undecided":       {kapisterminal.V1alpha2{}, broken, path + "/exec", 500, "see the server's log"},
		"BadContainer":    {kapisterminal.V1alpha2{}, nil, path + "/exec?container=a%26command=rm", 400, "no name of a container"},
		"BadPod":          {kapisterminal.V1alpha2{}, nil, strings.TrimSuffix(path, "p") + "Not_A_Pod/exec", 400, "no name of a pod"},
		"TooMany":         {kapisterminal.V1alpha2{Pods: full}, nil, path + "/exec", 429, "terminals open"},
		"TooManyStreams":  {kapisterminal.V1alpha2{Streams: busy}, nil, path + "/exec", 429, "streams open"},
	} {
		t.Run(name, func(t *testing.T) {
			c.h.Executor = opened
			_, res, said := dial(t, serve(t, &c.h, c.may).URL+c.path)
			if res.StatusCode != c.code || !strings.Contains(said, c.says) || strings.Contains(said, "secret") ||
				(c.code == 429) != (res.Header.Get("Retry-After") != "") {
				t.Errorf("%d %s", res.StatusCode, said)
			}
			if c.h.Pods.Open() != 0 {
				t.Errorf("%d are counted", c.h.Pods.Open())
			}
		})
	}
}

// A console asks without an upgrade first: the right decides, and the answer is not 404.
func TestAQuestionIsNoTerminal(t *testing.T) {
	for _, suffix := range []string{"", "/exec", "/exec?container=&shell="} {
		for _, headers := range []string{"", "Upgrade: websocket", "Connection: Upgrade\nUpgrade: SPDY/3.1"} {
			srv := serve(t, &kapisterminal.V1alpha2{}, nil)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path+suffix, nil)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(headers) {
				k, v, _ := strings.Cut(strings.TrimSpace(line), ": ")
				r.Header.Set(k, v)
			}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusBadRequest || res.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s with %q: %d", suffix, headers, res.StatusCode)
			}
			http.DefaultClient.CloseIdleConnections()
		}
	}
}

func TestPagesOfOtherSitesAreRefused(t *testing.T) { // O4
	const console, foreign = "Origin: https://console.example", "Origin: https://foreign.example"
	listed := []string{"https://console.example"}
	for _, c := range []struct {
		allowed []string
		headers []string
		open    bool
	}{
		{nil, nil, true},
		{nil, []string{foreign}, true}, // whose credentials are in the Authorization header: filter.Upgrade refuses cookies
		{nil, []string{console, "Sec-Fetch-Site: same-origin"}, true},
		{nil, []string{console, "Sec-Fetch-Site: same-site"}, true},
		{nil, []string{foreign, "Sec-Fetch-Site: cross-site"}, false},
		{nil, []string{foreign, "Sec-Fetch-Site: CROSS-SITE"}, false},
		{nil, []string{console, foreign}, false},
		{listed, nil, true},
		{listed, []string{console}, true},
		{listed, []string{"Origin: https://CONSOLE.example"}, true},
		{listed, []string{console, "Sec-Fetch-Site: cross-site"}, true},
		{listed, []string{foreign}, false},
		{listed, []string{"Origin: null"}, false},
		{listed, []string{"Origin: https://console.example.evil"}, false},
		{listed, []string{"Origin: http://console.example"}, false},
		{listed, []string{"Sec-Fetch-Site: cross-site"}, false},
	} {
		srv := serve(t, &kapisterminal.V1alpha2{AllowedOrigins: c.allowed}, nil)
		conn, res, said := dial(t, srv.URL+path+"/exec", c.headers...)
		if (conn != nil) != c.open || conn == nil && res.StatusCode != http.StatusForbidden {
			t.Errorf("%v with %v: %d %s", c.headers, c.allowed, res.StatusCode, said)
		}
		if conn != nil {
			_ = conn.Close(websocket.StatusNormalClosure, "")
		}
	}
}

func TestATerminalThatHasEndedCountsNoMore(t *testing.T) { // O6
	l := terminal.NewLimiter(terminal.PodLimits, time.Now)
	srv := serve(t, &kapisterminal.V1alpha2{Pods: l, Executor: executor(func(*http.Request, terminal.Streams) error {
		return apierrors.NewBadRequest("container x is not valid")
	})}, nil)
	conn, _, _ := dial(t, srv.URL+path+"/exec")
	var err error
	for err == nil {
		_, _, err = conn.Read(t.Context())
	}
	if websocket.CloseStatus(err) != terminal.CodeContainer {
		t.Errorf("%v", err)
	}
	idle(t, l)
}

// idle waits until nothing is open.
func idle(t *testing.T, l *terminal.Limiter) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); l.Open() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is counted")
		}
	}
}
