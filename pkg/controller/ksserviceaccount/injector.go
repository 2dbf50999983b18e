package ksserviceaccount

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// InjectorPath is the path of the Injector's webhook.
const InjectorPath = "/serviceaccount-pod-injector"

const (
	// MountPath is the folder with the file token in a pod's containers.
	MountPath  = "/var/run/secrets/kubesphere.io/serviceaccount"
	volumeName = "kubesphere-service-account"
	readable   = int32(0o444)
)

// Injector mounts the token of the service account that the annotation kubesphere.io/serviceaccount-name names into new pods,
// as a file. Pods are not restarted: the kubelet updates a replaced token.
type Injector struct {
	// Client reads service accounts from the cache, and Live without it.
	Client, Live client.Reader
}

var _ admission.Handler = (*Injector)(nil)

// Handle implements admission.Handler.
func (i *Injector) Handle(ctx context.Context, req admission.Request) admission.Response {
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(req.Object.Raw, &meta); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the pod of the request: %w", err))
	}
	name := meta.Annotations[v1alpha1.AnnotationPodServiceAccount]
	if name == "" {
		return admission.Allowed("")
	}
	a, err := i.account(ctx, types.NamespacedName{Namespace: req.Namespace, Name: name})
	switch {
	case apierrors.IsNotFound(err):
		return admission.Denied(fmt.Sprintf("the annotation %s names the service account %q, which the namespace does not have",
			v1alpha1.AnnotationPodServiceAccount, name))
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	case len(a.Secrets) == 0:
		return admission.Errored(http.StatusServiceUnavailable, fmt.Errorf("the service account %q has no token yet; try again", name))
	}
	pod := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(req.Object.Raw))
	dec.UseNumber()
	err = dec.Decode(&pod)
	if err == nil {
		err = mount(pod, a.Secrets[0].Name)
	}
	if err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("give the pod its token: %w", err))
	}
	raw, err := json.Marshal(pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("write the pod: %w", err))
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, raw)
}

func (i *Injector) account(ctx context.Context, key types.NamespacedName) (*v1alpha1.ServiceAccount, error) {
	a := &v1alpha1.ServiceAccount{}
	if err := i.Client.Get(ctx, key, a); err == nil && len(a.Secrets) > 0 {
		return a, nil
	}
	if err := i.Live.Get(ctx, key, a); err != nil {
		return nil, fmt.Errorf("read service account %s: %w", key, err)
	}
	return a, nil
}

// mount adds a Secret's token to all containers. A container that mounts something at the path keeps it. The pod is edited as a map: a
// newer kube-apiserver has fields that the type lacks.
func mount(pod map[string]any, secret string) error {
	spec, ok := pod["spec"].(map[string]any)
	if !ok {
		return errors.New("spec: it has to be an object")
	}
	volumes, err := list(spec, "volumes")
	if err != nil {
		return err
	}
	spec["volumes"] = append(slices.DeleteFunc(volumes, func(v any) bool { return field(v, "name") == volumeName }), map[string]any{
		"name": volumeName, "secret": map[string]any{
			"secretName": secret, "defaultMode": readable, "items": []any{map[string]any{"key": v1alpha1.ServiceAccountTokenKey, "path": "token"}},
		},
	})
	for _, kind := range []string{"initContainers", "containers"} {
		containers, err := list(spec, kind)
		if err != nil {
			return err
		}
		for _, one := range containers {
			c, ok := one.(map[string]any)
			if !ok {
				return fmt.Errorf("spec.%s: they have to be objects", kind)
			}
			mounts, err := list(c, "volumeMounts")
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(mounts, func(m any) bool { return field(m, "mountPath") == MountPath }) {
				c["volumeMounts"] = append(mounts, map[string]any{"name": volumeName, "mountPath": MountPath, "readOnly": true})
			}
		}
	}
	return nil
}

// list returns a list of an object; nil if there is none.
func list(of map[string]any, name string) ([]any, error) {
	switch l := of[name].(type) {
	case nil:
		return nil, nil
	case []any:
		return l, nil
	}
	return nil, fmt.Errorf("%s: it has to be a list", name)
}

// field returns a text of an object; "" if there is none.
func field(of any, name string) string {
	o, _ := of.(map[string]any)
	text, _ := o[name].(string)
	return text
}
