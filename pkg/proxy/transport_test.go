package proxy

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/net/http2"
	"k8s.io/client-go/rest"
)

// F39: of an answer that its client does not read, kube-apiserver is told to send a small part, however many there are.
func TestWhatAClientDoesNotReadWaitsAtKubeAPIServer(t *testing.T) {
	server := httptest.NewTLSServer(nil) // for its certificate
	config := &tls.Config{Certificates: server.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	server.Close()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	kube := newKube(t, KubeOptions{Config: &rest.Config{Host: "https://" + ln.Addr().String(), TLSClientConfig: rest.TLSClientConfig{Insecure: true}}})
	for _, path := range []string{"/api/v1/namespaces/a/pods/p/log", "/api/v1/pods?watch=true"} {
		answered := make(chan int, 1)
		go func() {
			rec := httptest.NewRecorder()
			filtered(kube, person, allowed)(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			answered <- rec.Code
		}()
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			t.Fatal(err)
		}
		frame, err := http2.NewFramer(conn, conn).ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		settings, ok := frame.(*http2.SettingsFrame)
		if !ok {
			t.Fatalf("%s: the first frame is %v", path, frame)
		}
		if window, set := settings.Value(http2.SettingInitialWindowSize); !set || window > answerWindow {
			t.Errorf("%s: %d bytes may be sent that nobody has read, want %d", path, window, answerWindow)
		}
		_ = conn.Close()
		if code := <-answered; code < http.StatusInternalServerError {
			t.Errorf("%s: %d", path, code)
		}
	}
}
