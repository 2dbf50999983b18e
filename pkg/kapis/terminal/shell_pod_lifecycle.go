package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/terminal/shellpod"
)

const (
	// pollPod is how often a pod is read that does not run yet.
	pollPod = 500 * time.Millisecond
	// cleanup bounds the deletion of a pod. What is left is deleted by ks-controller-manager.
	cleanup = 10 * time.Second
)

var (
	podsResource   = schema.GroupResource{Resource: "pods"}
	errNotReadable = errors.New("kube-apiserver's answer is no pod")
)

// shellPod is a pod that a shell is in, with its Lease. All is done as the caller of request, by the decision in its context.
type shellPod struct {
	asCaller caller.Client
	// request is that of the shell.
	request         *http.Request
	namespace, name string

	mu  sync.Mutex
	uid string // "" until there is a pod
}

// is notes which pod has the name now.
func (p *shellPod) is(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name, p.uid = pod.Name, string(pod.UID)
}

// known returns the name and the UID of the pod, which are empty if there was none yet.
func (p *shellPod) known() (name, uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name, p.uid
}

func (p *shellPod) pods() string { return "/api/v1/namespaces/" + p.namespace + "/pods" }

func (p *shellPod) leases() string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + p.namespace + "/leases"
}

// create makes the pod.
func (p *shellPod) create(pod *corev1.Pod) (*corev1.Pod, error) {
	made, err := p.send(p.request.Context(), http.MethodPost, p.pods(), "", pod)
	if err == nil {
		p.is(made)
	}
	return made, err
}

// lease makes the Lease of the pod.
func (p *shellPod) lease(ctx context.Context, of *corev1.Pod) error {
	_, err := p.send(ctx, http.MethodPost, p.leases(), "", shellpod.Lease(of, time.Now()))
	return err
}

// send sends an object, and returns what is known of a pod in the answer.
func (p *shellPod) send(ctx context.Context, method, path, mediaType string, object any) (*corev1.Pod, error) {
	o := caller.Order{Method: method, Path: path, Type: mediaType, For: p.request, Implied: true}
	if object != nil {
		var err error
		if o.Body, err = json.Marshal(object); err != nil {
			return nil, fmt.Errorf("encode a part of a shell's pod: %w", err)
		}
	}
	answer, err := p.asCaller.Do(ctx, o)
	if err != nil {
		return nil, err
	}
	text, err := answer.Shown(podsResource)
	if err != nil {
		return nil, err
	}
	var pod corev1.Pod
	if json.Unmarshal([]byte(text.String()), &pod) != nil || pod.Name == "" || pod.UID == "" {
		return nil, errNotReadable
	}
	return &pod, nil
}

// post returns a POST to a subresource of the pod, authorized by the decision in the request's context.
func (p *shellPod) post(ctx context.Context, subresource string, query url.Values) (*http.Request, error) {
	name, _ := p.known()
	r, err := post(p.request.WithContext(ctx), p.pods()+"/"+url.PathEscape(name)+"/"+subresource, query)
	if err != nil {
		return nil, err
	}
	info, err := request.Parse(r)
	if err != nil {
		return nil, err
	}
	return r.WithContext(request.WithInfo(r.Context(), info)), nil
}

// get reads the pod.
func (p *shellPod) get(ctx context.Context) (*corev1.Pod, error) {
	name, _ := p.known()
	return p.send(ctx, http.MethodGet, p.pods()+"/"+name, "", nil)
}

// lateError says that a pod did not run in time.
type lateError struct {
	within  time.Duration
	trouble string
}

func (e *lateError) Error() string {
	return fmt.Sprintf("the pod of the shell does not run after %v: %s", e.within, e.trouble)
}

// await calls look, now and again, until that is done or has failed, and fails if it takes too long. look returns the pod, if there is one.
func await(ctx context.Context, within time.Duration, look func() (pod *corev1.Pod, done bool, err error)) error {
	late := time.NewTimer(within)
	defer late.Stop()
	poll := time.NewTicker(pollPod)
	defer poll.Stop()
	for {
		pod, done, err := look()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return &lateError{within, trouble(pod)}
		case <-poll.C:
		}
	}
}

// trouble returns what kubelet says about a pod that does not run.
func trouble(pod *corev1.Pod) string {
	if pod == nil {
		return "there is none"
	}
	for _, c := range pod.Status.ContainerStatuses {
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			return fmt.Sprintf("%s: %.500s", c.State.Waiting.Reason, c.State.Waiting.Message)
		case c.State.Terminated != nil:
			return fmt.Sprintf("%s (exit status %d): %.500s", c.State.Terminated.Reason, c.State.Terminated.ExitCode, c.State.Terminated.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("%s: %.500s", c.Reason, c.Message)
		}
	}
	if pod.Status.Reason != "" {
		return fmt.Sprintf("%s: %.500s", pod.Status.Reason, pod.Status.Message)
	}
	return "its node says no more"
}

// renewUntil renews the Lease until ctx ends.
func (p *shellPod) renewUntil(ctx context.Context) {
	tick := time.NewTicker(shellpod.RenewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		one, cancel := context.WithTimeout(ctx, shellpod.RenewEvery)
		err := p.renew(one)
		cancel()
		if err != nil && ctx.Err() == nil {
			name, _ := p.known()
			klog.ErrorS(err, "the Lease of a shell was not renewed: its pod is deleted unless that succeeds", "namespace", p.namespace, "pod", name,
				"within", shellpod.LeaseDuration)
		}
	}
}

// renew renews the Lease, or makes it: that of a former pod of this name goes with that one.
func (p *shellPod) renew(ctx context.Context) error {
	name, uid := p.known()
	renewal := map[string]any{"spec": map[string]any{"renewTime": metav1.NewMicroTime(time.Now())}}
	_, err := p.send(ctx, http.MethodPatch, p.leases()+"/"+name, "application/merge-patch+json", renewal)
	if apierrors.IsNotFound(err) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.namespace, UID: types.UID(uid)}}
		err = p.lease(ctx, pod)
	}
	return err
}

// during does work until the function that it returns is called, which returns when the work has ended.
func during(ctx context.Context, work ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	for _, one := range work {
		working.Go(func() { one(ctx) })
	}
	return func() {
		cancel()
		working.Wait()
	}
}

// remove deletes the pod, which ends what runs there.
func (p *shellPod) remove() {
	name, uid := p.known()
	if uid == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.request.Context()), cleanup)
	defer cancel()
	if err := p.delete(ctx, uid); err != nil && !apierrors.IsNotFound(err) {
		klog.ErrorS(err, "the pod of a shell was not deleted: ks-controller-manager does so", "namespace", p.namespace, "pod", name)
	}
}

// delete deletes the pod of that UID.
func (p *shellPod) delete(ctx context.Context, uid string) error {
	name, _ := p.known()
	o, err := caller.Deletion(p.pods()+"/"+name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(uid)}, nil)
	if err != nil {
		return err
	}
	o.For, o.Implied = p.request, true
	_, err = p.asCaller.Do(ctx, o)
	return err
}
