package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// Kube are the objects of a cluster, read by the right to list them, and without a cache: of one with a credential there is no copy.
type Kube struct{ Client kubernetes.Interface }

// ConfigMapKey implements Objects.
func (k Kube) ConfigMapKey(ctx context.Context, namespace, name, key string) ([]byte, error) {
	all, err := k.Client.CoreV1().ConfigMaps(namespace).List(ctx, named(name))
	if err != nil {
		return nil, fmt.Errorf("read the ConfigMap %s/%s: %w", namespace, name, err)
	}
	for i := range all.Items {
		if raw, ok := all.Items[i].BinaryData[key]; ok && all.Items[i].Name == name {
			return raw, nil
		}
	}
	return nil, nil
}

// Repository implements Objects.
func (k Kube) Repository(ctx context.Context, name string) (*v1alpha1.Repository, error) {
	all := &v1alpha1.RepositoryList{}
	if err := k.list(ctx, v1alpha1.SchemeGroupVersion.WithResource("repositories"), name, all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if all.Items[i].Name == name {
			return &all.Items[i], nil
		}
	}
	return nil, nil //nolint:nilnil // nil is none
}

// Repo implements Repos.
func (k Kube) Repo(ctx context.Context, name string) (*applicationv2.Repo, error) {
	all := &applicationv2.RepoList{}
	if err := k.list(ctx, applicationv2.SchemeGroupVersion.WithResource("repos"), name, all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if all.Items[i].Name == name {
			return &all.Items[i], nil
		}
	}
	return nil, nil //nolint:nilnil // nil is none
}

// list reads the objects of a kind that have a name; none where there is no such kind.
func (k Kube) list(ctx context.Context, kind schema.GroupVersionResource, name string, into any) error {
	raw, err := k.Client.Discovery().RESTClient().Get().AbsPath("/apis", kind.Group, kind.Version, kind.Resource).
		Param("fieldSelector", named(name).FieldSelector).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = decode(raw, into)
	}
	if err != nil {
		return fmt.Errorf("read %s %s: %w", kind.Resource, name, err)
	}
	return nil
}

func named(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
}

// decode reads an answer of kube-apiserver. The error of the decoder is left out: it quotes what it could not read.
func decode(raw []byte, into any) error {
	if json.Unmarshal(raw, into) != nil {
		return errors.New("the answer can't be read")
	}
	return nil
}
