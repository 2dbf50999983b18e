package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/cluster/agent"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/cluster/revalidate"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/tools/port"
	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	// fleetPods is how many pods each member computes, and fleetPodBytes the length of one in an answer.
	fleetPods, fleetPodBytes = 10_000, 5600
	fleetClusters            = "/apis/cluster.kubesphere.io/v1alpha1/clusters"
	// eventEvery is the pause between two events of a watch at a member.
	eventEvery = 20 * time.Millisecond
)

// fleetOf are members without a control plane: each has links to the hub, and computes what it answers.
type fleetOf struct {
	port    int
	members []*computed
	// through is what one of them, the last, reaches the hub through.
	through *way
	direct  *http.Server
	address string // of what answers as the first member does, without a hub
}

var joinToken = regexp.MustCompile(`ksj_[A-Za-z0-9_.-]+`)

// memberName returns the name of a member.
func memberName(i int) string { return fmt.Sprintf("bench-%03d", i) }

// makeMembers makes so many Clusters, and agents that join as these at a port of this machine.
func (b *bench) makeMembers(ctx context.Context, n int) (*fleetOf, error) {
	f := &fleetOf{}
	var err error
	if f.port, err = port.Reserve(); err != nil {
		return f, err
	}
	if f.through, err = newWay("127.0.0.1:" + strconv.Itoa(f.port)); err != nil {
		return f, err
	}
	ca, err := os.ReadFile(filepath.Join(b.stack.Dir, "tls-ca.crt"))
	if err != nil {
		return f, fmt.Errorf("read the authority of the hub: %w", err)
	}
	for i := range n {
		name, at := memberName(i), "127.0.0.1:"+strconv.Itoa(f.port)
		if i == n-1 {
			at = f.through.address
		}
		token, err := b.makeCluster(ctx, name)
		if err != nil {
			return f, fmt.Errorf("make the cluster %s: %w", name, err)
		}
		m := &computed{name: name}
		f.members = append(f.members, m)
		m.agent, err = agent.New(agent.Options{Secrets: &inMemory{}, Hub: &url.URL{Scheme: "https", Host: at}, CA: ca,
			Token: func() (string, error) { return token, nil }, UID: "u-" + name, KubernetesVersion: "v1.37.0", Version: "v4.1.3", Handler: m,
			Now: time.Now})
		if err != nil {
			return f, err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return f, fmt.Errorf("listen: %w", err)
	}
	f.address, f.direct = l.Addr().String(), &http.Server{Handler: f.members[0], ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = f.direct.Serve(l) }() // until it is closed
	return f, nil
}

// makeCluster makes a Cluster that dials, and returns a join token for it.
func (b *bench) makeCluster(ctx context.Context, name string) (token string, err error) {
	body, err := json.Marshal(map[string]any{"apiVersion": "cluster.kubesphere.io/v1alpha1", "kind": "Cluster",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"enable": true, "connection": map[string]any{"type": "proxy"}}})
	if err != nil {
		return "", fmt.Errorf("encode a cluster: %w", err)
	}
	resp, err := b.client.Do(ctx, stack.Request{Method: http.MethodPost, Path: fleetClusters, Token: b.client.token, Body: body})
	if err == nil && resp.Status != http.StatusCreated {
		err = fmt.Errorf("%d %.300s", resp.Status, resp.Body)
	}
	if err != nil {
		return "", err
	}
	path := "/kapis/cluster.kubesphere.io/v1alpha1/clusters/" + name + "/agent/deployment"
	if err := b.served(ctx, path); err != nil {
		return "", err
	}
	got, err := b.client.get(ctx, path)
	if err != nil {
		return "", err
	}
	if token = string(joinToken.Find(got.Body)); token == "" {
		err = errors.New("the agent's deployment has no join token")
	}
	return token, err
}

// end ends all links.
func (f *fleetOf) end() {
	for _, m := range f.members {
		m.end()
	}
	if f.direct != nil {
		_ = f.direct.Close() // nobody is there any more
	}
	f.through.close()
}

// isLinks reports whether a sample is the number of links of one of these members.
func isLinks(name string) bool { return strings.HasPrefix(name, `ks_member_links{cluster="bench-`) }

// computed is a member that answers without anything behind it.
type computed struct {
	name  string
	agent *agent.Agent
	stop  context.CancelFunc
	ended chan struct{}

	// digests and writes are what the hub has asked for itself, and bytes is what was answered to people.
	digests, writes, bytes atomic.Int64
	// silent says that nothing is answered to people.
	silent atomic.Bool
	// told gets what the hub tells of rights that are measured; nil for nothing.
	told atomic.Pointer[chan<- told]
}

// begin keeps the links, until they are ended.
func (c *computed) begin(ctx context.Context) {
	ctx, c.stop = context.WithCancel(ctx)
	c.ended = make(chan struct{})
	go func() {
		defer close(c.ended)
		c.agent.Run(ctx)
	}()
}

func (c *computed) end() {
	if c.stop != nil {
		c.stop()
		<-c.ended
		c.stop = nil
	}
}

// ServeHTTP implements http.Handler.
func (c *computed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case fleetsync.PathBound:
		_, _ = io.WriteString(w, `{"version":"1","users":[]}`)
		return
	case fleetsync.PathAbout, fleetsync.PathCreator, fleetsync.PathHealth:
		_, _ = io.WriteString(w, "{}")
		return
	case fleetsync.PathDigest:
		c.digests.Add(1)
		c.compare(r)
		_, _ = io.WriteString(w, "{}")
		return
	case fleetsync.PathObjects:
		c.writes.Add(1)
		c.keep(r)
		_, _ = io.WriteString(w, "{}")
		return
	case revalidate.Path:
		(&revalidate.Member{Next: c, Changes: never}).ServeHTTP(w, r)
		return
	}
	v := r.URL.Query()
	switch {
	case c.silent.Load():
		<-r.Context().Done()
	case v.Get("watch") == "true":
		c.watch(w, r)
	case strings.HasPrefix(r.URL.Path, "/api/"):
		c.write(w, []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"bench","namespace":"bench"},"data":{"text":"`+
			filling[:1000]+`"}}`))
	default:
		c.list(w, r, v)
	}
}

func (c *computed) write(w http.ResponseWriter, text []byte) {
	c.bytes.Add(int64(len(text)))
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // the hub is gone
}

// sortKey is that of a pod, as a member writes it.
func sortKey(i int) string { return "\x03" + computedName(i) + "\x00\x01" }

func computedName(i int) string { return fmt.Sprintf("pod-%05d", i) }

// list writes pods by their names, in ascending order, as their keys or as objects.
func (c *computed) list(w http.ResponseWriter, r *http.Request, v url.Values) {
	limit, err := strconv.Atoi(v.Get("limit"))
	if err != nil || v.Get("sortBy") != "name" || v.Get("ascending") != "true" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	tag := `W/"` + v.Get("limit") + `"` // nothing changes
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Etag", tag)
	start, _ := strconv.Atoi(v.Get("offset")) // 0 where there is none
	if text := v.Get("cursor"); text != "" {
		at, err := query.ParseCursor(text)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		start = sort.Search(fleetPods, func(i int) bool {
			d := at.Compare(sortKey(i), "bench", computedName(i))
			return d < 0 || d == 0 && !at.After
		})
	}
	start = min(start, fleetPods)
	every, err := strconv.Atoi(v.Get("every"))
	if err != nil {
		every = 1
	}
	if every == 0 {
		every = max(1, (fleetPods-start+limit-1)/max(limit, 1))
	}
	keys := v.Get("view") == query.ViewKeys
	text := fmt.Appendf(nil, `{"totalItems":%d,"start":%d,"metadata":{"resourceVersion":"7"},"%s":[`, fleetPods, start,
		map[bool]string{true: "rows", false: "items"}[keys])
	for i, n := start, 0; i < fleetPods && n < limit; i, n = i+every, n+1 {
		if n > 0 {
			text = append(text, ',')
		}
		if keys {
			key := base64.RawStdEncoding.EncodeToString([]byte(sortKey(i)))
			text = fmt.Appendf(text, `["%s","bench","%s","%s-%d","7"]`, key, computedName(i), c.name, i)
		} else {
			text = c.appendPod(text, i)
		}
	}
	if objects, err := strconv.Atoi(v.Get("objects")); err == nil && keys {
		text = append(text, `],"items":[`...)
		for i := start; i < min(start+objects, fleetPods); i++ {
			if i > start {
				text = append(text, ',')
			}
			text = c.appendPod(text, i)
		}
	}
	c.write(w, append(text, "]}"...))
}

func (c *computed) appendPod(text []byte, i int) []byte {
	return fmt.Appendf(text, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%s","namespace":"bench","uid":"%s-%d",`+
		`"resourceVersion":"7"},"spec":{"text":"%s"}}`, computedName(i), c.name, i, filling)
}

// never is that nothing changes.
func never() (uint64, <-chan struct{}) { return 0, nil }

// filling gives pods their length.
var filling = strings.Repeat("0", fleetPodBytes-120)

// watch writes an event with the time again and again.
func (c *computed) watch(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	for {
		fmt.Fprintf(w, `{"type":"MODIFIED","object":{"metadata":{"name":"pod","uid":"u"},"at":"%d"}}`+"\n", time.Now().UnixNano())
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// inMemory has the Secret of a member.
type inMemory struct {
	mu     sync.Mutex
	secret *corev1.Secret
}

// Get implements agent.Secrets.
func (m *inMemory) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Secret, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.secret == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return m.secret.DeepCopy(), nil
}

// Create implements agent.Secrets.
func (m *inMemory) Create(_ context.Context, s *corev1.Secret, _ metav1.CreateOptions) (*corev1.Secret, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.secret = s.DeepCopy()
	return s, nil
}

// Update implements agent.Secrets.
func (m *inMemory) Update(ctx context.Context, s *corev1.Secret, _ metav1.UpdateOptions) (*corev1.Secret, error) {
	return m.Create(ctx, s, metav1.CreateOptions{})
}

// way is a network between a member and the hub, which can fall silent.
type way struct {
	address, to string
	listener    net.Listener

	mu     sync.Mutex
	silent bool
	conns  map[net.Conn]bool
}

func newWay(to string) (*way, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	w := &way{address: l.Addr().String(), to: to, listener: l, conns: map[net.Conn]bool{}}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return // it is closed
			}
			go w.pass(in)
		}
	}()
	return w, nil
}

// pass passes on what one connection has, both ways, but nothing while the way is silent.
func (w *way) pass(in net.Conn) {
	out, err := net.Dial("tcp", w.to) //nolint:noctx // on loopback
	if err != nil {
		_ = in.Close()
		return
	}
	w.mu.Lock()
	w.conns[in], w.conns[out] = true, true
	w.mu.Unlock()
	one := func(to, from net.Conn) {
		for b := make([]byte, 32<<10); ; {
			n, err := from.Read(b)
			w.mu.Lock()
			silent := w.silent
			w.mu.Unlock()
			if n > 0 && !silent {
				_, err = to.Write(b[:n])
			}
			if err != nil && !silent {
				_, _ = to.Close(), from.Close()
				return
			}
			if err != nil {
				return // whoever waits learns nothing of it
			}
		}
	}
	go one(in, out)
	one(out, in)
}

// fallSilent drops what is sent from now on, and keeps connections open.
func (w *way) fallSilent() { w.mu.Lock(); w.silent = true; w.mu.Unlock() }

// back ends what was open, and lets new connections through.
func (w *way) back() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = false
	for c := range w.conns {
		_ = c.Close()
		delete(w.conns, c)
	}
}

func (w *way) close() {
	if w != nil {
		_ = w.listener.Close()
		w.back()
	}
}
