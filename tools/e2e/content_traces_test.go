package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// tellsNothing searches what the platform leaves besides its answers: the logs of both programs since they began, at the highest level that can be asked
// for, the audit log
// of kube-apiserver, all events, and both sets of metrics.
func (w *contentWorld) tellsNothing(t *testing.T) {
	t.Helper()
	texts := map[string]string{
		"the events": stored(t, "/api/v1/events"), "the newer events": stored(t, "/apis/events.k8s.io/v1/events"),
		"the metrics of ks-apiserver":          admin(t).must(t, http.StatusOK, http.MethodGet, "/metrics", nil).body,
		"the metrics of ks-controller-manager": managerMetrics(t),
	}
	for place, text := range texts {
		for _, class := range w.classes(text) {
			t.Errorf("%s is in %s", class, place)
		}
	}
	for _, log := range []string{"ks-apiserver", "ks-controller-manager", "kube-audit"} { // what kube-apiserver records of requests has their addresses
		w.searchLog(t, log)
	}
}

// loggedCredential is what no line of a log has, whoever it belongs to: a signed token, and a value that a query or a form names as a secret.
var loggedCredential = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}|` +
	`(?:[?&]|\\u0026)(access_token|refresh_token|id_token|code|password|client_secret|device_code)=[^&\s"]{6,}`)

// loggedWords are such that one of them is in all that loggedCredential finds. They are looked for first: it reads a megabyte in seconds where the
// race detector watches, and the logs at their highest level are long.
var loggedWords = []string{"eyJ", "token=", "code=", "password=", "secret="}

func (w *contentWorld) searchLog(t *testing.T, program string) {
	t.Helper()
	text, done, err := logOf(program)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	s, count, all, wrong := bufio.NewScanner(text), 0, false, 0
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		count++
		all = all || strings.Contains(s.Text(), "The log level is lower than asked for")
		classes := w.classes(s.Text())
		if slices.ContainsFunc(loggedWords, func(word string) bool { return strings.Contains(s.Text(), word) }) && loggedCredential.MatchString(s.Text()) {
			classes = append(classes, "a credential")
		}
		for _, class := range classes {
			if program == "kube-audit" && !strings.HasPrefix(class, "hidden.") && !strings.HasPrefix(class, "login.") && class != "a credential" {
				continue // it has addresses with their queries, and what kube-apiserver said to writers who had sent the value
			}
			if wrong++; wrong < 10 {
				t.Errorf("%s is in line %d of the log of %s", class, count, program)
			}
		}
	}
	if s.Err() != nil || !all && program != "kube-audit" || count < 100 {
		t.Errorf("the log of %s has %d lines, its highest level %t: %v", program, count, all, s.Err())
	}
}

// managerMetrics finds where ks-controller-manager serves its metrics, which is any free port, and reads them.
func managerMetrics(t *testing.T) string {
	t.Helper()
	pid, ok := product.Process("ks-controller-manager")
	if !ok {
		t.Fatal("no ks-controller-manager runs")
	}
	for _, port := range listening(t, pid) {
		r, err := caller{base: fmt.Sprintf("http://127.0.0.1:%d", port)}.do(t.Context(), http.MethodGet, "/metrics", nil)
		if err == nil && r.code == http.StatusOK && strings.Contains(r.body, "controller_runtime_reconcile_total") {
			return r.body
		}
	}
	t.Fatal("no port of ks-controller-manager has metrics")
	return ""
}

// listening returns the TCP ports on which a process listens.
func listening(t *testing.T, pid int) []int {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", pid)
	open, err := os.ReadDir(proc + "fd")
	if err != nil {
		t.Fatal(err)
	}
	sockets := map[string]bool{}
	for _, fd := range open {
		to, err := os.Readlink(proc + "fd/" + fd.Name())
		if inode, ok := strings.CutPrefix(to, "socket:["); ok && err == nil {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var ports []int
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		text, err := os.ReadFile(proc + table)
		if err != nil {
			continue // no such protocol here
		}
		for line := range strings.Lines(string(text)) { // proc(5): local address and port in hexadecimal, state 0A is listening, the inode is tenth
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" || !sockets[f[9]] {
				continue
			}
			port, err := strconv.ParseUint(f[1][strings.LastIndexByte(f[1], ':')+1:], 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			ports = append(ports, int(port))
		}
	}
	return ports
}

// watchBySocket asks for watches of every kind with hidden fields by WebSocket, at both doors, and searches every message.
func (w *contentWorld) watchBySocket(t *testing.T, who asker) (asked int) {
	t.Helper()
	var watches sync.WaitGroup // at once: each takes a second to end
	for _, k := range w.hidden {
		for _, root := range []string{"/apis", "/kapis"} {
			path := k.path(root, "") + "?watch=true&timeoutSeconds=1"
			if strings.HasPrefix(path, "/kapis/application.kubesphere.io/") {
				continue // lists of the application store are pages
			}
			asked++
			watches.Go(func() {
				for _, class := range w.classes(socketText(t, who, path)) {
					t.Errorf("%s is shown %s by WebSocket: %s", who.name, class, path)
				}
			})
		}
	}
	watches.Wait()
	return asked
}

// socketText is everything that a WebSocket says until it ends, which on a busy machine may be before it has said anything: then it is opened again.
func socketText(t *testing.T, who asker, path string) string {
	t.Helper()
	for begun := time.Now(); ; {
		c, resp, err := websocket.Dial(t.Context(), strings.Replace(who.base, "http", "ws", 1)+path,
			&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + who.token}}})
		if err != nil {
			if resp == nil || resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s: %s: %v", who.name, path, err)
			}
			return ""
		}
		c.SetReadLimit(8 << 20)
		var text strings.Builder
		for err == nil {
			var message []byte
			_, message, err = c.Read(t.Context())
			text.Write(message)
		}
		_ = c.CloseNow()
		if text.Len() > 0 {
			return text.String()
		}
		if time.Since(begun) > patience {
			t.Errorf("%s: nothing in %v: %s: %v", who.name, time.Since(begun), path, err)
			return ""
		}
	}
}
