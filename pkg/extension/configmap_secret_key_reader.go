package extension

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
)

// Keys reads keys of ConfigMaps and Secrets, by the right to list them.
type Keys struct{ Client kubernetes.Interface }

// Key implements Reader.
func (k Keys) Key(ctx context.Context, secret bool, r *v1alpha1.KeyReference) ([]byte, error) {
	named := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", r.Name).String()}
	if secret {
		all, err := k.Client.CoreV1().Secrets(r.Namespace).List(ctx, named)
		if err == nil && len(all.Items) == 1 {
			if content, ok := all.Items[0].Data[r.Key]; ok {
				return content, nil
			}
		}
		return nil, noKey(r, err)
	}
	all, err := k.Client.CoreV1().ConfigMaps(r.Namespace).List(ctx, named)
	if err == nil && len(all.Items) == 1 {
		if content, ok := all.Items[0].BinaryData[r.Key]; ok {
			return content, nil
		}
		if content, ok := all.Items[0].Data[r.Key]; ok {
			return []byte(content), nil
		}
	}
	return nil, noKey(r, err)
}

func noKey(r *v1alpha1.KeyReference, err error) error {
	if err != nil {
		return fmt.Errorf("read %s/%s: %w", r.Namespace, r.Name, err)
	}
	return fmt.Errorf("read %s/%s: there is no such object, or it has no key %q", r.Namespace, r.Name, r.Key)
}
