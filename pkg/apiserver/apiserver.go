// Package apiserver assembles ks-apiserver: server_components.go makes its components, chain.go lists the filters of a request, handlers.go
// has the handlers, listen_and_serve.go the ports.
package apiserver

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/kube"
	"kapis.dev/ks-apiserver/pkg/version"
)

// Server is a ks-apiserver with its listeners and its components; it serves once Run is called.
type Server struct {
	components *components
	listeners  []net.Listener
	stop       context.CancelFunc
	delay      time.Duration
}

// New reads the kubeconfig, binds the ports, connects to the cluster and makes the server. ctx ends what New starts if Run is never
// called. The error is one line that says what was attempted.
func New(ctx context.Context, cfg *config.Config, l Listen) (_ *Server, err error) {
	access := kube.Access{
		Kubeconfig: cfg.Kubernetes.Kubeconfig, Master: cfg.Kubernetes.Master,
		QPS: cfg.Kubernetes.QPS, Burst: cfg.Kubernetes.Burst, UserAgent: "ks-apiserver",
	}
	cluster, err := access.Config()
	if err != nil {
		return nil, err
	}
	peers, aggregated := &clientCA{}, &aggregatedTLS{enabled: cfg.Aggregated.Enabled}
	insecure, secure, err := l.open(ctx, peers, aggregated)
	if err != nil {
		return nil, err
	}
	s := &Server{delay: l.ShutdownDelay}
	for _, ln := range []net.Listener{insecure, secure} {
		if ln != nil {
			s.listeners = append(s.listeners, ln)
		}
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if len(cfg.Ignored) > 0 {
		klog.InfoS("configured, and not read by this version", "keys", strings.Join(cfg.Ignored, ", "))
	}
	if len(cfg.Exposed) > 0 {
		klog.InfoS("Secrets are in the ConfigMap kubesphere-config, where everybody reads them who may read ConfigMaps; move it into a Secret, "+
			"and change them (docs/existing.md)", "keys", strings.Join(cfg.Exposed, ", "))
	}
	kubernetes, err := kube.Reach(ctx, cluster)
	if err != nil {
		return nil, err
	}
	// The components outlive ctx: requests that are open when it ends may finish, and need them.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if s.components, err = newComponents(life, cfg, cluster, kubernetes); err != nil {
		return nil, err
	}
	s.components.listeners = s.listeners
	peers.follow(s.components.directory.ClientAuthorities)
	aggregated.follow(s.components.aggregated)
	return s, nil
}

// Run serves until ctx is done and open requests have finished. It returns nil after a clean stop.
func (s *Server) Run(ctx context.Context) error {
	defer s.close()
	handler, err := routes{s.components}.handler()
	if err != nil {
		return fmt.Errorf("assemble the server: %w", err)
	}
	if err := (memberships{s.components}).join(ctx, handler); err != nil {
		return err
	}
	for _, ln := range s.listeners {
		klog.InfoS("serving", "address", ln.Addr().String(), "version", version.Get().GitVersion)
	}
	return serve(ctx, handler, s.listeners, s.components.drain, s.delay)
}

func (s *Server) close() {
	for _, ln := range slices.Backward(s.listeners) {
		_ = ln.Close()
	}
	if s.stop != nil {
		s.stop()
	}
	if s.components != nil {
		s.components.wait()
	}
}
