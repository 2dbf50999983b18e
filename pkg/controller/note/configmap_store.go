// Package note keeps what the platform knows of something, and nobody else may say, in ConfigMaps of its own.
package note

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Namespace is where notes are: nobody but the platform writes there.
const Namespace = "kubesphere-system"

// Book has notes of one type, each in a ConfigMap.
type Book[T any] struct {
	Client client.Client
	Live   client.Reader
	// Key is that of the note in its ConfigMap.
	Key string
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}}
}

// Get returns a note; nil for none.
func (b Book[T]) Get(ctx context.Context, name string) (*T, error) {
	m := configMap(name)
	err := b.Live.Get(ctx, client.ObjectKeyFromObject(m), m)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // nil is none
	}
	out := new(T)
	if err == nil {
		err = json.Unmarshal([]byte(m.Data[b.Key]), out)
	}
	if err != nil {
		return nil, fmt.Errorf("read the note %s/%s: %w", Namespace, name, err)
	}
	return out, nil
}

// Put writes a note.
func (b Book[T]) Put(ctx context.Context, name string, note *T) error {
	text, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encode the note %s/%s: %w", Namespace, name, err)
	}
	m := configMap(name)
	m.Data = map[string]string{b.Key: string(text)}
	err = b.Client.Create(ctx, m)
	if apierrors.IsAlreadyExists(err) {
		err = b.Client.Update(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("write the note %s/%s: %w", Namespace, name, err)
	}
	return nil
}

// Delete deletes a note, if it is there.
func (b Book[T]) Delete(ctx context.Context, name string) error {
	if err := b.Client.Delete(ctx, configMap(name)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the note %s/%s: %w", Namespace, name, err)
	}
	return nil
}
