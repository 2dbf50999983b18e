package session

import (
	"context"

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
