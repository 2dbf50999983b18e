// Package file keeps the files of the application store: packages of versions, and images that pages show.
package file

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// Namespace is where the ConfigMaps of files are.
	Namespace = "extension-openpitrix"
	// key is that of a file in its ConfigMap.
	key = "BinaryKey"
	// MaxSize is how large a file may be, in bytes: what a ConfigMap holds.
	MaxSize = 1 << 20
)

// Store keeps files by name. Errors are metav1.Status errors, NotFound for a file that is not there.
type Store interface {
	// Get returns a file. The caller must not change it.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put keeps a file under a name, and takes the place of what was there. Labels say whose it is.
	Put(ctx context.Context, name string, labels map[string]string, content []byte) error
	// Delete removes a file, and succeeds where there is none.
	Delete(ctx context.Context, name string) error
}

// ConfigMaps keeps each file in a ConfigMap of its own, as the program itself: who may read or write a file is decided before.
type ConfigMaps struct {
	client corev1client.ConfigMapInterface
}

var _ Store = (*ConfigMaps)(nil)

// NewConfigMaps returns a Store whose files are in ConfigMaps of Namespace.
func NewConfigMaps(client corev1client.ConfigMapsGetter) *ConfigMaps {
	return &ConfigMaps{client: client.ConfigMaps(Namespace)}
}

// Get implements Store.
func (c *ConfigMaps) Get(ctx context.Context, name string) ([]byte, error) {
	m, err := c.client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the file %s: %w", name, err)
	}
	content, ok := m.BinaryData[key]
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
	}
	return content, nil
}

// Put implements Store.
func (c *ConfigMaps) Put(ctx context.Context, name string, labels map[string]string, content []byte) error {
	if len(content) > MaxSize {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("a file has at most %d bytes", MaxSize))
	}
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace, Labels: labels},
		BinaryData: map[string][]byte{key: content},
	}
	_, err := c.client.Create(ctx, m, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = c.client.Update(ctx, m, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("keep the file %s: %w", name, err)
	}
	return nil
}

// Delete implements Store.
func (c *ConfigMaps) Delete(ctx context.Context, name string) error {
	if err := c.client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the file %s: %w", name, err)
	}
	return nil
}

// Labels returns whose a file is: the labels that it was kept with.
func (c *ConfigMaps) Labels(ctx context.Context, name string) (map[string]string, error) {
	m, err := c.client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the file %s: %w", name, err)
	}
	return m.Labels, nil
}
