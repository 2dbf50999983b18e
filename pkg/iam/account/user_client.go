package account

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// UserClient is the UserAPI of a cluster.
type UserClient struct {
	c rest.Interface
}

// NewUserClient returns a client of the Users in the cluster of cfg.
func NewUserClient(cfg *rest.Config) (*UserClient, error) {
	c := rest.CopyConfig(cfg)
	c.APIPath = "/apis"
	c.GroupVersion = &v1beta1.SchemeGroupVersion
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion() // of answers, only a Status is read with it
	rc, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("make a client of users: %w", err)
	}
	return &UserClient{rc}, nil
}

// Create creates a User.
func (c *UserClient) Create(ctx context.Context, u *v1beta1.User) ([]byte, error) {
	body, err := json.Marshal(u)
	if err != nil {
		return nil, fmt.Errorf("create user %q: %w", u.Name, err)
	}
	return c.c.Post().Resource("users").Body(body).Do(ctx).Raw()
}

// Get returns a User.
func (c *UserClient) Get(ctx context.Context, name string) ([]byte, error) {
	return c.c.Get().Resource("users").Name(name).Do(ctx).Raw()
}
