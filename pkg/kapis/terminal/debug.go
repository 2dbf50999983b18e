package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/terminal"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// debugTimeout is how long a container that is added to a pod may take to run: its image may have to be pulled.
	debugTimeout = 2 * time.Minute
	// attachEvery is how often it is tried to attach to one whose terminal is over.
	attachEvery = time.Second
)

// Debug is for containers that have no shell: a container with one is added to the pod, in the namespace of processes of the other.
type Debug struct {
	// Images are those that such a container may have; none for no such containers.
	Images []string
	// AsCaller adds the containers.
	AsCaller caller.Client
}

// hint tells people whose container has no shell what to do; "" for nothing.
func (d *Debug) hint() string {
	if len(d.Images) == 0 {
		return ""
	}
	return "if it has no shell, the parameter debug=" + d.Images[0] + " adds a container that has one"
}

// openDebug answers with a shell in a container that is added to a pod for one of its containers. It takes the right to each of the steps,
// besides that to exec.
func (h *V1alpha2) openDebug(in *http.Request, target, image, shell string) (*openedDebug, error) {
	info := request.InfoFrom(in.Context())
	switch {
	case len(h.Debug.Images) == 0:
		return nil, status.Errorf(http.StatusNotImplemented,
			"no containers are added to pods here: set terminal.debugImages in the configuration to images that have a shell")
	case !slices.Contains(h.Debug.Images, image):
		return nil, status.Forbiddenf("a container of the image %.200q may not be added: the parameter debug is one of %q", image, h.Debug.Images)
	case target == "":
		return nil, status.BadRequestf("the parameter debug needs the parameter container: the container whose processes are to be seen")
	}
	o := &openedDebug{V1alpha2: h, pod: "/api/v1/namespaces/" + info.Namespace + "/pods/" + info.Name, request: in, image: image}
	pod, err := o.send(in.Context(), http.MethodGet, "", nil)
	if err != nil {
		return nil, err
	}
	o.container, err = debugContainer(pod, target, image, terminal.Shell(shell))
	if err != nil {
		return nil, err
	}
	attach, err := post(in, o.pod+"/attach", terminal.AttachQuery(o.container.Name))
	if err != nil {
		return nil, err
	}
	if o.attach, err = authz.Permit(h.Authorizer, attach); err != nil {
		return nil, err
	}
	return o, nil
}

// debugContainer returns a container as the Pod Security Standard "restricted" has them, of the user of the target, if the pod says which.
func debugContainer(pod *corev1.Pod, target, image string, command []string) (*corev1.EphemeralContainer, error) {
	n := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == target })
	if n < 0 {
		return nil, status.About(podsResource, pod.Name, status.Errorf(http.StatusNotFound, "pod %q has no container %q", pod.Name, target))
	}
	security := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		RunAsNonRoot:             new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if own := pod.Spec.Containers[n].SecurityContext; own != nil && own.RunAsUser != nil && *own.RunAsUser != 0 {
		security.RunAsUser, security.RunAsGroup = own.RunAsUser, own.RunAsGroup // whose processes it may look into
	}
	return &corev1.EphemeralContainer{TargetContainerName: target, EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug-" + rand.String(5), Image: image, Command: command, Stdin: true, StdinOnce: true, TTY: true, SecurityContext: security,
	}}, nil
}

// openedDebug is the answer to a request for a shell in a container that is added to a pod: the terminal. It is a web.Responder, and the
// terminal.Executor that waits for the container to run.
type openedDebug struct {
	*V1alpha2
	pod       string // its path
	image     string
	container *corev1.EphemeralContainer
	request   *http.Request
	attach    *http.Request
	ends      bool // the container: it has ended, or does with the terminal that is attached to it
	leave     func()
}

// Respond adds the container, opens the terminal, and returns when it has ended. The container ends with it, and is listed in the pod
// until that is gone: Kubernetes removes none.
func (o *openedDebug) Respond(w http.ResponseWriter, r *http.Request) {
	leave := o.leave
	defer func() { leave() }()
	info := request.InfoFrom(r.Context())
	subject := terminal.Subject{Namespace: info.Namespace, Pod: info.Name, Container: o.container.Name}
	o.guarded(w, r, subject, func(over *http.Request, rec terminal.Recording) {
		patch := map[string]any{"spec": map[string]any{"ephemeralContainers": []any{o.container}}}
		if _, err := o.send(over.Context(), http.MethodPatch, "/ephemeralcontainers", patch); err != nil {
			web.WriteError(w, r, err)
			return
		}
		audit.From(r.Context()).Annotate(annotation+"debug", o.image)
		klog.InfoS("container of a terminal added", "user", request.UserFrom(r.Context()).GetName(), "namespace", info.Namespace,
			"pod", info.Name, "container", o.container.Name, "target", o.container.TargetContainerName)
		o.run(w, over, within(over.Context(), o.attach), o, rec, "")
		if !o.ends {
			go o.endUnattached(context.WithoutCancel(over.Context()), leave)
			leave = func() {}
		}
	})
}

// endUnattached ends the container of a terminal that was over before it could be attached, as while the image was pulled: its input ends
// with what is attached first, and until then it runs, as long as the pod. The decisions are those of the opening, and the terminal counts
// as open meanwhile.
func (o *openedDebug) endUnattached(ctx context.Context, leave func()) {
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, debugTimeout)
	defer cancel()
	again := time.NewTicker(attachEvery)
	defer again.Stop()
	for {
		var started atomic.Bool
		err := o.Executor.Exec(within(ctx, o.attach), terminal.Streams{Stdin: strings.NewReader(""), Stdout: io.Discard, TTY: true,
			Started: func() { started.Store(true) }})
		if started.Load() {
			return
		}
		select {
		case <-ctx.Done():
			klog.InfoS("container of a terminal that is over was not ended: it may run until its pod is gone", "pod", o.pod,
				"container", o.container.Name, "reason", err)
			return
		case <-again.C:
		}
	}
}

// send sends an order for the pod as the caller, by a decision of its own, and returns the pod in the answer.
func (o *openedDebug) send(ctx context.Context, method, subresource string, body any) (*corev1.Pod, error) {
	order := caller.Order{Method: method, Path: o.pod + subresource, For: o.request}
	if body != nil {
		var err error
		if order.Body, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode the container of a terminal: %w", err)
		}
		order.Type = string(types.StrategicMergePatchType)
	}
	answer, err := o.Debug.AsCaller.Do(ctx, order)
	if err != nil {
		return nil, err
	}
	text, err := answer.Shown(podsResource)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if json.Unmarshal([]byte(text.String()), pod) != nil || pod.Name == "" {
		return nil, errNotReadable
	}
	return pod, nil
}

// Exec implements terminal.Executor.
func (o *openedDebug) Exec(r *http.Request, s terminal.Streams) error {
	ctx := r.Context()
	err := await(ctx, debugTimeout, func() (*corev1.Pod, bool, error) {
		pod, err := o.send(ctx, http.MethodGet, "", nil)
		if err != nil {
			return nil, false, err
		}
		own := slices.DeleteFunc(pod.Status.EphemeralContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name != o.container.Name })
		pod.Status = corev1.PodStatus{ContainerStatuses: own} // of which trouble tells
		switch {
		case len(own) == 0:
			return pod, false, nil
		case own[0].State.Terminated != nil:
			o.ends = true
			return pod, false, status.Errorf(http.StatusNotFound, "the container %s has ended before it could be used: %s", o.container.Name,
				trouble(pod))
		}
		return pod, own[0].State.Running != nil, nil
	})
	if late := (*lateError)(nil); errors.As(err, &late) {
		return status.Errorf(http.StatusNotFound, "the container %s does not run after %v: %s", o.container.Name, late.within, late.trouble)
	}
	if err != nil {
		return err
	}
	o.ends = true
	return o.Executor.Exec(r, s)
}
