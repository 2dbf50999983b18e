package session

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam/crdclient"
)

// Backend stores sessions: kube-apiserver or Redis.
type Backend interface {
	Create(ctx context.Context, s *v1alpha1.Session) (*v1alpha1.Session, error)
	Get(ctx context.Context, name string) (*v1alpha1.Session, error)
	// Update replaces a session, and fails with a Conflict if the resource version is not the stored one.
	Update(ctx context.Context, s *v1alpha1.Session) (*v1alpha1.Session, error)
	Delete(ctx context.Context, name string, uid types.UID) error
}

// Client is the Backend of a cluster.
type Client struct {
	*crdclient.Client[*v1alpha1.Session]
}

// NewClient returns a client of the sessions in the cluster of cfg.
func NewClient(cfg *rest.Config) (*Client, error) {
	c, err := crdclient.New(cfg, v1alpha1.SchemeGroupVersion, v1alpha1.AddToScheme, "sessions",
		func() *v1alpha1.Session { return &v1alpha1.Session{} })
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// Delete deletes a session; an empty uid stands for any.
func (c *Client) Delete(ctx context.Context, name string, uid types.UID) error {
	is := metav1.Preconditions{}
	if uid != "" {
		is.UID = &uid
	}
	return c.Client.Delete(ctx, name, is)
}

// SplitBackend has sessions in two backends. A session's name says in which one it is, so that all replicas always agree, and one code
// can't open a session in each.
type SplitBackend struct {
	// Prefix begins the names of the sessions in Optional.
	Prefix         string
	Optional, Kube Backend
}

// prefixOf returns the prefix of a session's name, which names its backend. Names of newName contain no dash.
func prefixOf(name string) string { return name[:strings.IndexByte(name, '-')+1] }

func (s *SplitBackend) of(name string) Backend {
	if strings.HasPrefix(name, s.Prefix) {
		return s.Optional
	}
	return s.Kube
}

// Create stores a new session.
func (s *SplitBackend) Create(ctx context.Context, o *v1alpha1.Session) (*v1alpha1.Session, error) {
	return s.of(o.Name).Create(ctx, o)
}

// Get reads a session.
func (s *SplitBackend) Get(ctx context.Context, name string) (*v1alpha1.Session, error) {
	return s.of(name).Get(ctx, name)
}

// Update replaces a session. It fails with a Conflict if others changed it.
func (s *SplitBackend) Update(ctx context.Context, o *v1alpha1.Session) (*v1alpha1.Session, error) {
	return s.of(o.Name).Update(ctx, o)
}

// Delete deletes a session.
func (s *SplitBackend) Delete(ctx context.Context, name string, uid types.UID) error {
	return s.of(name).Delete(ctx, name, uid)
}
