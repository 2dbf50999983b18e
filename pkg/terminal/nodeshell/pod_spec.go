// Package nodeshell has the pods that shells on nodes run in: their shape, which an admission policy of config/rbac verifies.
package nodeshell

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/terminal/shellpod"
)

const (
	// Namespace has all pods of shells on nodes, and no others.
	Namespace = "kubesphere-node-shells"
	// Group is the synthetic group that may make such pods, attach to them and delete them; config/rbac/node-shells.yaml says so. It is
	// asserted for the requests of one shell, after the right to create nodes/exec was decided.
	Group = "kapis:platform:nodeshell"
	// Container is the container that the shell is.
	Container = "shell"
)

const (
	app = "node-shell"
	// hostRoot is where a general shell has the file system of its node.
	hostRoot = "/host"
	// late is how much longer a pod may last than its terminal, which says why it ends.
	late = time.Minute
)

// Profile is what a shell may do on its node.
type Profile string

const (
	// Sysadmin is root on the node: a privileged container that enters the namespaces of the node's first process.
	Sysadmin Profile = "sysadmin"
	// Netadmin configures the node's network: it has the capabilities NET_ADMIN and NET_RAW in the network namespace of the node.
	Netadmin Profile = "netadmin"
	// General sees the processes of the node, and reads its files below /host.
	General Profile = "general"
)

// Shell is a shell on a node.
type Shell struct {
	// Node is the name of the node, and Image has the programs: a shell, and nsenter (util-linux) for Sysadmin.
	Node, Image string
	Profile     Profile
	// User and UID are the caller's. shellpod.IsUID holds for UID.
	User, UID string
	// FromHub says that the hub of the fleet has named the caller.
	FromHub bool
	// Command is the shell with its arguments.
	Command []string
	// Max is how long it may last; 0 for as long as the client likes.
	Max time.Duration
}

// NamePrefix is how the names of the pods of a user begin; five characters follow.
func NamePrefix(uid string) string { return app + "-" + uid + "-" }

// Pod returns the pod of a shell, whose name kube-apiserver generates.
func (s Shell) Pod() *corev1.Pod {
	shell := corev1.Container{Name: Container, Image: s.Image, Stdin: true, StdinOnce: true, TTY: true}
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: NamePrefix(s.UID), Namespace: Namespace,
			Labels:      map[string]string{shellpod.LabelApp: app, shellpod.LabelUser: s.UID},
			Annotations: map[string]string{shellpod.AnnotationUser: s.User},
		},
		Spec: corev1.PodSpec{
			NodeName:                      s.Node,
			RestartPolicy:                 corev1.RestartPolicyNever,
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			TerminationGracePeriodSeconds: new(int64(1)), // shells don't end by SIGTERM
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	if s.FromHub {
		p.Annotations[shellpod.AnnotationFromHub] = "true"
	}
	if s.Max > 0 {
		p.Spec.ActiveDeadlineSeconds = new(int64((s.Max + late) / time.Second))
	}
	s.Profile.apply(&p.Spec, &shell, s.Command)
	p.Spec.Containers = []corev1.Container{shell}
	return p
}

// apply gives a pod what distinguishes the profile from others. The admission policy has the same.
func (p Profile) apply(pod *corev1.PodSpec, shell *corev1.Container, command []string) {
	shell.Command = command
	if p == Sysadmin {
		pod.HostPID = true
		shell.Command = append([]string{"nsenter", "-m", "-u", "-i", "-n", "-p", "-t", "1", "--"}, command...)
		shell.SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		return
	}
	shell.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		RunAsUser:                new(int64(0)),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if p == Netadmin {
		pod.HostNetwork = true
		shell.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN", "NET_RAW"}
		return
	}
	pod.HostPID = true
	pod.Volumes = []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
	shell.VolumeMounts = []corev1.VolumeMount{{Name: "host", MountPath: hostRoot, ReadOnly: true,
		RecursiveReadOnly: new(corev1.RecursiveReadOnlyIfPossible)}}
}
