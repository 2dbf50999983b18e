package nodetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// load is what several clients ask of a Service all the time. A client whose connection is refused tries again: nothing was sent yet. So does
// one that asks a replica which has just started for a kind, and is told when to come back (docs/queries.md): on a busy machine the first list
// of a kind takes longer than such a request waits. Every other request that is not answered as it should be has failed.
type load struct {
	base, token string
	login       url.Values
	// cancel ends the clients, and cancelWatches those that watch.
	cancel, cancelWatches context.CancelFunc
	clients, watches      sync.WaitGroup

	mu            sync.Mutex
	sent, refused int
	early         int // told that a kind is not ready yet, and when to come back
	failed        []string
	written       map[string]map[string]bool // watched object -> versions that writes were answered with
	unsure        bool                       // a write failed, which may have been done nevertheless
	seen          map[string][]string        // watch -> versions, in the order of their events
	gaps          map[string][][2]int        // watch -> from which version to which a list stood in for events
	outage        [2]int                     // the last version before kube-apiserver was away, and the first that is certainly after it
	streams       int
	restarted     bool // kube-apiserver has been, and knows no version from before: a client lists again
}

// The objects that are written and watched, a merge patch of each, and the lists that are read.
var (
	loadWrites = map[string]string{
		"/api/v1/namespaces/default/configmaps/load":  `{"data":{"number":"%d"}}`,
		"/apis/iam.kubesphere.io/v1beta1/users/loads": `{"spec":{"description":"number %d"}}`,
	}
	loadWatches = map[string]string{
		"/api/v1/namespaces/default/configmaps":                                 "/api/v1/namespaces/default/configmaps/load",
		"/kapis/resources.kubesphere.io/v1alpha3/namespaces/default/configmaps": "/api/v1/namespaces/default/configmaps/load",
	}
	loadLists = []string{
		"/kapis/resources.kubesphere.io/v1alpha3/pods?limit=10",
		"/kapis/resources.kubesphere.io/v1alpha3/namespaces/kubesphere-system/deployments?sortBy=createTime",
		"/api/v1/namespaces/kubesphere-system/pods?limit=5",
		"/kapis/iam.kubesphere.io/v1beta1/users",
	}
)

// loadPause is between the beginnings of two requests of one client: all of them send about 200 requests a second, or as many as a busy machine
// answers.
const loadPause = 35 * time.Millisecond

// startLoad starts four clients that list, half of them with a new connection for each request, two that write, two that watch, and one
// that logs in and out. from is the version that watches begin at.
func startLoad(t *testing.T, base, token, from string, login url.Values) *load {
	l := &load{base: base, token: token, login: login, written: map[string]map[string]bool{}, seen: map[string][]string{}, gaps: map[string][][2]int{}}
	var ctx, watching context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	watching, l.cancelWatches = context.WithCancel(context.Background())
	t.Cleanup(l.stop)
	for i, path := range loadLists {
		c := l.client(i%2 == 0)
		l.clients.Go(func() { l.repeat(ctx, func() { l.list(c, path) }) })
	}
	for path, patch := range loadWrites {
		c, number := l.client(true), 0
		l.clients.Go(func() {
			l.repeat(ctx, func() {
				number++
				l.write(c, path, fmt.Sprintf(patch, number))
			})
		})
	}
	c := l.client(false)
	l.clients.Go(func() { l.repeat(ctx, func() { l.logInAndOut(c) }) })
	for path := range loadWatches {
		c := l.client(true)
		l.watches.Go(func() { l.watch(watching, c, path, from) })
	}
	return l
}

func (l *load) repeat(ctx context.Context, f func()) {
	tick := time.NewTicker(loadPause)
	defer tick.Stop()
	for ctx.Err() == nil {
		f()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// stop ends all clients, after the request that each is at, and the watches at once.
func (l *load) stop() {
	l.cancel()
	l.clients.Wait()
	l.cancelWatches()
	l.watches.Wait()
}

// client returns a client of its own connections.
func (l *load) client(keepAlive bool) *http.Client {
	dialer := net.Dialer{Timeout: time.Minute}
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: !keepAlive,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			for {
				conn, err := dialer.DialContext(ctx, network, address)
				if !errors.Is(err, syscall.ECONNREFUSED) {
					return conn, err
				}
				l.mu.Lock()
				l.refused++
				l.mu.Unlock()
				select {
				case <-ctx.Done():
					return nil, err
				case <-time.After(loadPause):
				}
			}
		},
	}}
}

// tooEarly reports whether an answer says that a replica has not read a kind yet, and counts it.
func (l *load) tooEarly(resp *http.Response, text []byte) bool {
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" ||
		!strings.Contains(string(text), "its first list is not complete yet") {
		return false
	}
	l.mu.Lock()
	l.early++
	l.mu.Unlock()
	return true
}

// do sends a request until it is answered by a replica that is ready for it.
func (l *load) do(c *http.Client, method, path, contentType, token, body string) (string, error) {
	for {
		text, early, err := l.once(c, method, path, contentType, token, body)
		if !early {
			return text, err
		}
		time.Sleep(loadPause)
	}
}

// once sends a request and reads its answer. It does not end with the load, so that every request that was begun is answered or fails.
func (l *load) once(c *http.Client, method, path, contentType, token, body string) (answer string, early bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, l.base+path, strings.NewReader(body))
	if err != nil {
		return "", false, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	l.mu.Lock()
	l.sent++
	l.mu.Unlock()
	resp, err := c.Do(req)
	if err != nil {
		return "", false, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		early, err = l.tooEarly(resp, text), fmt.Errorf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	return string(text), early, err
}

// fail remembers a request that has failed.
func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, time.Now().Format("15:04:05.000 ")+err.Error())
}

func (l *load) list(c *http.Client, path string) {
	text, err := l.do(c, http.MethodGet, path, "", l.token, "")
	if err == nil && !json.Valid([]byte(text)) {
		err = fmt.Errorf("GET %s answers half a document", path)
	}
	if err != nil {
		l.fail(err)
	}
}

func (l *load) write(c *http.Client, path, patch string) {
	text, err := l.do(c, http.MethodPatch, path, "application/merge-patch+json", l.token, patch)
	var o versioned
	if err == nil {
		err = json.Unmarshal([]byte(text), &o)
	}
	if err != nil {
		l.fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.unsure = true
		return
	}
	if l.written[path] == nil {
		l.written[path] = map[string]bool{}
	}
	l.written[path][o.Metadata.ResourceVersion] = true
}

// logInAndOut uses the token at once, on whatever replica the next connection leads to.
func (l *load) logInAndOut(c *http.Client) {
	token, err := l.logIn(c)
	for _, path := range []string{loadLists[0], "/oauth/logout"} {
		if err == nil {
			_, err = l.do(c, http.MethodGet, path, "", token, "")
		}
	}
	if err != nil {
		l.fail(fmt.Errorf("a login: %w", err))
	}
}

func (l *load) logIn(c *http.Client) (string, error) {
	text, err := l.do(c, http.MethodPost, "/oauth/token", "application/x-www-form-urlencoded", "", l.login.Encode())
	if err != nil {
		return "", err
	}
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.AccessToken == "" {
		return "", fmt.Errorf("/oauth/token answers no access token: %w", err)
	}
	return answer.AccessToken, nil
}

type versioned struct {
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

// watch reads events, and continues from the last version when the server ends the watch. An end is no failure.
func (l *load) watch(ctx context.Context, c *http.Client, path, from string) {
	l.repeat(ctx, func() {
		next, err := l.connect(ctx, c, path, from)
		if err == nil && next == "" {
			next, err = l.relist(c, path, from)
		}
		if err != nil && ctx.Err() == nil {
			l.fail(fmt.Errorf("the watch of %s from %s: %w", path, from, err))
		}
		if err == nil {
			from = next
		}
	})
}

// connect reads the events of one answer to its end, and returns the version to continue from, which is empty after a 410.
func (l *load) connect(ctx context.Context, c *http.Client, path, from string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.base+path+"?watch=true&allowWatchBookmarks=true&resourceVersion="+from, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+l.token)
	l.mu.Lock()
	l.streams++
	l.mu.Unlock()
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		if l.tooEarly(resp, text) {
			return from, nil
		}
		return "", fmt.Errorf("%d %s", resp.StatusCode, text)
	}
	for d := json.NewDecoder(resp.Body); ; {
		var event struct {
			Type   string
			Object struct {
				versioned
				Code    int
				Message string
			}
		}
		if d.Decode(&event) != nil {
			return from, nil // the server or this client has ended it
		}
		switch {
		case event.Type != "ERROR":
			from = event.Object.Metadata.ResourceVersion
			if event.Type != "BOOKMARK" && event.Object.Metadata.Name == "load" {
				l.mu.Lock()
				l.seen[path] = append(l.seen[path], from)
				l.mu.Unlock()
			}
		case event.Object.Code == http.StatusServiceUnavailable:
			return from, nil // the server is stopping
		case event.Object.Code == http.StatusGone && l.forgets(path):
			return "", nil
		default:
			return "", fmt.Errorf("it says %d %s", event.Object.Code, event.Object.Message)
		}
	}
}

// forgets reports whether a watch may be told to list again: a replica has the history since its own start, and so has kube-apiserver.
func (l *load) forgets(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.restarted || strings.HasPrefix(path, "/kapis/")
}

// relist does what a client does after a 410: its list stands in for the events up to its version.
func (l *load) relist(c *http.Client, path, from string) (string, error) {
	text, err := l.do(c, http.MethodGet, path, "", l.token, "")
	if err != nil {
		return "", err
	}
	var list versioned
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return "", err
	}
	to := list.Metadata.ResourceVersion
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gaps[path] = append(l.gaps[path], [2]int{number(from), number(to)})
	return to, nil
}

// joined reports whether an event stands for this write too. A replica reads everything again after an outage of kube-apiserver, and then tells
// the last state of each object, and not those that were written and replaced before it could read again (docs/watch.md).
func (l *load) joined(watch string, version int) bool {
	later := func(seen string) bool { return number(seen) > version }
	return strings.HasPrefix(watch, "/kapis/") && l.outage[0] < version && version <= l.outage[1] && slices.ContainsFunc(l.seen[watch], later)
}

// newest returns the latest version that a write was answered with.
func (l *load) newest() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := 0
	for _, versions := range l.written {
		for version := range versions {
			last = max(last, number(version))
		}
	}
	return last
}

// number returns a resource version as the number that it is (Kubernetes 1.35 promises that they can be compared).
func number(version string) int {
	n, err := strconv.Atoi(version)
	if err != nil {
		return -1
	}
	return n
}

// counts are what has happened so far.
func (l *load) counts() (sent, refused int, failed []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent, l.refused, slices.Clone(l.failed)
}

func (l *load) tooEarlySoFar() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.early
}

// during does f under the load, and checks that no more than allowed requests fail meanwhile; every client has finished a request before
// and after.
func (l *load) during(t *testing.T, allowed int, f func()) {
	t.Helper()
	if more := l.failedDuring(t, f); len(more) > allowed {
		t.Errorf("%d requests have failed, and %d may:\n%s", len(more), allowed, strings.Join(more, "\n"))
	}
}

// duringOf is during, where any number of requests may fail that may says may.
func (l *load) duringOf(t *testing.T, may func(failure string) bool, f func()) {
	t.Helper()
	if more := slices.DeleteFunc(l.failedDuring(t, f), may); len(more) > 0 {
		t.Errorf("%d requests have failed that may not:\n%s", len(more), strings.Join(more, "\n"))
	}
}

// failedDuring does f under the load, and returns what has failed meanwhile.
func (l *load) failedDuring(t *testing.T, f func()) []string {
	t.Helper()
	l.round(t)
	sent, refused, failed := l.counts()
	early, began := l.tooEarlySoFar(), time.Now()
	f()
	l.round(t)
	sentNow, refusedNow, failedNow := l.counts()
	t.Logf("%d requests, %.0f a second, %d failed, %d connections refused and tried again, %d too early and tried again", sentNow-sent,
		float64(sentNow-sent)/time.Since(began).Seconds(), len(failedNow)-len(failed), refusedNow-refused, l.tooEarlySoFar()-early)
	return failedNow[len(failed):]
}

// round waits until some requests more have been sent.
func (l *load) round(t *testing.T) {
	t.Helper()
	begun, _, _ := l.counts()
	eventually(t, "the clients send requests", func() error {
		if sent, _, _ := l.counts(); sent < begun+40 {
			return fmt.Errorf("%d so far", sent-begun)
		}
		return nil
	})
}

// checkWatches stops the writes, and checks that each watch has seen every write once, in order.
func (l *load) checkWatches(t *testing.T) {
	t.Helper()
	l.cancel()
	l.clients.Wait()
	for watch, of := range loadWatches {
		eventually(t, "the watch of "+watch+" has seen every write", func() error {
			l.mu.Lock()
			defer l.mu.Unlock()
			for version := range l.written[of] {
				listed := slices.ContainsFunc(l.gaps[watch], func(g [2]int) bool { return g[0] < number(version) && number(version) <= g[1] })
				if !listed && !slices.Contains(l.seen[watch], version) && !l.joined(watch, number(version)) {
					return fmt.Errorf("version %s is missing", version)
				}
			}
			return nil
		})
		l.mu.Lock()
		last := 0
		for _, version := range l.seen[watch] {
			if number(version) <= last {
				t.Errorf("the watch of %s has seen version %s after %d", watch, version, last)
			}
			last = number(version)
			if !l.written[of][version] && !l.unsure {
				t.Errorf("the watch of %s has seen version %s, which nobody wrote", watch, version)
			}
		}
		t.Logf("the watch of %s saw %d events, each once, and %d lists after a 410; all watches had %d connections", watch, len(l.seen[watch]),
			len(l.gaps[watch]), l.streams)
		l.mu.Unlock()
	}
}

// caughtUp waits until each watch has told of something that was written after this call: then no watch is behind what was written before.
func (l *load) caughtUp(t *testing.T) {
	t.Helper()
	from := l.newest()
	for watch := range loadWatches {
		eventually(t, "the watch of "+watch+" goes on", func() error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if !slices.ContainsFunc(l.seen[watch], func(version string) bool { return number(version) > from }) {
				return fmt.Errorf("it has told of nothing after version %d", from)
			}
			return nil
		})
	}
}
