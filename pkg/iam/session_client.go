package iam

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
)

// SessionBackend is where sessions live: kube-apiserver, and a map in tests.
type SessionBackend interface {
	Create(ctx context.Context, s *v1alpha1.Session) (*v1alpha1.Session, error)
	Get(ctx context.Context, name string) (*v1alpha1.Session, error)
	// Update fails with a Conflict where the resource version is not the one stored.
	Update(ctx context.Context, s *v1alpha1.Session) (*v1alpha1.Session, error)
	Delete(ctx context.Context, name string, uid types.UID) error
}

// SessionClient is the SessionAPI of a cluster.
type SessionClient struct {
	c *gentype.Client[*v1alpha1.Session]
}

// NewSessionClient makes a client of the cluster of cfg.
func NewSessionClient(cfg *rest.Config) (*SessionClient, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("make a client of sessions: %w", err)
	}
	c := rest.CopyConfig(cfg)
	c.APIPath = "/apis"
	c.GroupVersion = &v1alpha1.SchemeGroupVersion
	c.ContentType = runtime.ContentTypeJSON
	c.AcceptContentTypes = runtime.ContentTypeJSON
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	rc, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("make a client of sessions: %w", err)
	}
	return &SessionClient{c: gentype.NewClient("sessions", rc, runtime.NewParameterCodec(scheme), "",
		func() *v1alpha1.Session { return &v1alpha1.Session{} })}, nil
}

// Create stores a new session.
func (s *SessionClient) Create(ctx context.Context, o *v1alpha1.Session) (*v1alpha1.Session, error) {
	return s.c.Create(ctx, o, metav1.CreateOptions{})
}

// Get reads a session.
func (s *SessionClient) Get(ctx context.Context, name string) (*v1alpha1.Session, error) {
	return s.c.Get(ctx, name, metav1.GetOptions{})
}

// Update replaces a session where nobody else did in the meantime.
func (s *SessionClient) Update(ctx context.Context, o *v1alpha1.Session) (*v1alpha1.Session, error) {
	return s.c.Update(ctx, o, metav1.UpdateOptions{})
}

// Delete ends a session. An empty uid stands for any.
func (s *SessionClient) Delete(ctx context.Context, name string, uid types.UID) error {
	o := metav1.DeleteOptions{}
	if uid != "" {
		o.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	return s.c.Delete(ctx, name, o)
}
