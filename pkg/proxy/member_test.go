package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/extensionsync"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/cluster/peer"
	"kapis.dev/ks-apiserver/pkg/cluster/releasesync"
	"kapis.dev/ks-apiserver/pkg/cluster/revalidate"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
)

const memberUID = "0f8fad5b-d9cb-469f-a165-70867728950e"

// memberWorld is a hub with one member, m1, whose requests a handler answers.
type memberWorld struct {
	t       *testing.T
	members *cluster.Members
	// end ends the member, and changed gets each change between some links and none.
	end     context.CancelFunc
	changed chan struct{}
}

func newFleet(t *testing.T, h http.HandlerFunc) *memberWorld {
	t.Helper()
	by := linktest.NewAuthority(t)
	linked := make(chan struct{}, 4)
	f := &memberWorld{t: t, changed: linked, members: &cluster.Members{Identity: by.Hub(t), Host: "host", Now: time.Now, Changed: func(*cluster.Member) { linked <- struct{}{} }}}
	f.set(corev1.ConditionTrue, "")
	f.end = by.Link(t, f.members, memberUID, h)
	<-linked
	f.members.ByName("m1").SetSynced(true, nil)
	return f
}

// set feeds the Cluster with a condition.
func (f *memberWorld) set(ready corev1.ConditionStatus, message string) {
	f.t.Helper()
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1", UID: memberUID}, Spec: clusterv1alpha1.ClusterSpec{Enable: true},
		Status: clusterv1alpha1.ClusterStatus{Conditions: []clusterv1alpha1.ClusterCondition{{Type: clusterv1alpha1.ClusterReady, Status: ready, Message: message}}}}
	raw, err := json.Marshal(c)
	if err != nil {
		f.t.Fatal(err)
	}
	f.members.Set(&store.Object{Name: "m1", Raw: raw})
}

// do sends a request through the hub, as if the filters had let it through.
func (f *memberWorld) do(u user.Info, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	f.t.Helper()
	r := httptest.NewRequestWithContext(f.t.Context(), method, target, strings.NewReader(body))
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		r.Header.Add(k, v)
	}
	rec := httptest.NewRecorder()
	filtered(NewMembers(f.members.ByName, stream.New(stream.Options{})), u, allowed)(rec, r)
	return rec
}

var person = &user.DefaultInfo{Name: "ann", UID: "u-ann", Groups: []string{"dev", "kapis:global:admin", "system:masters", user.AllAuthenticated},
	Extra: map[string][]string{"example.com/Session": {"canary"}}}

// F16, F18: the path that was authorized is sent, and the query as it is; of the caller the name, and nothing that they log in with.
func TestAMemberIsToldWhoAsksAndNothingElse(t *testing.T) {
	var got *http.Request
	var body string
	f := newFleet(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got, body = r, string(raw)
		w.Header().Set("Set-Cookie", "canary=1")
		w.Header().Set("X-Kapis-Cluster", "another")
		w.WriteHeader(http.StatusCreated)
	})
	rec := f.do(person, http.MethodPost, "/clusters/m1/api/v1/namespaces/a%2db/configmaps?dryRun=All&x=%2F&x=2%3By", "the body",
		"Authorization: Bearer canary", "Cookie: token=canary", "Impersonate-User: canary", "Impersonate-Extra-A: canary", "X-Remote-User: canary",
		"X-Remote-Extra-Scope: canary", "X-Kubesphere-Authorization: canary", "X-Kubesphere-Rawquery: canary", "Forwarded: for=canary",
		"X-Forwarded-For: canary", "Proxy-Authorization: canary", "Content-Type: application/json", "Accept: application/json")
	if rec.Code != http.StatusCreated || body != "the body" {
		t.Fatalf("%d %s, %q", rec.Code, rec.Body, body)
	}
	if got.URL.Path != "/api/v1/namespaces/a-b/configmaps" || got.URL.RawQuery != "dryRun=All&x=%2F&x=2%3By" {
		t.Errorf("it is asked for %s ? %s", got.URL.Path, got.URL.RawQuery)
	}
	for name, values := range got.Header {
		if strings.Contains(strings.Join(values, " "), "canary") {
			t.Errorf("%s: %v", name, values)
		}
	}
	h := got.Header
	if h.Get("X-Remote-User") != "ann" || h.Get("X-Remote-Uid") != "u-ann" || strings.Join(h["X-Remote-Group"], " ") != "dev" ||
		h.Get("Content-Type") != "application/json" {
		t.Errorf("it is told %v", h)
	}
	if rec.Header().Get("Set-Cookie") != "" || strings.Join(rec.Header()["X-Kapis-Cluster"], " ") != "m1" {
		t.Errorf("the answer has %v", rec.Header())
	}
}

// F19: each answer that a member can't give has its code, and none is 401.
func TestAnswersOfAMemberHaveTheirCodes(t *testing.T) {
	f := newFleet(t, func(w http.ResponseWriter, r *http.Request) {
		switch name := strings.TrimPrefix(r.URL.Path, "/api/v1/pods/"); name {
		case "401":
			w.WriteHeader(http.StatusUnauthorized)
		case "redirect":
			http.Redirect(w, r, "https://elsewhere.example/canary", http.StatusFound)
		case "upgrade":
			w.WriteHeader(http.StatusOK)
		case "html":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<script>canary</script>")
		case "409":
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, "its own")
		}
	})
	for name, x := range map[string]struct {
		code   int
		reason string
	}{
		"401":      {511, "MemberUnauthorized"},
		"redirect": {502, ""},
		"409":      {409, "its own"},
		"html":     {200, ""},
	} {
		rec := f.do(person, http.MethodGet, "/clusters/m1/api/v1/pods/"+name, "")
		if rec.Code != x.code || !strings.Contains(rec.Body.String(), x.reason) || strings.Contains(rec.Body.String(), "Unauthorized\"") && name != "401" {
			t.Errorf("%s: %d %s, want %d %s", name, rec.Code, rec.Body, x.code, x.reason)
		}
		if rec.Header().Get("Location") != "" {
			t.Errorf("%s leads to %s", name, rec.Header().Get("Location"))
		}
		if name == "html" && rec.Header().Get("Content-Security-Policy") != "sandbox" {
			t.Errorf("a page of a member counts as this server's: %v", rec.Header())
		}
	}
	for name, u := range map[string]user.Info{"NoUID": &user.DefaultInfo{Name: "ann"}, "ASystemUser": &user.DefaultInfo{Name: "system:admin", UID: "u"},
		"OneOfOurs": &user.DefaultInfo{Name: "kapis:hub", UID: "u"}} {
		if rec := f.do(u, http.MethodGet, "/clusters/m1/api/v1/pods/409", ""); rec.Code != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
	unavailable := func(want string) {
		t.Helper()
		rec := f.do(person, http.MethodGet, "/clusters/m1/api/v1/pods/409", "")
		if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), want) || rec.Header().Get("Retry-After") == "" {
			t.Errorf("%d %s %v, want %s", rec.Code, rec.Body, rec.Header(), want)
		}
	}
	f.members.ByName("m1").SetSynced(false, nil) // F25
	unavailable("ClusterNotReady")
	f.members.ByName("m1").SetSynced(true, nil)
	f.set(corev1.ConditionFalse, "the reason of the condition")
	unavailable("the reason of the condition")
	f.set(corev1.ConditionTrue, "")
	if rec := f.do(person, http.MethodGet, "/clusters/m1/api/v1/pods/409", ""); rec.Code != http.StatusConflict {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	f.end()
	<-f.changed
	unavailable("ClusterUnreachable") // F21
	f.members.Delete("", "m1")
	if rec := f.do(person, http.MethodGet, "/clusters/m1/api/v1/pods", ""); rec.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// F22, F23: what lasts as long as the client likes comes at once, and ends with the right to it: streams as if they were over, and files cut off.
func TestWhatLastsAtAMemberEndsWithTheRight(t *testing.T) {
	f := newFleet(t, events(nil))
	for target, whole := range map[string]bool{"/api/v1/pods?watch=true": true, "/kapis/resources.kubesphere.io/v1alpha3/pods?view=live&limit=10": true,
		"/kapi/v1/pods?limit=1&view=live": true, "/kapis/terminal.kubesphere.io/v1alpha2/namespaces/a/pods/p/file?path=/x": false} {
		var withdrawn atomic.Bool
		g := stream.New(stream.Options{RecheckEvery: time.Millisecond, Recheck: func(context.Context, *http.Request) error {
			if withdrawn.Load() {
				return errors.New("the token was revoked")
			}
			return nil
		}})
		srv := httptest.NewServer(filtered(NewMembers(f.members.ByName, g), person, allowed))
		rest, leave := watch(t, srv.URL+"/clusters/m1"+target)
		withdrawn.Store(true)
		if more, err := io.ReadAll(rest); (err == nil) != whole || len(more) > 0 {
			t.Errorf("%s: it ends with %q %v", target, more, err)
		}
		leave()
		srv.Close()
	}
}

// F22: an answer that a member cuts is cut for the client, too, and does not end like a whole one.
func TestACutAnswerIsNoWholeOne(t *testing.T) {
	f := newFleet(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	srv := httptest.NewServer(filtered(NewMembers(f.members.ByName, stream.New(stream.Options{})), person, allowed))
	defer srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/clusters/m1/api/v1/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		return // it was cut before it began
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("%d %s ends like a whole answer", resp.StatusCode, body)
	}
}

// F20: a write whose link breaks is not sent again; a read is, over another link.
func TestAWriteIsSentOnce(t *testing.T) {
	asked := make(chan string, 8)
	for method, most := range map[string]int{http.MethodPost: 1, http.MethodPut: 1, http.MethodDelete: 1, http.MethodPatch: 1, http.MethodGet: 2} {
		f := newFleet(t, func(_ http.ResponseWriter, r *http.Request) {
			asked <- r.Method
			panic(http.ErrAbortHandler)
		})
		rec := f.do(person, method, "/clusters/m1/api/v1/namespaces/default/pods/x", "")
		if n := len(asked); n == 0 || n > most || rec.Code != http.StatusServiceUnavailable {
			t.Errorf("%s was sent %d times: %d %s", method, n, rec.Code, rec.Body)
		}
		for len(asked) > 0 {
			<-asked
		}
	}
}

// F17: what a request without a decision asks is sent nowhere.
func TestOnlyWhatWasDecidedIsSent(t *testing.T) {
	f := newFleet(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/clusters/m1/api/v1/pods", nil)
	filtered(NewMembers(f.members.ByName, stream.New(stream.Options{})), person, authz.Decision{})(rec, r)
	if rec.Code != http.StatusInternalServerError {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// F15: what a hub asks for itself no user asks through it, in whatever form.
func TestNoUserAsksAsTheHub(t *testing.T) {
	f := newFleet(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was sent", r.URL.Path) })
	for _, path := range []string{fleetsync.PathObjects, fleetsync.PathDigest, fleetsync.PathBound, fleetsync.PathAbout, fleetsync.PathHealth,
		fleetsync.PathCreator, extensionsync.PathAgent, releasesync.PathRelease, releasesync.PathRemove, revalidate.Path, peer.Path, join.PathDirect,
		"/fleet", "/fleet/", "/%66leet/objects", "/fleet%2Fobjects"} {
		for _, headers := range [][]string{nil, {"Connection: Upgrade", "Upgrade: websocket"}} {
			body := "{}"
			if headers != nil {
				body = ""
			}
			if rec := f.do(person, http.MethodPost, "/clusters/m1"+path, body, headers...); rec.Code < 400 || rec.Code >= 500 {
				t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
			}
		}
		i := &request.Info{Verb: "get", Cluster: "m1", Path: path}
		if strings.HasPrefix(path, "/fleet/") {
			resp, err := MemberReader{f.members.ByName}.Read(t.Context(), person, allowed, i, "", nil)
			if !apierrors.IsNotFound(err) {
				t.Errorf("%s is read: %v, %v", path, resp, err)
			}
		}
	}
}

// F18: an upgrade is passed on as bytes, both ways.
func TestAnUpgradeReachesAMember(t *testing.T) {
	f := newFleet(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "test" || r.Header.Get("X-Remote-User") != "ann" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(conn, "you said "+line)
	})
	srv := httptest.NewServer(filtered(NewMembers(f.members.ByName, stream.New(stream.Options{})), person, allowed))
	defer srv.Close()
	c := rawDial(t, srv)
	_, _ = io.WriteString(c.conn, "GET /clusters/m1/api/v1/namespaces/a/pods/b/exec?command=id HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", resp, err)
	}
	_, _ = io.WriteString(c.conn, "hello\n")
	if line, err := bufio.NewReader(c.r).ReadString('\n'); err != nil || line != "you said hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// F19, F31: where another cluster answers at a member's address nothing is sent, and the answer says so until the member is linked.
func TestAnotherClusterBehindTheAddressOfAMember(t *testing.T) {
	f := newFleet(t, func(http.ResponseWriter, *http.Request) {})
	m := f.members.ByName("m1")
	f.end()
	<-f.changed
	if rec := f.do(person, http.MethodGet, "/clusters/m1/api/v1/pods", ""); rec.Code != http.StatusServiceUnavailable {
		t.Fatalf("without a link: %d %s", rec.Code, rec.Body)
	}
	m.SetForeign(true)
	rec := f.do(person, http.MethodGet, "/clusters/m1/api/v1/pods", "")
	if rec.Code != http.StatusBadGateway || !strings.Contains(rec.Body.String(), `"reason":"ClusterIdentity"`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	m.SetForeign(false)
	if rec := f.do(person, http.MethodGet, "/clusters/m1/api/v1/pods", ""); rec.Code != http.StatusServiceUnavailable {
		t.Errorf("afterwards: %d %s", rec.Code, rec.Body)
	}
}
