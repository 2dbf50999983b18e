package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster/agent"
	"kapis.dev/ks-apiserver/pkg/version"
)

// Way is how a member finds its hub: the address, and files with the authorities of its certificate and with a join token.
type Way struct{ URL, CAFile, TokenFile string }

// ofMember returns the options of a member's agent.
func ofMember(ctx context.Context, o Options, kubernetesVersion string, handler http.Handler) (agent.Options, error) {
	uid, err := clusterUID(ctx, o.Client)
	if err != nil {
		return agent.Options{}, err
	}
	handler, err = ofHub(o, kubernetesVersion, handler)
	if err != nil {
		return agent.Options{}, err
	}
	return agent.Options{Secrets: o.Client.CoreV1().Secrets(o.Namespace), UID: uid, KubernetesVersion: kubernetesVersion,
		Version: version.Get().GitVersion, Handler: handler, Drain: o.Drain, Now: time.Now}, nil
}

// NewGuest returns the agent of a cluster that waits for a hub's invitation. handler answers the hub's requests.
func NewGuest(ctx context.Context, o Options, kubernetesVersion string, handler http.Handler) (*agent.Guest, error) {
	options, err := ofMember(ctx, o, kubernetesVersion, handler)
	if err != nil {
		return nil, err
	}
	return agent.NewGuest(options, o.Client.CoreV1().ConfigMaps(o.Namespace)), nil
}

// NewMember returns the agent that joins this cluster to a hub. handler answers the hub's requests.
func NewMember(ctx context.Context, o Options, w Way, kubernetesVersion string, handler http.Handler) (*agent.Agent, error) {
	at, err := url.Parse(w.URL)
	if err != nil {
		return nil, fmt.Errorf("read fleet.hub.url: %w", err)
	}
	options, err := ofMember(ctx, o, kubernetesVersion, handler)
	if err != nil {
		return nil, err
	}
	options.Hub, options.Token = at, w.token
	if w.CAFile != "" {
		if options.CA, err = os.ReadFile(w.CAFile); err != nil {
			return nil, fmt.Errorf("read fleet.hub.caFile: %w", err)
		}
	}
	a, err := agent.New(options)
	if err != nil {
		return nil, fmt.Errorf("join a fleet (fleet.hub): %w", err)
	}
	return a, nil
}

// token returns the join token in the file, "" for none.
func (w Way) token() (string, error) {
	if w.TokenFile == "" {
		return "", nil
	}
	raw, err := os.ReadFile(w.TokenFile)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read fleet.hub.tokenFile: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}
