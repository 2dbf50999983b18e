package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// lines opens a stream and returns its lines, and a channel that is closed at its end.
func (c caller) lines(t *testing.T, path string, headers ...string) (<-chan string, <-chan struct{}) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, resp.Status)
	}
	out, ended := make(chan string, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		s := bufio.NewScanner(resp.Body)
		s.Buffer(nil, 8<<20)
		for s.Scan() {
			select {
			case out <- s.Text():
			case <-t.Context().Done():
				return
			}
		}
	}()
	return out, ended
}

// until reads lines up to one for which f holds.
func until(t *testing.T, what string, lines <-chan string, f func(string) bool) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case l := <-lines:
			if f(l) {
				return
			}
		case <-late:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func scale(t *testing.T, ns, name string, replicas int) {
	t.Helper()
	admin(t).must(t, http.StatusOK, http.MethodPatch, "/apis/apps/v1/namespaces/"+ns+"/deployments/"+name,
		fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas), "Content-Type: application/merge-patch+json")
}

func TestAScaledDeploymentShowsInEveryStream(t *testing.T) {
	a, ns := admin(t), newNamespace(t)
	a.create(t, "/apis/apps/v1/namespaces/"+ns+"/deployments", deployment("web", 1))
	const dynamic = "/kapis/apps/v1"
	place := "/namespaces/" + ns + "/deployments"
	eventually(t, "it is in the cache", func(ctx context.Context) error {
		r, err := a.do(ctx, http.MethodGet, dynamic+place, nil)
		if err == nil && !strings.Contains(r.body, `"name":"web"`) {
			err = errors.New(clip(r.body))
		}
		return err
	})
	streams := map[string]<-chan string{}
	for name, s := range map[string]struct{ path, accept string }{
		"kube-apiserver's own watch":    {"/apis/apps/v1" + place + "?watch=true", "application/json"},
		"a watch":                       {dynamic + place + "?watch=true", "application/json"},
		"the older route":               {kapis + place + "?watch=true", "application/json"},
		"in the cluster":                {dynamic + "/deployments?watch=true&fieldSelector=metadata.name%3Dweb", "application/json"},
		"server-sent events":            {dynamic + place + "?watch=true", "text/event-stream"},
		"a live page":                   {dynamic + place + "?view=live&limit=10", "application/json"},
		"a live page of the older kind": {kapis + place + "?view=live&limit=10&sortBy=name", "text/event-stream"},
	} {
		streams[name], _ = a.lines(t, s.path, "Accept: "+s.accept)
		until(t, name+" begins", streams[name], func(l string) bool { return strings.Contains(l, `"name":"web"`) })
	}
	begun := time.Now()
	scale(t, ns, "web", 2)
	for name, lines := range streams {
		until(t, name+" shows the change", lines, func(l string) bool {
			return strings.Contains(l, `"replicas":2,"`) && (strings.Contains(l, `"type":"MODIFIED"`))
		})
		t.Logf("%s: %v after the request began", name, time.Since(begun).Round(time.Millisecond))
	}
}

func TestTheConsolesWatchOfOurListsByWebSocket(t *testing.T) {
	a, ns := admin(t), newNamespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, path := range []string{"/kapi/v1/watch/namespaces/" + ns + "/configmaps", "/clusters/host/kapi/v1/namespaces/" + ns + "/configmaps?watch=true"} {
		conn, _, err := websocket.Dial(ctx, a.base+path, &websocket.DialOptions{HTTPHeader: http.Header{"Cookie": {"token=" + a.token}, "Origin": {a.base}}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseNow()
		name := unique("seen")
		a.create(t, "/api/v1/namespaces/"+ns+"/configmaps", map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}})
		for found := false; !found; {
			typ, frame, err := conn.Read(ctx)
			if err != nil || typ != websocket.MessageText {
				t.Fatalf("before %s was seen: %v %v", name, typ, err)
			}
			found = strings.Contains(string(frame), `"name":"`+name+`"`)
		}
	}
}

// informer follows deployments of a namespace as client-go does, at our address.
func informer(t *testing.T, ns string) cache.SharedInformer {
	t.Helper()
	config := &rest.Config{
		Host: product.URL, BearerToken: admin(t).token, APIPath: "/kapis",
		ContentConfig: rest.ContentConfig{GroupVersion: &appsv1.SchemeGroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	i := cache.NewSharedInformer(cache.NewListWatchFromClient(client, "deployments", ns, fields.Everything()), &appsv1.Deployment{}, 0)
	go i.Run(t.Context().Done())
	eventually(t, "the informer is in step", func(context.Context) error {
		if !i.HasSynced() {
			return errors.New("not yet")
		}
		return nil
	})
	return i
}

// holds waits until the informer has exactly these deployments, with so many replicas.
func holds(t *testing.T, i cache.SharedInformer, want map[string]int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("the informer has %v", want), func(context.Context) error {
		got := map[string]int32{}
		for _, o := range i.GetStore().List() {
			d := o.(*appsv1.Deployment)
			got[d.Name] = *d.Spec.Replicas
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
}

func TestAnInformerOfClientGoFollowsOurLists(t *testing.T) { // U14, U19
	a, ns := admin(t), newNamespace(t)
	path := "/apis/apps/v1/namespaces/" + ns + "/deployments"
	a.create(t, path, deployment("web", 1))
	i := informer(t, ns)
	holds(t, i, map[string]int32{"web": 1})
	scale(t, ns, "web", 3)
	a.create(t, path, deployment("db", 0))
	holds(t, i, map[string]int32{"web": 3, "db": 0})
	a.must(t, http.StatusOK, http.MethodDelete, path+"/db", nil)
	holds(t, i, map[string]int32{"web": 3})
	t.Run("and over a restart of kube-apiserver", func(t *testing.T) {
		pid, ok := product.Process("kube-apiserver")
		if !ok {
			t.Fatal("no kube-apiserver among the processes of this instance")
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil { // the supervisor starts another one
			t.Fatal(err)
		}
		eventually(t, "it is back", func(ctx context.Context) error {
			if next, ok := product.Process("kube-apiserver"); !ok || next == pid {
				return errors.New("not started again")
			}
			r, err := a.do(ctx, http.MethodDelete, path+"/web", nil)
			if err == nil && r.code != http.StatusOK && r.code != http.StatusNotFound { // the answer to the one that did it may be lost
				err = fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			return err
		})
		// It refuses new objects until it has read its policies and webhooks, and deletions of these not.
		eventually(t, "it takes writes", a.accepts(http.StatusCreated, http.MethodPost, path+"?dryRun=All", deployment("try", 0)))
		a.create(t, path, deployment("new", 2))
		holds(t, i, map[string]int32{"new": 2})
	})
}

func TestStreamsOfOursEndWithTheRight(t *testing.T) { // S2, S53
	proves(t, "S2")
	ns, other, name := newNamespace(t), newNamespace(t), unique("streamer")
	u := newUser(t, name)
	role(t, ns, "streamer", rule{[]string{""}, []string{"configmaps"}, []string{"get", "list", "watch"}})
	for _, c := range []struct {
		name string
		end  func(t *testing.T, binding string)
	}{
		{"the binding is removed", func(t *testing.T, binding string) {
			admin(t).must(t, http.StatusOK, http.MethodDelete, iamAPI+"/namespaces/"+ns+"/rolebindings/"+binding, nil)
		}},
		{"the session is over", func(t *testing.T, _ string) { u.must(t, http.StatusOK, http.MethodGet, "/oauth/logout", nil) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			binding := bind(t, ns, "streamer", map[string]any{"kind": "User", "name": name})
			place := "/namespaces/" + ns + "/configmaps"
			eventually(t, "the role counts", u.is(http.StatusOK, http.MethodGet, "/kapi/v1"+place))
			var ended []<-chan struct{}
			for _, path := range []string{"/kapi/v1" + place + "?watch=true", "/kapi/v1" + place + "?view=live&limit=5", kapis + place + "?watch=true"} {
				for _, accept := range []string{"application/json", "text/event-stream"} {
					_, end := u.lines(t, path, "Accept: "+accept)
					ended = append(ended, end)
				}
			}
			u.must(t, http.StatusForbidden, http.MethodGet, "/kapi/v1/namespaces/"+other+"/configmaps?watch=true&fieldSelector=metadata.name%3Dx", nil)
			u.must(t, http.StatusForbidden, http.MethodGet, "/kapi/v1/watch/namespaces/"+other+"/configmaps", nil)
			u.must(t, http.StatusForbidden, http.MethodGet, "/kapi/v1/namespaces/"+ns+"/secrets?watch=true", nil)
			c.end(t, binding)
			late := after(t, 2*revocation)
			for i, end := range ended {
				if !endsBy(end, late) {
					t.Fatalf("stream %d goes on %v later", i, 2*revocation)
				}
			}
		})
	}
}

func TestHeadOfAWatchHasNoEvents(t *testing.T) {
	r := admin(t).must(t, http.StatusOK, http.MethodHead, "/kapi/v1/pods?watch=true", nil)
	if r.body != "" || r.header.Get("Content-Type") != "application/json" || r.header.Get("Cache-Control") == "" {
		t.Errorf("%v %q", r.header, r.body)
	}
}

func TestSIGTERMEndsOurStreamsCleanly(t *testing.T) {
	other, err := product.Replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := loginAt(t, other.URL, "admin", product.AdminPassword)
	_, watch := c.lines(t, "/kapi/v1/namespaces?watch=true")
	live, page := c.lines(t, kapis+"/namespaces?view=live&limit=3")
	until(t, "the page", live, func(l string) bool {
		var m struct {
			Items []metav1.PartialObjectMetadata
		}
		return json.Unmarshal([]byte(l), &m) == nil && len(m.Items) == 3
	})
	done := make(chan error, 1)
	go func() { done <- other.Stop() }()
	for _, end := range []<-chan struct{}{watch, page} {
		select {
		case <-end:
		case <-time.After(patience):
			t.Error("a stream was not ended")
		}
	}
	if err := <-done; err != nil {
		t.Errorf("it did not end with 0: %v", err)
	}
}
