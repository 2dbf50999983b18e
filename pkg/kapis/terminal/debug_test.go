package terminal_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	kapisterminal "kapis.dev/ks-apiserver/pkg/kapis/terminal"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/terminal"
)

// podOfBob is a kube-apiserver with the pod p, to which containers are added, and says what the kubelet says of them.
type podOfBob struct {
	t      *testing.T
	states []corev1.ContainerState // of the container, each time that the pod is read; the last one stays

	mu    sync.Mutex
	asked []string
	added []corev1.EphemeralContainer
}

func (p *podOfBob) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ctx := httptest.NewRecorder(), r.Context()
	if request.UserFrom(ctx).GetName() != "bob" || !authz.DecisionFrom(ctx).Allowed() || request.InfoFrom(ctx).Path != r.URL.Path {
		p.t.Errorf("%s %s as %v", r.Method, r.URL, request.UserFrom(ctx))
	}
	if what := request.InfoFrom(ctx).Asked(); !slices.Contains(p.asked, what) {
		p.asked = append(p.asked, what)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Error(err)
	}
	if r.Method == http.MethodPatch {
		var patch struct {
			Spec struct{ EphemeralContainers []corev1.EphemeralContainer }
		}
		if err := json.Unmarshal(body, &patch); err != nil || r.Header.Get("Content-Type") != "application/strategic-merge-patch+json" {
			p.t.Errorf("%s %s: %v", r.Header.Get("Content-Type"), body, err)
		}
		p.added = append(p.added, patch.Spec.EphemeralContainers...)
	}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "web", SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(1234))}}, {Name: "root", SecurityContext: &corev1.SecurityContext{
			RunAsUser: new(int64(0))}}}}}
	pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "another", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if len(p.added) > 0 && r.Method == http.MethodGet && len(p.states) > 0 {
		pod.Status.EphemeralContainerStatuses = append(pod.Status.EphemeralContainerStatuses, corev1.ContainerStatus{Name: p.added[0].Name, State: p.states[0]})
		if len(p.states) > 1 {
			p.states = p.states[1:]
		}
	}
	if err := json.NewEncoder(w).Encode(pod); err != nil {
		p.t.Error(err)
	}
	return w.Result(), nil
}

// debugging serves terminals that add containers of the image "tools:1".
func debugging(t *testing.T, p *podOfBob, may authz.Func, by executor) string {
	t.Helper()
	if may == nil {
		may = func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
			return authz.Allow("", ""), nil
		}
	}
	return serve(t, &kapisterminal.V1alpha2{Executor: by, Debug: kapisterminal.Debug{Images: []string{"tools:1"},
		AsCaller: caller.Client{May: may, Kube: p}}}, may).URL + path + "/exec"
}

// O1: a container of a listed image is added for a container without a shell, restricted, by rights to each step; the terminal is its process.
func TestAContainerIsAddedForOneWithoutAShell(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	p := &podOfBob{t: t, states: []corev1.ContainerState{waiting, running}}
	var attached *http.Request
	url := debugging(t, p, nil, func(r *http.Request, s terminal.Streams) error {
		attached = r
		s.Started()
		return nil
	})
	conn, _, said := dial(t, url+"?container=web&shell=sh&debug=tools:1")
	if conn == nil {
		t.Fatal(said)
	}
	var err error
	for err == nil {
		_, _, err = conn.Read(t.Context())
	}
	if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Fatalf("%v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.added) != 1 {
		t.Fatalf("added are %+v", p.added)
	}
	c := p.added[0]
	s := c.SecurityContext
	if c.Image != "tools:1" || c.TargetContainerName != "web" || !slices.Equal(c.Command, []string{"sh"}) || !c.Stdin || !c.StdinOnce || !c.TTY ||
		len(c.VolumeMounts) > 0 || s == nil || !*s.RunAsNonRoot || *s.AllowPrivilegeEscalation || *s.RunAsUser != 1234 || s.Privileged != nil ||
		!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || s.Capabilities.Add != nil || s.SeccompProfile.Type != "RuntimeDefault" {
		t.Errorf("added is %+v with %+v", c, s)
	}
	if want := []string{`get pods "p"`, `patch pods/ephemeralcontainers "p"`}; !slices.Equal(p.asked, want) {
		t.Errorf("asked is %q, want %q", p.asked, want)
	}
	if attached.Method != http.MethodPost || attached.URL.Path != "/api/v1/namespaces/a/pods/p/attach" || attached.URL.Query().Get("container") != c.Name ||
		request.InfoFrom(attached.Context()).Asked() != `create pods/attach "p"` || !authz.DecisionFrom(attached.Context()).Allowed() {
		t.Errorf("attached is %s %s", attached.Method, attached.URL)
	}
}

// O1: a container whose terminal is over before it runs, or never began, is ended by an input that ends, and counts until then.
func TestAContainerThatNobodyWaitsForIsEnded(t *testing.T) {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	p := &podOfBob{t: t, states: []corev1.ContainerState{waiting}}
	var tries int
	ended := make(chan *http.Request, 1)
	url := debugging(t, p, nil, func(r *http.Request, s terminal.Streams) error {
		if tries++; tries == 1 {
			return errors.New("container not found: it is being pulled")
		}
		in, err := io.ReadAll(s.Stdin)
		if err != nil || len(in) > 0 || !s.TTY {
			t.Errorf("its input is %q, %v", in, err)
		}
		s.Started()
		ended <- r
		return nil
	})
	conn, _, said := dial(t, url+"?container=web&shell=sh&debug=tools:1")
	if conn == nil {
		t.Fatal(said)
	}
	_ = conn.CloseNow()
	r := <-ended
	p.mu.Lock()
	defer p.mu.Unlock()
	if tries != 2 || len(p.added) != 1 || r.URL.Query().Get("container") != p.added[0].Name || !authz.DecisionFrom(r.Context()).Allowed() {
		t.Errorf("after %d tries %s was attached to, of %+v", tries, r.URL, p.added)
	}
}

// O1: what is no WebSocket that can be answered is refused before anything is changed.
func TestWhatCanNotBeAnsweredChangesNothing(t *testing.T) {
	key := "Sec-WebSocket-Key: " + base64.StdEncoding.EncodeToString(make([]byte, 16))
	for name, headers := range map[string][]string{
		"AnotherVersion": {"Sec-WebSocket-Version: 8", key},
		"NoVersion":      {key},
		"NoKey":          {"Sec-WebSocket-Version: 13"},
		"TwoKeys":        {"Sec-WebSocket-Version: 13", key, key},
		"AShortKey":      {"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: YQ=="},
		"ABrokenKey":     {"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: !"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &podOfBob{t: t}
			url := debugging(t, p, nil, func(*http.Request, terminal.Streams) error { t.Error("it is attached"); return nil })
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"?container=web&debug=tools:1", nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range append(headers, "Connection: Upgrade", "Upgrade: websocket") {
				k, v, _ := strings.Cut(line, ": ")
				r.Header.Add(k, v)
			}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusBadRequest || len(p.added) > 0 {
				t.Errorf("it is %d, and added is %+v", res.StatusCode, p.added)
			}
		})
	}
}

// O1: what may not be added is refused before anything is changed, and so is a caller who lacks one of the rights.
func TestWhatMayNotBeAddedChangesNothing(t *testing.T) {
	without := func(what string) authz.Func {
		return func(_ context.Context, _ user.Info, i *request.Info) (authz.Decision, error) {
			if strings.HasPrefix(i.Asked(), what) {
				return authz.Decision{}, nil
			}
			return authz.Allow("", ""), nil
		}
	}
	for name, c := range map[string]struct {
		may   authz.Func
		query string
		code  int
		says  string
	}{
		"AnotherImage":      {nil, "container=web&debug=evil:1", 403, "one of"},
		"APartOfAnImage":    {nil, "container=web&debug=tools", 403, "one of"},
		"NoContainer":       {nil, "debug=tools:1", 400, "needs the parameter container"},
		"NoSuchContainer":   {nil, "container=none&debug=tools:1", 404, "no container"},
		"WithoutExec":       {without("create pods/exec"), "container=web&debug=tools:1", 403, "pods/exec"},
		"WithoutAttach":     {without("create pods/attach"), "container=web&debug=tools:1", 403, "pods/attach"},
		"WithoutReading":    {without("get pods"), "container=web&debug=tools:1", 403, "cannot get resource"},
		"WithoutTheAdding":  {without("patch pods/ephemeralcontainers"), "container=web&debug=tools:1", 403, "pods/ephemeralcontainers"},
		"AQuotedImageTwice": {nil, "container=web&debug=" + url.QueryEscape(`tools:1","privileged":true`), 403, "one of"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &podOfBob{t: t}
			at := debugging(t, p, c.may, func(*http.Request, terminal.Streams) error { t.Error("it is attached"); return nil })
			_, res, said := dial(t, at+"?"+c.query)
			if res.StatusCode != c.code || !strings.Contains(said, c.says) {
				t.Errorf("%d %s", res.StatusCode, said)
			}
			if len(p.added) > 0 {
				t.Errorf("added is %+v", p.added)
			}
		})
	}
	_, res, said := dial(t, serve(t, &kapisterminal.V1alpha2{}, nil).URL+path+"/exec?container=web&debug=tools:1")
	if res.StatusCode != http.StatusNotImplemented || !strings.Contains(said, "terminal.debugImages") {
		t.Errorf("%d %s", res.StatusCode, said)
	}
}

// O5: a container that does not come to run ends the terminal with what the kubelet says, and one without a shell with what helps.
func TestATerminalTellsOfContainersWithoutAShell(t *testing.T) {
	died := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "StartError", ExitCode: 127, Message: "no sh"}}
	for name, c := range map[string]struct {
		query string
		by    executor
		says  string
	}{
		"ItDies":    {"?container=root&debug=tools:1", nil, "StartError (exit status 127): no sh"},
		"NoShell":   {"?container=web", func(*http.Request, terminal.Streams) error { return &terminal.ExitError{Code: 127} }, "debug=tools:1"},
		"OfItself":  {"?container=web", func(*http.Request, terminal.Streams) error { return &terminal.ExitError{Code: 1} }, ""},
		"OfANotice": {"", func(*http.Request, terminal.Streams) error { return &terminal.ExitError{Code: 126} }, "debug=tools:1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &podOfBob{t: t, states: []corev1.ContainerState{died}}
			conn, _, said := dial(t, debugging(t, p, nil, c.by)+c.query)
			if conn == nil {
				t.Fatal(said)
			}
			var all string
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for {
				_, raw, err := conn.Read(ctx)
				if err != nil {
					if code := websocket.CloseStatus(err); c.says != "" && code != terminal.CodeContainer || c.says == "" && code != websocket.StatusNormalClosure {
						t.Errorf("%v", err)
					}
					break
				}
				all += string(raw)
			}
			if !strings.Contains(all, c.says) || c.says == "" && strings.Contains(all, "debug") {
				t.Errorf("it shows %s", all)
			}
			if len(p.added) > 0 && p.added[0].SecurityContext.RunAsUser != nil {
				t.Errorf("a container of root's is added: %+v", p.added[0].SecurityContext)
			}
		})
	}
}
