package store

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"kapis.dev/ks-apiserver/pkg/rawjson"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// server implements as much of kube-apiserver's list and watch as a reflector uses, and its faults.
type server struct {
	*httptest.Server

	mu       sync.Mutex
	version  int
	objects  map[string]map[string]string // path of the kind -> namespace/name -> JSON
	watchers map[string][]chan string
	lists    map[string]int
	streams  map[string]int
	fault    map[string]fault
	history  []change
	lagging  map[string]string // path of the kind -> the list that is answered where any age will do
}

// change is an event and the version that it made.
type change struct {
	path, frame string
	version     int
}

// fault is how a kind misbehaves.
type fault struct {
	// noWatchList answers streams of initial events as a server does that does not know them.
	noWatchList bool
	// noBookmark never ends the initial events, hang never answers a list.
	noBookmark, hang bool
	// garbage is sent in place of the first event of a watch.
	garbage string
	// status is the code of every answer.
	status int
	// expired answers watches with 410 once.
	expired bool
	// page is how many items a list gives at a time; the rest is gone by then (410).
	page int
	// hangWatch never answers watches, mute opens them and says nothing.
	hangWatch, mute bool
}

func newServer(t testing.TB) *server {
	s := &server{
		version: 100, objects: map[string]map[string]string{}, watchers: map[string][]chan string{},
		lists: map[string]int{}, streams: map[string]int{}, fault: map[string]fault{}, lagging: map[string]string{},
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// stop ends the server like a machine that goes away; start starts it again at the same address.
func (s *server) stop() {
	s.CloseClientConnections()
	s.Close()
}

func (s *server) start(t testing.TB) {
	l, err := net.Listen("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	again := httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	again.Listener.Close()
	again.Listener = l
	again.Start()
	s.mu.Lock()
	clear(s.watchers)
	s.mu.Unlock()
	s.Server = again
}

// fill creates n objects of a kind at once. The watches are sent the events by the calling goroutine.
func (s *server) fill(path string, n int, object func(i int) string) {
	for i := range n {
		s.mu.Lock()
		s.version++
		o := strings.ReplaceAll(object(i), "%RV%", strconv.Itoa(s.version))
		if s.objects[path] == nil {
			s.objects[path] = map[string]string{}
		}
		s.objects[path][fmt.Sprintf("filled/%08d", i)] = o
		watchers := slices.Clone(s.watchers[path])
		s.mu.Unlock()
		for _, w := range watchers {
			w <- `{"type":"ADDED","object":` + o + `}`
		}
	}
}

func (s *server) config() *rest.Config { return &rest.Config{Host: s.URL} }

// put creates or changes an object: JSON without resourceVersion, with %RV% in its place.
func (s *server) put(path, object string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	object = strings.ReplaceAll(object, "%RV%", fmt.Sprint(s.version))
	key := keyOf(object)
	if s.objects[path] == nil {
		s.objects[path] = map[string]string{}
	}
	event := "ADDED"
	if _, ok := s.objects[path][key]; ok {
		event = "MODIFIED"
	}
	s.objects[path][key] = object
	s.tell(path, event, object)
}

func (s *server) remove(path, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, ok := s.objects[path][key]
	if !ok {
		return
	}
	s.version++
	delete(s.objects[path], key)
	old := rawjson.GetText(object, "metadata", "resourceVersion")
	s.tell(path, "DELETED", strings.Replace(object, `"resourceVersion":"`+old+`"`, fmt.Sprintf(`"resourceVersion":"%d"`, s.version), 1))
}

// vanish removes an object without an event, as if the watch had missed it.
func (s *server) vanish(path, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	delete(s.objects[path], key)
}

func (s *server) set(path string, f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault[path] = f
}

// cut ends the watches of a kind; with an error the reflector lists again.
func (s *server) cut(path string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if code != 0 {
		s.tellRaw(
			path,
			fmt.Sprintf(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":"Expired","message":"too old"}}`, code),
		)
	}
	for _, w := range s.watchers[path] {
		close(w)
	}
	s.watchers[path] = nil
}

func (s *server) tell(path, event, object string) {
	frame := `{"type":"` + event + `","object":` + object + `}`
	s.history = append(s.history, change{path, frame, s.version})
	s.tellRaw(path, frame)
}

func (s *server) tellRaw(path, frame string) {
	for _, w := range s.watchers[path] {
		w <- frame
	}
}

func (s *server) counts(path string) (lists, streams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists[path], s.streams[path]
}

func keyOf(object string) string {
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(object), &o); err != nil {
		panic(err)
	}
	return o.Namespace + "/" + o.Name
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	path, q := r.URL.Path, r.URL.Query()
	s.mu.Lock()
	f := s.fault[path]
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case f.status != 0:
		writeStatus(w, f.status, "because")
	case q.Get("watch") == "true":
		s.watch(w, r, f)
	case f.hang:
		<-r.Context().Done()
	case q.Get("continue") != "":
		writeStatus(w, http.StatusGone, "the continue token is too old")
	default:
		s.list(w, r, f.page)
	}
}

func writeStatus(w http.ResponseWriter, code int, message string) {
	reason := metav1.StatusReasonUnknown
	if code == http.StatusGone {
		reason = metav1.StatusReasonExpired
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code),
		Reason: reason, Message: message,
	})
}

// list writes the items as kube-apiserver does for built-in kinds: without kind and apiVersion.
func (s *server) list(w http.ResponseWriter, r *http.Request, page int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path, next := r.URL.Path, ""
	s.lists[path]++
	if old := s.lagging[path]; old != "" && r.URL.Query().Get("resourceVersion") == "0" {
		_, _ = w.Write([]byte(old))
		return
	}
	var items []string
	for _, o := range s.sorted(path) {
		items = append(items, strings.Replace(o, `"kind":"Pod","apiVersion":"v1",`, "", 1))
	}
	if r.URL.Query().Get("limit") != "" && page > 0 && page < len(items) {
		items, next = items[:page], `,"continue":"next"`
	}
	_, _ = fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"%s},"items":[%s]}`+"\n",
		s.version, next, strings.Join(items, ","))
}

// lag makes lists of any age return the present state from now on, like a kube-apiserver whose watch cache stands still.
func (s *server) lag(path string) {
	w := httptest.NewRecorder()
	s.list(w, httptest.NewRequest(http.MethodGet, path, nil), 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lagging[path] = w.Body.String()
}

func (s *server) sorted(path string) []string {
	var keys []string
	for k := range s.objects[path] {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var out []string
	for _, k := range keys {
		out = append(out, s.objects[path][k])
	}
	return out
}

func (s *server) watch(w http.ResponseWriter, r *http.Request, f fault) {
	path, initial := r.URL.Path, r.URL.Query().Get("sendInitialEvents") == "true"
	if initial && f.noWatchList {
		writeStatus(w, http.StatusUnprocessableEntity, "sendInitialEvents is forbidden")
		return
	}
	send := func(frame string) {
		_, _ = w.Write([]byte(frame + "\n"))
		w.(http.Flusher).Flush()
	}
	s.mu.Lock()
	if f.expired {
		f.expired = false
		s.fault[path] = f
		s.mu.Unlock()
		writeStatus(w, http.StatusGone, "too old")
		return
	}
	if f.hangWatch {
		s.mu.Unlock()
		<-r.Context().Done()
		return
	}
	s.streams[path]++
	events := make(chan string, 1024)
	if !f.mute {
		s.watchers[path] = append(s.watchers[path], events)
	}
	var backlog []string
	since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if initial {
		for _, o := range s.sorted(path) {
			backlog = append(backlog, `{"type":"ADDED","object":`+o+`}`)
		}
	} else {
		for _, c := range s.history {
			if c.path == path && c.version > since {
				backlog = append(backlog, c.frame)
			}
		}
	}
	bookmark := fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d",`+
		`"annotations":{"k8s.io/initial-events-end":"true"}}}}`, s.version)
	s.mu.Unlock()
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	if f.mute {
		<-r.Context().Done()
		return
	}
	for _, frame := range backlog {
		send(frame)
	}
	if initial && !f.noBookmark {
		send(bookmark)
	}
	if f.garbage != "" && (!initial || f.noWatchList) {
		send(f.garbage)
	}
	for {
		select {
		case frame, ok := <-events:
			if !ok {
				return
			}
			send(frame)
		case <-r.Context().Done():
			return
		}
	}
}

const podsPath = "/api/v1/pods"
