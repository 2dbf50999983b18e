package ksserviceaccount

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// InjectorPath is where kube-apiserver asks the Injector.
const InjectorPath = "/serviceaccount-pod-injector"

const (
	// MountPath is the folder in which a pod's containers find the file token.
	MountPath  = "/var/run/secrets/kubesphere.io/serviceaccount"
	volumeName = "kubesphere-service-account"
	readable   = int32(0o444)
)

// Injector gives new pods with the annotation kubesphere.io/serviceaccount-name the token of that service account, as a file.
// Pods are not restarted: the kubelet brings a token that was replaced.
type Injector struct {
	// Client reads service accounts from the cache, Live past it.
	Client, Live client.Reader
}

var _ admission.Handler = (*Injector)(nil)

// Handle answers kube-apiserver.
func (i *Injector) Handle(ctx context.Context, req admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(req.Object.Raw, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the pod of the request: %w", err))
	}
	name, asked := pod.Annotations[v1alpha1.AnnotationPodServiceAccount]
	if !asked || name == "" {
		return admission.Allowed("")
	}
	a, err := i.account(ctx, types.NamespacedName{Namespace: req.Namespace, Name: name})
	switch {
	case apierrors.IsNotFound(err):
		return admission.Denied(fmt.Sprintf("the annotation %s names the service account %q, which the namespace does not have", v1alpha1.AnnotationPodServiceAccount, name))
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	case len(a.Secrets) == 0:
		return admission.Errored(http.StatusServiceUnavailable, fmt.Errorf("the service account %q has no token yet; try again", name))
	}
	mount(pod, a.Secrets[0].Name)
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

// mount puts a Secret's token into all containers. A container that has something there keeps it.
func mount(pod *corev1.Pod, secret string) {
	mode := readable
	volume := corev1.Volume{Name: volumeName, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: secret, DefaultMode: &mode, Items: []corev1.KeyToPath{{Key: v1alpha1.ServiceAccountTokenKey, Path: "token"}},
	}}}
	pod.Spec.Volumes = append(slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volumeName }), volume)
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == MountPath }) {
				c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volumeName, MountPath: MountPath, ReadOnly: true})
			}
		}
	}
}
