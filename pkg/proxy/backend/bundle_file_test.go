package backend_test

import (
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/proxy/backend"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// X14: a file is in memory as long as somebody receives it, whom nobody had to let in. Over HTTP/1.1 only a deadline ends the write.
func TestX14WhoReadsNothingIsLetGo(t *testing.T) {
	const size = 8 << 20 // more than the buffers of a connection take
	w := newWorld(t)
	w.handler = backend.New(backend.Options{Index: w.index, Files: extension.NewFiles(w.index, nil, time.Now), Now: time.Now,
		Streams: stream.New(stream.Options{Progress: 50 * time.Millisecond})})
	w.set("jsbundles", "shop", obj{"raw": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", size)))}, obj{"status": obj{
		"state": "Available", "link": "/dist/shop/index.js"}})
	for name, header := range map[string]string{"HTTP/1.1 200": "", "HTTP/1.1 206": "Range: bytes=1-\r\n"} {
		t.Run(name, func(t *testing.T) {
			returned := make(chan struct{})
			served := w.serve(&user.DefaultInfo{Name: user.Anonymous})
			srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				defer close(returned)
				served.ServeHTTP(rw, r)
			}))
			t.Cleanup(srv.Close)
			c, err := new(net.Dialer).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() }) // before the server, which waits for its answer
			if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, "GET /dist/shop/index.js HTTP/1.1\r\nHost: a\r\n"+header+"\r\n"); err != nil {
				t.Fatal(err)
			}
			select {
			case <-returned:
			case <-time.After(30 * time.Second):
				t.Fatal("the answer is still being written")
			}
			began := make([]byte, len(name))
			if _, err := io.ReadFull(c, began); err != nil || string(began) != name {
				t.Errorf("the answer was %q, %v", began, err)
			}
		})
	}
}
