package terminal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	kapisterminal "kapis.dev/ks-apiserver/pkg/kapis/terminal"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/terminal"
	"kapis.dev/ks-apiserver/pkg/terminal/nodeshell"
	"kapis.dev/ks-apiserver/pkg/terminal/shellpod"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	nodePath = "/kapis/terminal.kubesphere.io/v1alpha2/nodes/n/exec"
	bobUID   = "0b0b0b0b-1111-4222-8333-444444444444"
	podName  = "node-shell-" + bobUID + "-abcde"
	podsPath = "/api/v1/namespaces/kubesphere-node-shells/pods"
	leases   = "/apis/coordination.k8s.io/v1/namespaces/kubesphere-node-shells/leases"
)

// plane is a kube-apiserver with the pods of shells on nodes.
type plane struct {
	t      *testing.T
	phases []corev1.PodPhase // of the pod, each time that it is read; the last one stays
	status corev1.PodStatus
	refuse map[string]error // by "METHOD path"

	mu      sync.Mutex
	asked   []string
	made    corev1.Pod
	deleted chan struct{}
}

func newPlane(t *testing.T, phases ...corev1.PodPhase) *plane {
	return &plane{t: t, phases: phases, refuse: map[string]error{}, deleted: make(chan struct{})}
}

// RoundTrip answers as kube-apiserver, to bob in the group of shells on nodes.
func (p *plane) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ctx := httptest.NewRecorder(), r.Context()
	if d := authz.DecisionFrom(ctx); !d.Allowed() || d.Group != "kapis:platform:nodeshell" || request.UserFrom(ctx).GetName() != "bob" ||
		request.InfoFrom(ctx).Path != r.URL.Path {
		p.t.Errorf("%s %s as %v by %+v", r.Method, r.URL, request.UserFrom(ctx), d)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Error(err)
	}
	asked := r.Method + " " + r.URL.Path
	if len(p.asked) == 0 || p.asked[len(p.asked)-1] != asked {
		p.asked = append(p.asked, asked)
	}
	if err := p.refuse[asked]; err != nil {
		web.WriteError(w, r, err)
		return w.Result(), nil
	}
	switch asked {
	case "POST " + podsPath:
		if err := json.Unmarshal(body, &p.made); err != nil {
			p.t.Error(err)
		}
		p.made.Name, p.made.UID = podName, "u-1"
	case "POST " + leases:
		if !strings.Contains(string(body), `"uid":"u-1"`) {
			p.t.Errorf("the Lease is %s", body)
		}
	case "GET " + podsPath + "/" + podName:
		p.made.Status = p.status
		if p.made.Status.Phase = p.phases[0]; len(p.phases) > 1 {
			p.phases = p.phases[1:]
		}
	case "DELETE " + podsPath + "/" + podName:
		if !strings.Contains(string(body), `"uid":"u-1"`) {
			p.t.Errorf("the deletion is of %s", body)
		}
		close(p.deleted)
	default:
		p.t.Errorf("it is asked for %s", asked)
	}
	if err := json.NewEncoder(w).Encode(p.made); err != nil {
		p.t.Error(err)
	}
	return w.Result(), nil
}

func (p *plane) questions() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.NewReplacer(podsPath, "pods", leases, "leases", podName, "p").Replace(strings.Join(p.asked, ", "))
}

// nodes returns shells on nodes of that plane: n is Ready, idle is not, and the label of other is not selected.
func nodes(p *plane) *kapisterminal.Nodes {
	selector, err := labels.Parse("shells=yes")
	if err != nil {
		p.t.Fatal(err)
	}
	return &kapisterminal.Nodes{
		Image: "busybox", Profile: nodeshell.Sysadmin, Selector: selector, Timeout: time.Minute, AsCaller: caller.Client{Kube: p},
		Limits: terminal.NewLimiter(terminal.NodeLimits, time.Now),
		Node: func(_ context.Context, name string) (*corev1.Node, error) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"shells": "yes"}}, Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue},
					{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
			switch name {
			case "n":
			case "idle":
				n.Status.Conditions[1].Status = corev1.ConditionUnknown
			case "other":
				n.Labels["shells"] = "no"
			default:
				return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
			}
			return n, nil
		},
	}
}

// ended reads frames to the end, and returns what was shown.
func ended(t *testing.T, conn *websocket.Conn) (code websocket.StatusCode, shown string) {
	t.Helper()
	for {
		_, raw, err := conn.Read(t.Context())
		if err != nil {
			return websocket.CloseStatus(err), shown
		}
		var f struct{ Data string }
		if err := json.Unmarshal(raw, &f); err != nil {
			t.Error(err)
		}
		shown += f.Data
	}
}

func TestAShellOnANodeIsAPodOfItsUsers(t *testing.T) { // O10
	p, attached := newPlane(t, corev1.PodPending, corev1.PodRunning), make(chan *http.Request, 1)
	h := &kapisterminal.V1alpha2{Nodes: nodes(p), Max: time.Hour, Executor: executor(func(r *http.Request, s terminal.Streams) error {
		attached <- r
		s.Started()
		_, err := io.WriteString(s.Stdout, "on the node")
		return err
	})}
	var decided []string
	conn, _, said := dial(t, serve(t, h, func(_ context.Context, _ user.Info, i *request.Info) (authz.Decision, error) {
		decided = append(decided, i.Asked())
		return authz.Allow("", "kapis:cluster:admin"), nil
	}).URL+nodePath+"?shell=sh", "User-Agent: console", "Audit-Id: a-1", "Authorization: Bearer secret")
	if conn == nil {
		t.Fatal(said)
	}
	if code, shown := ended(t, conn); code != websocket.StatusNormalClosure || shown != "on the node" {
		t.Errorf("%d, %q", code, shown)
	}
	<-p.deleted
	if want := "POST pods, POST leases, GET pods/p, DELETE pods/p"; p.questions() != want {
		t.Errorf("%s, want %s", p.questions(), want)
	}
	if len(decided) != 1 || decided[0] != `create nodes/exec "n"` {
		t.Errorf("%q is decided", decided)
	}
	r := <-attached
	info, d := request.InfoFrom(r.Context()), authz.DecisionFrom(r.Context())
	if r.Method != http.MethodPost || r.URL.String() != podsPath+"/"+podName+"/attach?container=shell&stdin=true&stdout=true&tty=true" ||
		info.Subresource != "attach" || info.Verb != "create" || d.Group != nodeshell.Group || len(r.Header) != 2 || r.Header.Get("Audit-Id") != "a-1" {
		t.Errorf("%s %s, %+v, %+v, %v", r.Method, r.URL, info, d, r.Header)
	}
	want := nodeshell.Shell{Node: "n", Image: "busybox", Profile: nodeshell.Sysadmin, User: "bob", UID: bobUID, Command: []string{"sh"}, Max: time.Hour}.Pod()
	want.Name, want.UID, want.Status.Phase = podName, "u-1", corev1.PodRunning
	if !reflect.DeepEqual(&p.made, want) {
		t.Errorf("%+v\nwant\n%+v", p.made, *want)
	}
}

// fromHub returns the context of a request that has come over a link.
func fromHub(t *testing.T) context.Context {
	t.Helper()
	const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
	by, got := linktest.NewAuthority(t), make(chan context.Context, 1)
	hub, member := linktest.Pair(t)
	h := &link.Handler{Identity: by.Member(t, uid), Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Context() })}
	go func() { _ = h.Serve(t.Context(), member, 0) }()
	l, err := link.Open(t.Context(), hub, uid, by.Hub(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://member/", nil)
	r.RequestURI = ""
	resp, err := l.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return <-got
}

// A member may have no User of who opens a shell through the hub, and its pod stays all the same: pkg/controller/terminal.
func TestAShellThroughTheHubIsKnownAsSuch(t *testing.T) { // O11, O38
	for want, ctx := range map[string]context.Context{"true": fromHub(t), "": t.Context()} {
		p := newPlane(t, corev1.PodRunning)
		conn, _, said := dial(t, serveWithin(t, ctx, &kapisterminal.V1alpha2{Nodes: nodes(p)}, nil).URL+nodePath)
		if conn == nil {
			t.Fatal(said)
		}
		_ = conn.CloseNow()
		<-p.deleted
		if got := p.made.Annotations[shellpod.AnnotationFromHub]; got != want {
			t.Errorf("the pod says %q, want %q", got, want)
		}
	}
}

func TestWhatIsRefusedMakesNoPod(t *testing.T) { // O10, O6
	no := func(context.Context, user.Info, *request.Info) (authz.Decision, error) { return authz.Decision{}, nil }
	full := terminal.NewLimiter(terminal.Limits{Total: 1, Of: "shells on nodes", Window: time.Second}, time.Now)
	for name, c := range map[string]struct {
		may     authz.Func
		path    string
		change  func(*kapisterminal.V1alpha2)
		headers []string
		code    int
		says    string
	}{
		"WithoutTheRight": {no, "n", nil, nil, 403, `cannot create resource \"nodes/exec\" in API group \"\"`},
		"OffAndWithoutIt": {no, "n", func(h *kapisterminal.V1alpha2) { h.Nodes = nil }, nil, 403, "nodes/exec"},
		"Off":             {nil, "n", func(h *kapisterminal.V1alpha2) { h.Nodes = nil }, nil, 501, "set terminal.node.image"},
		"UnknownNode":     {nil, "none", nil, nil, 404, `\"none\" not found`},
		"NotReady":        {nil, "idle", nil, nil, 409, "is not Ready"},
		"NotSelected":     {nil, "other", nil, nil, 403, "terminal.node.selector (shells=yes)"},
		"NoName":          {nil, "N_", nil, nil, 400, "no name of a node"},
		"DotsInAName":     {nil, "..x", nil, nil, 400, "no name of a node"},
		"Unicode":         {nil, "n\u00f6de", nil, nil, 400, "no name of a node"},
		"AnotherSite":     {nil, "n", nil, []string{"Sec-Fetch-Site: cross-site"}, 403, "another site"},
		"TooMany":         {nil, "n", func(h *kapisterminal.V1alpha2) { h.Nodes.Limits = full }, nil, 429, "has 0 shells on nodes open"},
		"NobodysUID":      {nil, "n", nil, []string{"X-Uid: none"}, 403, "whose UID is known here"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			h := &kapisterminal.V1alpha2{Nodes: nodes(p), Executor: executor(func(*http.Request, terminal.Streams) error { t.Error("it is opened"); return nil })}
			if c.change != nil {
				c.change(h)
			}
			conn, res, said := dial(t, serve(t, h, c.may).URL+strings.Replace(nodePath, "/n/", "/"+c.path+"/", 1), c.headers...)
			if conn != nil || res.StatusCode != c.code || !strings.Contains(said, c.says) || p.questions() != "" {
				t.Errorf("%d %s; %s", res.StatusCode, said, p.questions())
			}
			if h.Nodes != nil && h.Nodes.Limits.Open() != 0 {
				t.Errorf("%d are counted", h.Nodes.Limits.Open())
			}
		})
	}
}

// A console may ask so first: the answer is not 404, and no pod is made.
func TestAQuestionMakesNoPod(t *testing.T) { // O10
	p := newPlane(t)
	srv := serve(t, &kapisterminal.V1alpha2{Nodes: nodes(p)}, nil)
	res, err := http.Get(srv.URL + strings.Replace(nodePath, "/n/", "/none/", 1)) //nolint:noctx // of a test
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusBadRequest || p.questions() != "" {
		t.Errorf("%d, %s", res.StatusCode, p.questions())
	}
	http.DefaultClient.CloseIdleConnections()
}

// Each shell whose beginning fails says why, and leaves no pod.
func TestAPodThatDoesNotRunIsDeleted(t *testing.T) { // O10
	never := executor(func(*http.Request, terminal.Streams) error { t.Error("it is attached to"); return nil })
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", fmt.Errorf("quota exceeded"))
	pulling := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}}
	died := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: "StartError", ExitCode: 127, Message: "no nsenter"}}}}}
	for name, c := range map[string]struct {
		refused string
		phase   corev1.PodPhase
		status  corev1.PodStatus
		timeout time.Duration
		code    int // of HTTP, or of the end
		says    string
		asked   string
	}{
		"APodIsRefused":   {"POST " + podsPath, "", corev1.PodStatus{}, time.Minute, 403, "quota exceeded", "POST pods"},
		"ALeaseIsRefused": {"POST " + leases, "", corev1.PodStatus{}, time.Minute, 403, "quota exceeded", "POST pods, POST leases, DELETE pods/p"},
		"ItIsNotThere": {"GET " + podsPath + "/" + podName, "", corev1.PodStatus{}, time.Minute, 4403, "quota exceeded",
			"POST pods, POST leases, GET pods/p, DELETE pods/p"},
		"ItWaits": {"", corev1.PodPending, pulling, time.Nanosecond, 4404, "ImagePullBackOff: no such image",
			"POST pods, POST leases, GET pods/p, DELETE pods/p"},
		"ItHasDied": {"", corev1.PodFailed, died, time.Minute, 4404, "StartError (exit status 127): no nsenter",
			"POST pods, POST leases, GET pods/p, DELETE pods/p"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t, c.phase)
			p.status = c.status
			p.refuse[c.refused] = forbidden
			h := &kapisterminal.V1alpha2{Nodes: nodes(p), Executor: never}
			h.Nodes.Timeout = c.timeout
			srv := serve(t, h, nil)
			conn, res, said := dial(t, srv.URL+nodePath)
			code := res.StatusCode
			if conn != nil {
				var end websocket.StatusCode
				end, said = ended(t, conn)
				code = int(end)
			}
			if code != c.code || !strings.Contains(said, c.says) {
				t.Errorf("%d %s", code, said)
			}
			if strings.HasSuffix(c.asked, "DELETE pods/p") {
				<-p.deleted
			}
			if p.questions() != c.asked {
				t.Errorf("%s, want %s", p.questions(), c.asked)
			}
		})
	}
}

// The client has left before the pod runs.
func TestAPodGoesWithItsClient(t *testing.T) { // O10
	p := newPlane(t, corev1.PodPending)
	h := &kapisterminal.V1alpha2{Nodes: nodes(p)}
	conn, _, said := dial(t, serve(t, h, nil).URL+nodePath)
	if conn == nil {
		t.Fatal(said)
	}
	_ = conn.CloseNow()
	<-p.deleted
}
