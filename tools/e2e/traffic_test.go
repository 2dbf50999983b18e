package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// traffic is what clients ask for all the time, about 20 requests a second, while something is done with the servers. It remembers every
// request that fails. A connection that no server takes is closed without an answer, so it counts as failed too.
type traffic struct {
	base, token string
	user        string // logs in, and is written
	serial      string // the object that is written and watched
	// stopping allows that a server which is about to end answers watches with 503, as those of the previous version do (docs/upgrade.md).
	stopping atomic.Bool
	fresh    *http.Transport // uses no connection twice
	done     context.Context
	cancel   context.CancelFunc
	clients  sync.WaitGroup

	mu      sync.Mutex
	sent    int
	failed  []string
	written []int                       // versions with which writes of serial were answered
	number  int                         // the last number that was written
	seen    map[string]map[int]struct{} // watch -> versions of serial
	gaps    map[string][][2]int         // watch -> versions between which a list stood in for events
	last    tokenReply                  // of the session that is refreshed again and again
}

// startTraffic starts the clients. token lists and writes, the user logs in.
func startTraffic(t *testing.T, base, token, user string) *traffic {
	t.Helper()
	tr := &traffic{base: base, token: token, user: user, serial: "traffic", fresh: &http.Transport{DisableKeepAlives: true},
		seen: map[string]map[int]struct{}{}, gaps: map[string][][2]int{}}
	tr.last = tokens(t, base, user, password)
	made := decode[versioned](t, caller{base, token}.must(t, http.StatusCreated, http.MethodPost, trafficObjects,
		obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": tr.serial}}).body)
	tr.done, tr.cancel = context.WithCancel(context.Background())
	t.Cleanup(tr.stop)
	for _, path := range []string{kapis + "/namespaces?limit=10", iamRoutes + "/users?limit=5&sortBy=name", "/api/v1/namespaces/default/configmaps?limit=5"} {
		tr.every(300*time.Millisecond, func() error { return tr.ask(http.MethodGet, path, nil) })
	}
	tr.every(300*time.Millisecond, tr.write)
	tr.every(time.Second, tr.changeUser)
	tr.every(time.Second, tr.logInAndOut)
	tr.every(time.Second, tr.refresh)
	for _, path := range []string{trafficObjects, kapis + "/namespaces/default/configmaps"} {
		tr.seen[path] = map[int]struct{}{}
		from := made.Metadata.ResourceVersion
		tr.every(200*time.Millisecond, func() error {
			var err error
			from, err = tr.watch(path, from)
			return err
		})
	}
	return tr
}

const trafficObjects = "/api/v1/namespaces/default/configmaps"

// versioned is what is read of an object that is written or watched.
type versioned struct {
	Metadata struct{ Name, ResourceVersion string }
	Data     map[string]string
}

func (v versioned) version() int {
	n, _ := strconv.Atoi(v.Metadata.ResourceVersion) // Kubernetes promises that they are numbers, since 1.35
	return n
}

// every does f at most once in the time, until the traffic ends.
func (tr *traffic) every(pause time.Duration, f func() error) {
	tr.clients.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for tr.done.Err() == nil {
			if err := f(); err != nil && tr.done.Err() == nil {
				tr.mu.Lock()
				tr.failed = append(tr.failed, time.Now().Format("15:04:05.000 ")+err.Error())
				tr.mu.Unlock()
			}
			select {
			case <-tr.done.Done():
			case <-tick.C:
			}
		}
	})
}

func (tr *traffic) stop() {
	tr.cancel()
	tr.clients.Wait()
}

// do sends a request of c, and returns the body of a 200. Only reads use a connection again: a client can't know of any other request whether
// a server that closes the connection has done it.
func (tr *traffic) do(c caller, method, path string, body any, headers ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tr.mu.Lock()
	tr.sent++
	tr.mu.Unlock()
	var r reply
	var err error
	if method == http.MethodGet {
		r, err = c.whenLoaded(ctx, method, path, body, headers...)
	} else {
		r, err = c.via(ctx, tr.fresh, method, path, body, headers...)
	}
	if err == nil && r.code != http.StatusOK {
		err = errors.New(strconv.Itoa(r.code) + " " + clip(r.body))
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", method, path, err)
	}
	return r.body, err
}

func (tr *traffic) ask(method, path string, body any, headers ...string) error {
	_, err := tr.do(caller{tr.base, tr.token}, method, path, body, headers...)
	return err
}

// write sets the next number.
func (tr *traffic) write() error {
	tr.mu.Lock()
	number := tr.number + 1
	tr.mu.Unlock()
	body, err := tr.do(caller{tr.base, tr.token}, http.MethodPatch, trafficObjects+"/"+tr.serial,
		obj{"data": obj{"number": strconv.Itoa(number)}}, asMerge)
	var o versioned
	if err == nil {
		err = json.Unmarshal([]byte(body), &o)
	}
	if err == nil {
		tr.mu.Lock()
		tr.number, tr.written = number, append(tr.written, o.version())
		tr.mu.Unlock()
	}
	return err
}

// changeUser writes what kube-apiserver asks the webhooks about.
func (tr *traffic) changeUser() error {
	return tr.ask(http.MethodPatch, iamAPI+"/users/"+tr.user, obj{"spec": obj{"description": time.Now().String()}}, asMerge)
}

// grant asks for tokens, as the console does.
func (tr *traffic) grant(form url.Values) (tokenReply, error) {
	form.Set("client_id", "kubesphere")
	form.Set("client_secret", "kubesphere")
	body, err := tr.do(caller{base: tr.base}, http.MethodPost, "/oauth/token", form.Encode(), "Content-Type: application/x-www-form-urlencoded")
	var out tokenReply
	if err == nil {
		err = json.Unmarshal([]byte(body), &out)
	}
	if err != nil {
		err = fmt.Errorf("grant %v: %w", form["grant_type"], err)
	}
	return out, err
}

// logInAndOut uses the session at once, on whatever replica the next connection leads to.
func (tr *traffic) logInAndOut() error {
	got, err := tr.grant(url.Values{"grant_type": {"password"}, "username": {tr.user}, "password": {password}})
	for _, path := range []string{"/oauth/userinfo", "/oauth/logout"} {
		if err == nil {
			_, err = tr.do(caller{tr.base, got.Access}, http.MethodGet, path, nil)
		}
	}
	return err
}

// refresh exchanges the session's refresh token, and uses what it was given.
func (tr *traffic) refresh() error {
	got, err := tr.grant(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tr.last.Refresh}})
	if err != nil {
		return err
	}
	tr.last = got
	_, err = tr.do(caller{tr.base, got.Access}, http.MethodGet, "/oauth/userinfo", nil)
	return err
}

// watch reads events until the server ends the watch, which is no failure, and returns the version to go on from.
func (tr *traffic) watch(path, from string) (string, error) {
	req, err := http.NewRequestWithContext(tr.done, http.MethodGet, tr.base+path+"?watch=true&resourceVersion="+from, nil)
	if err != nil {
		return from, err
	}
	req.Header.Set("Authorization", "Bearer "+tr.token)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return from, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		// A replica that has just started says so where a busy machine has not let it list the kind within its wait: watchers try again.
		loading := strings.Contains(string(text), "its first list is not complete yet")
		if resp.StatusCode == http.StatusServiceUnavailable && (tr.stopping.Load() || loading) {
			return from, nil
		}
		return from, fmt.Errorf("watch %s from %s: %d %s", path, from, resp.StatusCode, text)
	}
	for events := json.NewDecoder(resp.Body); ; {
		var e struct {
			Type   string
			Object struct {
				versioned
				Code    int
				Message string
			}
		}
		if events.Decode(&e) != nil {
			return from, nil
		}
		switch {
		case e.Type != "ERROR":
			from = e.Object.Metadata.ResourceVersion
			if e.Object.Metadata.Name == tr.serial {
				tr.mu.Lock()
				tr.seen[path][e.Object.version()] = struct{}{}
				tr.mu.Unlock()
			}
		case e.Object.Code == http.StatusServiceUnavailable: // the server is stopping
			return from, nil
		case e.Object.Code == http.StatusGone && strings.HasPrefix(path, kapis): // a replica knows what has happened since its own start
			return tr.relist(path, from)
		default:
			return from, fmt.Errorf("watch %s from %s: %d %s", path, from, e.Object.Code, e.Object.Message)
		}
	}
}

// relist does what a client does after a 410: its list stands in for the events up to its version.
func (tr *traffic) relist(path, from string) (string, error) {
	body, err := tr.do(caller{tr.base, tr.token}, http.MethodGet, path, nil)
	var l list
	if err == nil {
		err = json.Unmarshal([]byte(body), &l)
	}
	if err != nil {
		return from, err
	}
	to := l.Metadata.ResourceVersion
	first, _ := strconv.Atoi(from)
	last, _ := strconv.Atoi(to)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.gaps[path] = append(tr.gaps[path], [2]int{first, last})
	return to, nil
}

// missed returns the writes that a watch has not told of so far, nor a list in its place.
func (tr *traffic) missed() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var missed []string
	for path, seen := range tr.seen {
		for _, version := range tr.written {
			_, told := seen[version]
			if !told && !slices.ContainsFunc(tr.gaps[path], func(g [2]int) bool { return g[0] < version && version <= g[1] }) {
				missed = append(missed, fmt.Sprintf("%s of %s", strconv.Itoa(version), path))
			}
		}
	}
	return missed
}

// goesOn waits until more requests have been sent and watches have told of every write, and fails the test for requests that have failed since
// the last call.
func (tr *traffic) goesOn(t *testing.T) {
	t.Helper()
	sent := func() int {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		return tr.sent
	}
	begun := sent()
	eventually(t, "requests are sent", func(context.Context) error {
		if now := sent(); now < begun+60 {
			return fmt.Errorf("%d so far", now-begun)
		}
		return nil
	})
	eventually(t, "watches tell of every write", func(context.Context) error {
		if missed := tr.missed(); len(missed) > 0 {
			return fmt.Errorf("not of %d: %s", len(missed), clip(strings.Join(missed, ", ")))
		}
		return nil
	})
	tr.mu.Lock()
	defer tr.mu.Unlock()
	t.Logf("%d requests so far", tr.sent)
	if len(tr.failed) > 0 {
		t.Errorf("%d requests have failed:\n%s", len(tr.failed), strings.Join(tr.failed[:min(len(tr.failed), 20)], "\n"))
	}
	tr.failed = nil
}
