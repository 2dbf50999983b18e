// Package kubelet is the part of a kubelet that kube-apiserver talks to, for pods that are only simulated: commands run on
// this machine, all containers share one log file, and every port answers HTTP with a greeting.
//
// A command that runs on this machine is dangerous, so the server listens on loopback and accepts kube-apiserver's own client
// certificate only: the cluster's authorization decides who may run commands.
package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"kapis.dev/ks-apiserver/tools/dev/internal/process"
)

const (
	idleTimeout = time.Hour
	// Greeting begins every answer of a simulated container's ports.
	Greeting = "hello from a simulated pod"
)

// Config is the address of the kubelet, and the content of its containers.
type Config struct {
	// Address is host:port to listen on.
	Address string
	// CertFile and KeyFile are the serving certificate, ClientCAFile the CA of clients, ClientName the only accepted common name.
	CertFile, KeyFile, ClientCAFile, ClientName string
	// Dir is the working folder of commands.
	Dir string
	// Log and PreviousLog are the logs of every container, in the format of container runtimes: "TIME STREAM F TEXT".
	Log, PreviousLog string
}

// Main reads a Config from the command line and serves until SIGTERM.
func Main(args []string) error {
	var c Config
	flags := flag.NewFlagSet("kubelet", flag.ContinueOnError)
	flags.StringVar(&c.Address, "address", "", "host:port to listen on")
	flags.StringVar(&c.CertFile, "cert-file", "", "serving certificate")
	flags.StringVar(&c.KeyFile, "key-file", "", "its private key")
	flags.StringVar(&c.ClientCAFile, "client-ca-file", "", "authority of clients")
	flags.StringVar(&c.ClientName, "client-name", "", "common name of the only client admitted")
	flags.StringVar(&c.Dir, "dir", "", "working folder of commands")
	flags.StringVar(&c.Log, "log", "", "log of every container")
	flags.StringVar(&c.PreviousLog, "previous-log", "", "log of the earlier life of every container")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", c.Address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return c.Serve(ctx, listener)
}

// Serve answers on listener until ctx ends, and closes it.
func (c Config) Serve(ctx context.Context, listener net.Listener) error {
	defer func() { _ = listener.Close() }() // for the early returns; the server has closed it already
	tlsConfig, err := c.tls()
	if err != nil {
		return err
	}
	target, err := serveGreeting(ctx)
	if err != nil {
		return err
	}
	p := &pods{Config: c, spawner: process.NewSpawner(), target: target}
	server := &http.Server{
		Handler:           p.handler(),
		TLSConfig:         tlsConfig,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // the end of ctx ends followers and commands
		// Streams are upgraded HTTP/1.1 connections.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func (c Config) tls() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("load the serving certificate: %w", err)
	}
	ca, err := os.ReadFile(c.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("read the authority of clients: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate", c.ClientCAFile)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
		VerifyConnection: func(s tls.ConnectionState) error {
			if name := s.PeerCertificates[0].Subject.CommonName; name != c.ClientName {
				return fmt.Errorf("client %q is not %q", name, c.ClientName)
			}
			return nil
		},
	}, nil
}

// pods simulates all pods.
type pods struct {
	Config
	spawner *process.Spawner
	// target is the address that answers on every port.
	target string
}

// handler serves the paths that kube-apiserver builds (pkg/registry/core/pod/strategy.go in Kubernetes). kube-apiserver has looked up
// pod and container before, so they are not checked.
func (p *pods) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", p.logs)
	for _, uid := range []string{"", "/{uid}"} {
		mux.HandleFunc("/exec/{namespace}/{pod}"+uid+"/{container}", p.exec)
		mux.HandleFunc("/attach/{namespace}/{pod}"+uid+"/{container}", p.attach)
		mux.HandleFunc("/portForward/{namespace}/{pod}"+uid, p.portForward)
	}
	return mux
}

func (p *pods) exec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w, r, done := watchConnection(w, r)
	defer done()
	remotecommand.ServeExec(w, r, p, r.PathValue("pod"), r.PathValue("uid"), r.PathValue("container"), r.URL.Query()["command"],
		options, idleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

func (p *pods) attach(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w, r, done := watchConnection(w, r)
	defer done()
	remotecommand.ServeAttach(w, r, p, r.PathValue("pod"), r.PathValue("uid"), r.PathValue("container"),
		options, idleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

func (p *pods) portForward(w http.ResponseWriter, r *http.Request) {
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w, r, done := watchConnection(w, r)
	defer done()
	portforward.ServePortForward(w, r, p, r.PathValue("pod"), r.PathValue("uid"), options,
		idleTimeout, remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
}
