package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/klog/v2"
)

// PortForward implements portforward.PortForwarder: every port of every pod leads to the greeting.
func (p *pods) PortForward(ctx context.Context, _, _ string, _ int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", p.target)
	if err != nil {
		return fmt.Errorf("reach the simulated port: %w", err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() {
		_, _ = io.Copy(conn, stream)
		_ = conn.(*net.TCPConn).CloseWrite() // the client has sent all; the answer may still arrive
	}()
	if _, err := io.Copy(stream, conn); err != nil && ctx.Err() == nil {
		return fmt.Errorf("copy from the simulated port: %w", err)
	}
	return nil
}

// serveGreeting answers every HTTP request, until ctx ends, with a line that repeats method and path. It returns its address.
func serveGreeting(ctx context.Context) (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for port-forwards: %w", err)
	}
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprintf(w, "%s: %s %s\n", Greeting, r.Method, r.URL.EscapedPath())
		}),
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.ErrorS(err, "Port-forwards are no longer answered")
		}
	}()
	return listener.Addr().String(), nil
}
