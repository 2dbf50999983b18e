package agent_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sync"
	"testing"

	"kapis.dev/ks-apiserver/pkg/cluster/agent"
)

// connects is an HTTP proxy that knows CONNECT alone, and leads to one server, whatever the name. net/http reads HTTPS_PROXY once, and uses it
// for no address on this machine.
type connects struct {
	mu    sync.Mutex
	to    string
	asked []string
}

var way = &connects{}

func TestMain(m *testing.M) {
	srv := httptest.NewServer(way)
	if err := os.Setenv("HTTPS_PROXY", srv.URL); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	srv.CloseClientConnections()
	os.Exit(code)
}

func (c *connects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	to := c.to
	c.asked = append(c.asked, r.Method+" "+r.Host)
	c.mu.Unlock()
	if r.Method != http.MethodConnect {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	far, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	near, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = far.Close()
		return
	}
	_, _ = io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
	_, _ = io.Copy(near, far)
	_ = near.Close()
}

// F1: a member joins and is linked where nothing but an HTTP proxy leads out, which sees the hub's address and no more.
func TestAMemberReachesItsHubThroughAProxy(t *testing.T) {
	w := newWorld(t)
	way.mu.Lock()
	way.to = w.server.Listener.Addr().String()
	way.mu.Unlock()
	a, err := agent.New(agent.Options{Secrets: newSecrets(), Hub: &url.URL{Scheme: "https", Host: "example.com"},
		Token: always(w.cluster("m1", "c-1")), UID: "u-m1",
		CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw}), Now: w.clock, Handler: http.NotFoundHandler()})
	if err != nil {
		t.Fatal(err)
	}
	go a.Run(t.Context())
	w.eventually("linked", func() bool { return w.linked("m1") })
	way.mu.Lock()
	defer way.mu.Unlock()
	for _, asked := range way.asked {
		if asked != "CONNECT example.com:443" {
			t.Errorf("the proxy is asked for %s", asked)
		}
	}
	if len(way.asked) < 2 { // a join, and a link
		t.Errorf("the proxy is asked for %v", way.asked)
	}
}
