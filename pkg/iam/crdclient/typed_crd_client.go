// Package crdclient provides the clients of the custom resources in which logins are stored.
package crdclient

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
)

// API creates, reads, updates and deletes the objects of one kind. T is a pointer to the kind.
type API[T any] interface {
	Create(ctx context.Context, o T) (T, error)
	Get(ctx context.Context, name string) (T, error)
	// Update replaces an object, and fails with a Conflict if the resource version is not the stored one.
	Update(ctx context.Context, o T) (T, error)
	// Delete deletes an object, and fails with a Conflict if the preconditions don't hold.
	Delete(ctx context.Context, name string, is metav1.Preconditions) error
}

// Object is a pointer to a generated kind.
type Object interface {
	runtime.Object
	metav1.Object
}

// Client is the API of one kind in a cluster.
type Client[T Object] struct {
	c *gentype.Client[T]
}

// Lockouts returns a client of lockouts in the cluster of cfg.
func Lockouts(cfg *rest.Config) (*Client[*v1alpha1.Lockout], error) {
	return New(cfg, v1alpha1.SchemeGroupVersion, v1alpha1.AddToScheme, "lockouts", func() *v1alpha1.Lockout { return &v1alpha1.Lockout{} })
}

// APIKeys returns a client of API keys.
func APIKeys(cfg *rest.Config) (*Client[*v1alpha1.APIKey], error) {
	return New(cfg, v1alpha1.SchemeGroupVersion, v1alpha1.AddToScheme, "apikeys", func() *v1alpha1.APIKey { return &v1alpha1.APIKey{} })
}

// Factors returns a client of second factors.
func Factors(cfg *rest.Config) (*Client[*v1alpha1.Factor], error) {
	return New(cfg, v1alpha1.SchemeGroupVersion, v1alpha1.AddToScheme, "factors", func() *v1alpha1.Factor { return &v1alpha1.Factor{} })
}

// LoginRecords returns a client of login records.
func LoginRecords(cfg *rest.Config) (*Client[*iamv1beta1.LoginRecord], error) {
	return New(cfg, iamv1beta1.SchemeGroupVersion, iamv1beta1.AddToScheme, "loginrecords",
		func() *iamv1beta1.LoginRecord { return &iamv1beta1.LoginRecord{} })
}

// New returns a client of the resource in the cluster of cfg; empty returns a new object.
func New[T Object](cfg *rest.Config, gv schema.GroupVersion, add func(*runtime.Scheme) error, resource string,
	empty func() T) (*Client[T], error) {
	scheme := runtime.NewScheme()
	if err := add(scheme); err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", resource, err)
	}
	c := rest.CopyConfig(cfg)
	c.APIPath = "/apis"
	c.GroupVersion = &gv
	c.ContentType = runtime.ContentTypeJSON
	c.AcceptContentTypes = runtime.ContentTypeJSON
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	rc, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", resource, err)
	}
	return &Client[T]{c: gentype.NewClient(resource, rc, runtime.NewParameterCodec(scheme), "", empty)}, nil
}

// Create stores a new object.
func (c *Client[T]) Create(ctx context.Context, o T) (T, error) {
	return c.c.Create(ctx, o, metav1.CreateOptions{})
}

// Get reads an object.
func (c *Client[T]) Get(ctx context.Context, name string) (T, error) {
	return c.c.Get(ctx, name, metav1.GetOptions{})
}

// Update replaces an object. It fails with a Conflict if others changed it.
func (c *Client[T]) Update(ctx context.Context, o T) (T, error) {
	return c.c.Update(ctx, o, metav1.UpdateOptions{})
}

// Delete deletes an object.
func (c *Client[T]) Delete(ctx context.Context, name string, is metav1.Preconditions) error {
	return c.c.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &is})
}
