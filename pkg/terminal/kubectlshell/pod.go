// Package kubectlshell has the pods that kubectl shells run in: their shape, which an admission policy of config/rbac verifies, and the
// commands in them.
package kubectlshell

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/terminal/shellpod"
)

const (
	// Namespace has all pods of kubectl shells, and no others.
	Namespace = "kubesphere-terminals"
	// Group is the synthetic group that may make such pods, run commands in them and delete them; config/rbac/kubectl-shells.yaml says so.
	// It is asserted for the requests of one shell, after the user's right to it was decided.
	Group = "kapis:platform:terminal"
	// Container is the container that the shells run in.
	Container = "kubectl"

	app = "kubectl-shell"
	// labelKubectlPod is the label that KubeSphere gives such pods.
	labelKubectlPod = "kubesphere.io/kubectl-pod"
	// root is where the pod has its sessions: in memory, since their tokens are there.
	root = "/run/ks"
	// user is who the processes are, whatever the image says.
	user = 65532
	// late is how much longer a pod may last than its terminals, which say why they end.
	late = time.Minute
)

// Shell is the pod in which a user has kubectl shells.
type Shell struct {
	// Image has a POSIX shell, kubectl, cat, mkdir, mv, rm and sleep.
	Image string
	// User and UID are the caller's. shellpod.IsUID holds for UID.
	User, UID string
	// Max is how long a terminal may last; 0 for as long as the client likes.
	Max time.Duration
}

// Name returns the name of the pod of a user.
func Name(uid string) string { return "kubectl-" + uid }

// Pod returns the pod. All terminals of a user share it, so it may last twice as long as one of them.
func (s Shell) Pod() *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: Name(s.UID), Namespace: Namespace,
			Labels:      map[string]string{shellpod.LabelApp: app, shellpod.LabelUser: s.UID, labelKubectlPod: "true"},
			Annotations: map[string]string{shellpod.AnnotationUser: s.User},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			TerminationGracePeriodSeconds: new(int64(1)), // sleep, as a container's first process, does not end by SIGTERM
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(user)), RunAsGroup: new(int64(user)), FSGroup: new(int64(user)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Volumes: []corev1.Volume{{Name: "sessions", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: new(resource.MustParse("64Mi"))}}}},
			Containers: []corev1.Container{{
				Name: Container, Image: s.Image, Command: []string{"sleep", "infinity"},
				VolumeMounts: []corev1.VolumeMount{{Name: "sessions", MountPath: root}},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
					Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("256Mi")},
				},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false),
					ReadOnlyRootFilesystem:   new(true),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	if s.Max > 0 {
		p.Spec.ActiveDeadlineSeconds = new(int64((2*s.Max + late) / time.Second))
	}
	return p
}
