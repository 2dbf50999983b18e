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
	// MaxInConfigMap is how large a file in a ConfigMap may be, in bytes.
	MaxInConfigMap = 1 << 20
	// MaxImage is how large an image may be, in bytes, wherever it is.
	MaxImage = 1 << 20
)

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
		return nil, notFound(name)
	}
	return content, nil
}

// Put implements Store.
func (c *ConfigMaps) Put(ctx context.Context, name string, labels map[string]string, content []byte) error {
	if len(content) > MaxInConfigMap {
		return tooLarge(MaxInConfigMap)
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

// Labels implements Store.
func (c *ConfigMaps) Labels(ctx context.Context, name string) (map[string]string, error) {
	m, err := c.client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the file %s: %w", name, err)
	}
	return m.Labels, nil
}

// MaxSize implements Store.
func (c *ConfigMaps) MaxSize() int { return MaxInConfigMap }

func tooLarge(most int) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("a file has at most %d KiB", most>>10))
}

func notFound(name string) error { return apierrors.NewNotFound(corev1.Resource("files"), name) }
