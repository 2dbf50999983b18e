// Command backend is the backend of an extension: it answers for a group of its own below /kapis, and for a page below /proxy. It needs
// nothing but the standard library.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", ":8080", "`address` to listen at")
	server := flag.String("server", "http://ks-apiserver.kubesphere-system.svc", "`URL` of the ks-apiserver that passes requests on")
	authority := flag.String("server-ca", "", "PEM `file` of who vouches for its certificate, besides those that this machine trusts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *listen, *server, *authority)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, listen, server, authority string) error {
	client, err := newClient(authority)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	log.Printf("listening at %s", l.Addr())
	srv := &http.Server{Handler: newHandler(newVerifier(server, client, time.Now)), ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	done := make(chan error, 1)
	go func() {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		done <- srv.Shutdown(ending)
	}()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return <-done
}

// newClient returns the client that asks ks-apiserver for its keys.
func newClient(authority string) (*http.Client, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if authority != "" {
		text, err := os.ReadFile(authority)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authority: %w", err)
		}
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no PEM certificate", authority)
		}
	}
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("redirects are not followed: keys come from one address")
		},
	}, nil
}
