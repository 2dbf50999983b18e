package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// wire is what lies between the hub and a member that it dials: a TCP proxy that does harm.
type wire struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	conns map[net.Conn]bool
	// harm is called for each piece of data, both ways; it may wait, or fail, which cuts the connection.
	harm func() error
	// piece is how many bytes are read at once, 0 for many.
	piece int
}

func newWire(t *testing.T, to string) *wire { t.Helper(); return newWireAt(t, "127.0.0.1:0", to) }

// newWireAt is newWire at an address of this machine.
func newWireAt(t *testing.T, at, to string) *wire {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, to: to, conns: map[net.Conn]bool{}}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go w.carry(near)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); w.cut() })
	return w
}

func (w *wire) carry(near net.Conn) {
	w.mu.Lock()
	to := w.to
	w.mu.Unlock()
	far, err := (&net.Dialer{Timeout: patience}).Dial("tcp", to)
	if err != nil {
		_ = near.Close()
		return
	}
	w.mu.Lock()
	w.conns[near], w.conns[far] = true, true
	w.mu.Unlock()
	copies := func(to, from net.Conn) {
		buf := make([]byte, 32<<10)
		for {
			w.mu.Lock()
			n := w.piece
			w.mu.Unlock()
			if n == 0 {
				n = len(buf)
			}
			n, err := from.Read(buf[:n])
			if err == nil {
				w.mu.Lock()
				harm := w.harm
				w.mu.Unlock()
				if harm != nil {
					err = harm()
				}
			}
			if err == nil {
				_, err = to.Write(buf[:n])
			}
			if err != nil {
				_ = to.Close()
				_ = from.Close()
				return
			}
		}
	}
	go copies(near, far)
	copies(far, near)
}

// does sets the harm.
func (w *wire) does(harm func() error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.harm = harm
}

// reads sets how many bytes are read at once, 0 for many.
func (w *wire) reads(piece int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.piece = piece
}

// leads leads new connections elsewhere.
func (w *wire) leads(to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
}

// cut cuts what is connected.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
	clear(w.conns)
}

// redirect has the hub dial a member at another address, and returns that at which it did.
func redirect(t *testing.T, to string) (was string) {
	t.Helper()
	var c struct {
		Spec struct {
			Connection struct{ KubeSphereAPIEndpoint string }
		}
	}
	if err := json.Unmarshal([]byte(admin(t).must(t, http.StatusOK, http.MethodGet, clusters+"/"+direct, nil)), &c); err != nil {
		t.Fatal(err)
	}
	// A credential is sent to no other address than it was written for: who may read it says that it is for this one, too.
	out, err := exec.CommandContext(t.Context(), product.Program("kubectl"), "--kubeconfig", filepath.Join(product.Dir, "members", direct, "kubeconfig"),
		"config", "view", "--raw", "--flatten", "--minify").Output()
	if err != nil {
		t.Fatal(err)
	}
	endpoint := any(to)
	if to == "" { // through its kube-apiserver
		endpoint = nil
	}
	patch, err := json.Marshal(obj{"spec": obj{"connection": obj{"kubesphereAPIEndpoint": endpoint, "kubeconfig": fmt.Appendf(out, "# for %s\n", to)}}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), product.Program("kubectl"), "--kubeconfig", filepath.Join(product.Dir, "kubeconfig"), "patch",
		"clusters.cluster.kubesphere.io", direct, "--type=merge", "--patch", string(patch))
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return c.Spec.Connection.KubeSphereAPIEndpoint
}

// directNodes is a list of the member that the hub dials.
const directNodes = "/clusters/" + direct + "/api/v1/nodes"

// wiredMember is the member that the hub dials, over a wire, as the admin sees it.
type wiredMember struct {
	admin user
	wire  *wire
}

// served waits until the member answers over the wire.
func (m wiredMember) served(t *testing.T, when string) {
	t.Helper()
	eventually(t, when, func(ctx context.Context) error {
		m.wire.mu.Lock()
		n := len(m.wire.conns)
		m.wire.mu.Unlock()
		resp, err := m.admin.ask(ctx, http.MethodGet, directNodes, nil)
		if err == nil && (resp.Status != http.StatusOK || n == 0) {
			err = fmt.Errorf("%d by %d connections: %.600s", resp.Status, n, resp.Body)
		}
		return err
	})
}

// othersAnswer fails the test unless the hub, the other member and a list over all clusters answer.
func (m wiredMember) othersAnswer(t *testing.T) {
	t.Helper()
	m.admin.must(t, http.StatusOK, http.MethodGet, "/clusters/"+dialer+"/api/v1/nodes", nil)
	m.admin.must(t, http.StatusOK, http.MethodGet, "/api/v1/nodes", nil)
	// A list over all clusters answers without the member, and names it.
	l := list(t, m.admin, "limit=1&memberTimeout=10s&clusters=host,"+direct+","+dialer)
	for _, missing := range l.Clusters.Missing {
		if missing.Name != direct {
			t.Errorf("%+v is missing", missing)
		}
	}
	if l.Clusters.Answered < 2 {
		t.Errorf("%+v", l.Clusters)
	}
}

// fails asks until the member is not reached, and sees nothing on the way that is not an answer of the hub's or the member's.
func (m wiredMember) fails(t *testing.T, what string) {
	t.Helper()
	eventually(t, what, func(ctx context.Context) error {
		resp, err := m.admin.ask(ctx, http.MethodGet, directNodes, nil)
		switch {
		case err != nil:
			return err
		case resp.Status == http.StatusUnauthorized || strings.Contains(string(resp.Body), `"Unauthorized"`):
			t.Fatalf("%s logs out: %d %s", what, resp.Status, resp.Body)
		case resp.Status == http.StatusBadGateway && !strings.Contains(string(resp.Body), `"ClusterIdentity"`),
			resp.Status != http.StatusBadGateway && resp.Status != http.StatusServiceUnavailable && resp.Status != http.StatusGatewayTimeout:
			return fmt.Errorf("%d %.300s", resp.Status, resp.Body)
		}
		return nil
	})
	m.othersAnswer(t)
}

// hasRole waits until the role on-the-way is in the member, or is not.
func (m wiredMember) hasRole(t *testing.T, want bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("the role is there: %v", want), func(context.Context) error {
		out, err := at(t, direct, "get", "globalroles.iam.kubesphere.io", "-o", "name")
		if err == nil && strings.Contains(out, "/on-the-way") != want {
			err = fmt.Errorf("there is %s", out)
		}
		return err
	})
}

// step is a part of a story: the parts after it build on it, so the story ends with the first that fails.
func step(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	if !t.Run(name, f) {
		t.FailNow()
	}
}

// F6, F19, F21, F22, F24, F31: whatever happens on the way to a member, the others answer, no answer logs anybody out or is half a one, and all is well again
// without a restart.
func TestWhatHappensOnTheWayToAMember(t *testing.T) {
	a := admin(t)
	own := redirect(t, "https://127.0.0.1:1")
	u, err := url.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, u.Host)
	defer func() {
		redirect(t, own)
		w.cut() // what answers from now on is dialled at its own address
		a.becomes(t, patience, http.StatusOK, http.MethodGet, directNodes, nil)
	}()
	redirect(t, "https://"+w.listener.Addr().String())
	m := wiredMember{a, w}

	step(t, "TheMemberAnswersOverTheWire", func(t *testing.T) { m.served(t, "before") })
	step(t, "ACutEndsAWatchAndIsGotOver", func(t *testing.T) {
		lines, end := events(t, a, "/clusters/"+direct+"/kapis/resources.kubesphere.io/v1alpha3/namespaces/default/configmaps?watch=true")
		defer end()
		w.cut()
		for range lines { // what ran over it ends, and its reader follows again
		}
		m.served(t, "after a cut")
	})
	step(t, "AChangeOnTheHubWaitsForNoSilentMember", func(t *testing.T) {
		// What is changed on the hub meanwhile waits for nobody, and is there afterwards.
		silent := make(chan struct{})
		w.does(func() error { <-silent; return io.ErrUnexpectedEOF })
		a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalroles", named("GlobalRole", "on-the-way", obj{"rules": []obj{}}))
		m.fails(t, "silence")
		w.does(nil)
		close(silent)
		w.cut()
		m.served(t, "after silence")
		m.hasRole(t, true)
	})
	step(t, "DelaysOf200MillisecondsAreNoFailure", func(t *testing.T) {
		w.does(func() error { time.Sleep(200 * time.Millisecond); return nil })
		for range 3 {
			a.must(t, http.StatusOK, http.MethodGet, directNodes, nil)
		}
		m.othersAnswer(t)
	})
	step(t, "OneMegabyteASecondIsNoFailure", func(t *testing.T) {
		w.reads(10 << 10)
		w.does(func() error { time.Sleep(10 * time.Millisecond); return nil }) // 1 MB/s
		m.served(t, "at 1 MB/s")
		m.othersAnswer(t)
	})
	step(t, "ADeletionOnTheHubWaitsForNoMemberOfAByteEach5Seconds", func(t *testing.T) {
		w.reads(1)
		w.does(func() error { time.Sleep(5 * time.Second); return nil })
		a.must(t, http.StatusOK, http.MethodDelete, iam+"/globalroles/on-the-way", nil)
		m.fails(t, "a byte each 5 s")
		w.reads(0)
		w.does(nil)
		w.cut()
		m.served(t, "after a byte each 5 s")
		m.hasRole(t, false)
	})

	// The hub itself, and nobody at all, behind the address: neither is the member.
	hub, err := url.Parse(product.TLSURL)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ what, to string }{
		"AnotherClusterAtItsAddressIsNotTheMember": {"another cluster", hub.Host},
		"NobodyAtItsAddressIsNotTheMember":         {"nobody", "127.0.0.1:1"},
	} {
		step(t, name, func(t *testing.T) {
			w.leads(c.to)
			w.cut()
			m.fails(t, c.what)
			w.leads(u.Host)
			m.served(t, "after "+c.what)
		})
	}
}

// F21: a member whose kube-apiserver or etcd stops, or dies, answers what it knows, and costs the others nothing; what follows it goes on when it is back, and
// nothing of ours is restarted for that.
func TestAMemberWhoseKubeAPIServerStops(t *testing.T) {
	a := admin(t)
	in := "/clusters/" + dialer + "/kapis/resources.kubesphere.io/v1alpha3/namespaces"
	untouched := []string{in, "/clusters/" + direct + "/api/v1/nodes", "/api/v1/nodes"}
	program := func(name string) int {
		t.Helper()
		return processWith(t, "\x00"+name+"\x00", filepath.Join(product.Dir, "members", dialer)+"/")
	}
	for _, fault := range []struct {
		name, of string
		does     syscall.Signal
	}{
		{"KubeAPIServerStops", "kube-apiserver", syscall.SIGSTOP},
		{"EtcdStops", "etcd", syscall.SIGSTOP},
		{"KubeAPIServerDies", "kube-apiserver", syscall.SIGKILL}, // who runs it starts it again
	} {
		t.Run(fault.name, func(t *testing.T) {
			for _, path := range untouched { // another test may have cut the links
				a.becomes(t, patience, http.StatusOK, http.MethodGet, path, nil)
			}
			lines, end := events(t, a, in+"/default/configmaps?watch=true")
			defer end()
			process := program(fault.of)
			if err := syscall.Kill(process, fault.does); err != nil {
				t.Fatal(err)
			}
			goesOn := func() {
				if fault.does == syscall.SIGSTOP {
					_ = syscall.Kill(process, syscall.SIGCONT)
				}
			}
			defer goesOn()
			for _, path := range untouched {
				a.must(t, http.StatusOK, http.MethodGet, path, nil)
			}
			if fault.does == syscall.SIGSTOP {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				resp, err := a.ask(ctx, http.MethodPost, "/clusters/"+dialer+configMaps, configMap("while-"+strings.ToLower(fault.name)))
				if err == nil && resp.Status < http.StatusInternalServerError {
					t.Errorf("a write while it is stopped: %d %.200s", resp.Status, resp.Body)
				}
			}
			goesOn()
			name := "after-" + strings.ToLower(fault.name)
			within(t, 5*time.Minute, "it takes writes again", func(ctx context.Context) error {
				resp, err := a.ask(ctx, http.MethodPost, "/clusters/"+dialer+configMaps, configMap(name))
				switch {
				case err != nil:
					return err
				case resp.Status == http.StatusUnauthorized || strings.Contains(string(resp.Body), `"Unauthorized"`):
					t.Fatalf("it logs out: %d %s", resp.Status, resp.Body)
				case resp.Status != http.StatusCreated && resp.Status != http.StatusConflict: // the answer to the first may have been lost
					return fmt.Errorf("%d %.300s", resp.Status, resp.Body)
				}
				return nil
			})
			until(t, lines, name) // the watch has gone on
			a.becomes(t, patience, http.StatusOK, http.MethodGet, in+"/default/configmaps/"+name, nil)
			a.must(t, http.StatusOK, http.MethodDelete, "/clusters/"+dialer+configMaps+"/"+name, nil)
		})
	}
}
