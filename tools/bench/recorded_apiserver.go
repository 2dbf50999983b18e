package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// recorded is a kube-apiserver with more pods than a control plane on a small machine can hold: it answers lists and watches of all pods
// with copies of one that was recorded, and passes every other request on.
type recorded struct {
	pod  podText
	n    int
	next http.Handler
	// every is how often watches look for changes.
	every time.Duration
	// changes is how many changes there were. They are of one pod after the other, each of which has a version: so a watch may go on from any
	// version, as it may at a kube-apiserver that has not forgotten it.
	changes func() int64
}

// version is that of the newest change.
func (s *recorded) version() int64 { return int64(s.n) + s.changes() }

// changed returns the pod that a version is of.
func (s *recorded) changed(version int64) int { return int((version - 1) % int64(s.n)) }

// versionOf returns the version of the i-th pod when the newest of all is at.
func (s *recorded) versionOf(i int, at int64) int64 {
	n := int64(s.n)
	return at - (at-int64(i)-1)%n
}

// serveRecorded serves n pods over loopback, and returns a kubeconfig file for it in dir. The requests that it passes on are made with the
// credentials of config. stop ends it.
func serveRecorded(config *rest.Config, pod podText, n int, every time.Duration, dir string) (kubeconfig string, stop func(), err error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return "", nil, fmt.Errorf("the address of kube-apiserver: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return "", nil, fmt.Errorf("connect to kube-apiserver: %w", err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return "", nil, fmt.Errorf("listen: %w", err)
	}
	file, err := os.CreateTemp(dir, "recorded-*.kubeconfig")
	if err == nil {
		_, err = fmt.Fprintf(file, "apiVersion: v1\nkind: Config\nclusters: [{name: r, cluster: {server: 'http://%s'}}]\n"+
			"contexts: [{name: r, context: {cluster: r}}]\ncurrent-context: r\n", l.Addr())
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		_ = l.Close()
		return "", nil, fmt.Errorf("write the kubeconfig of the recorded pods: %w", err)
	}
	began := time.Now()
	r := &recorded{pod: pod, n: n, next: proxy, every: every, changes: func() int64 { return int64(time.Since(began) / every) }}
	srv := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(l) }()
	return file.Name(), func() { _ = srv.Close() }, nil
}

// ServeHTTP answers a list or a watch of all pods.
func (s *recorded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case r.Method != http.MethodGet || r.URL.Path != "/api/v1/pods":
		s.next.ServeHTTP(w, r)
	case q.Get("watch") == "":
		s.list(w)
	case q.Get("sendInitialEvents") == "true":
		s.watch(r.Context(), w, 0)
	default:
		from, err := strconv.ParseInt(q.Get("resourceVersion"), 10, 64)
		if err != nil || from < int64(s.n) || from > s.version() {
			http.Error(w, "the recorded pods have no such version", http.StatusBadRequest)
			return
		}
		s.watch(r.Context(), w, from)
	}
}

func (s *recorded) list(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	to := bufio.NewWriterSize(w, 1<<20)
	at := s.version()
	fmt.Fprintf(to, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[`, at)
	var text []byte
	for i := range s.n {
		text = text[:0]
		if i > 0 {
			text = append(text, ',')
		}
		if _, err := to.Write(s.pod.appendPod(text, i, s.versionOf(i, at))); err != nil {
			return // the client has enough
		}
	}
	fmt.Fprintln(to, "]}")
	_ = to.Flush() // a client that has disconnected sees nothing
}

// watch sends the changes after a version; from 0 it sends all pods first.
func (s *recorded) watch(ctx context.Context, w http.ResponseWriter, from int64) {
	w.Header().Set("Content-Type", "application/json")
	to := bufio.NewWriterSize(w, 1<<20)
	var text []byte
	event := func(kind string, i int, version int64) error {
		text = fmt.Appendf(text[:0], `{"type":%q,"object":`, kind)
		_, err := to.Write(append(s.pod.appendPod(text, i, version), "}\n"...))
		return err
	}
	if from == 0 {
		from = s.version()
		for i := range s.n {
			if event("ADDED", i, s.versionOf(i, from)) != nil {
				return
			}
		}
		fmt.Fprintf(to, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d",`+
			`"annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", from)
	}
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		for ; from < s.version(); from++ {
			if event("MODIFIED", s.changed(from+1), from+1) != nil {
				return
			}
		}
		if errors.Join(to.Flush(), http.NewResponseController(w).Flush()) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// podText is the JSON of a pod, cut where the pods of a benchmark differ: a variable is between two texts.
type podText struct {
	texts     []string
	variables []string
	newest    time.Time
}

// podVariables are what differs, and how it is marked in the text that is cut.
var podVariables = []string{"name", "namespace", "uid", "version", "created", "quarter", "instance", "alias"}

func podMark(variable string) string { return "@bench-" + variable + "@" }

// cutPod makes a podText of a pod that kube-apiserver has sent.
func cutPod(pod []byte, newest time.Time) (podText, error) {
	var o struct {
		Meta   map[string]any  `json:"metadata"`
		Spec   json.RawMessage `json:"spec"`
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(pod, &o); err != nil {
		return podText{}, fmt.Errorf("decode a pod: %w", err)
	}
	labels, ok := o.Meta["labels"].(map[string]any)
	annotations, ok2 := o.Meta["annotations"].(map[string]any)
	if !ok || !ok2 {
		return podText{}, errors.New("the pod has no labels, or no annotations: it is none of the benchmark's")
	}
	o.Meta["name"], o.Meta["namespace"], o.Meta["uid"] = podMark("name"), podMark("namespace"), podMark("uid")
	o.Meta["resourceVersion"], o.Meta["creationTimestamp"] = podMark("version"), podMark("created")
	labels[quarterLabel], labels["app.kubernetes.io/instance"] = podMark("quarter"), podMark("instance")
	annotations["kubesphere.io/alias-name"] = podMark("alias")
	text, err := json.Marshal(map[string]any{"kind": "Pod", "apiVersion": "v1", "metadata": o.Meta, "spec": o.Spec, "status": o.Status})
	if err != nil {
		return podText{}, fmt.Errorf("encode a pod: %w", err)
	}
	t := podText{newest: newest}
	rest := string(text)
	for {
		at, found := len(rest), ""
		for _, v := range podVariables {
			if i := strings.Index(rest, podMark(v)); i >= 0 && i < at {
				at, found = i, v
			}
		}
		t.texts = append(t.texts, rest[:at])
		if found == "" {
			return t, nil
		}
		t.variables, rest = append(t.variables, found), rest[at+len(podMark(found)):]
	}
}

// appendPod appends the JSON of the i-th pod.
func (t podText) appendPod(b []byte, i int, version int64) []byte {
	for k, variable := range t.variables {
		b = append(b, t.texts[k]...)
		switch variable {
		case "name":
			b = append(b, podName(i)...)
		case "namespace":
			b = append(b, podNamespace(i)...)
		case "uid":
			b = fmt.Appendf(b, "00000000-0000-4000-8000-%012x", i)
		case "version":
			b = strconv.AppendInt(b, version, 10)
		case "created":
			b = t.newest.Add(-time.Duration(i)*time.Second).UTC().AppendFormat(b, time.RFC3339)
		case "quarter":
			b = strconv.AppendInt(b, int64(i%4), 10)
		case "instance":
			b = fmt.Appendf(b, "shop-%d", i%100)
		case "alias":
			b = fmt.Appendf(b, "Checkout %d", i)
		}
	}
	return append(b, t.texts[len(t.texts)-1]...)
}
