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

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/terminal"
	"kapis.dev/ks-apiserver/pkg/terminal/nodeshell"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Nodes are the shells on nodes. Each is a pod of its own, which goes with its terminal.
type Nodes struct {
	// Image and Profile are the pods'; see nodeshell.Shell.
	Image   string
	Profile nodeshell.Profile
	// Selector matches the nodes that may have shells.
	Selector labels.Selector
	// Timeout is how long a pod may take to run.
	Timeout time.Duration
	// Node returns a node from the cache, or a 404.
	Node func(ctx context.Context, name string) (*corev1.Node, error)
	// AsCaller makes the pods, as the caller in the group nodeshell.Group.
	AsCaller caller.Client
	// Limits bounds how many there are.
	Limits *terminal.Limiter
}

const (
	podsPath   = "/api/v1/namespaces/" + nodeshell.Namespace + "/pods"
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/" + nodeshell.Namespace + "/leases"
	// pollPod is how often a pod is read that does not run yet.
	pollPod = 500 * time.Millisecond
	// cleanup bounds the deletion of a pod. What is left is deleted by ks-controller-manager.
	cleanup = 10 * time.Second
)

var (
	nodesResource  = schema.GroupResource{Resource: "nodes"}
	podsResource   = schema.GroupResource{Resource: "pods"}
	errNotReadable = errors.New("kube-apiserver's answer is no pod")
)

// openNode answers with a shell on a node. What can be refused without a pod is refused before one is made.
func (h *V1alpha2) openNode(r *restful.Request) (any, error) {
	info, ctx := request.InfoFrom(r.Request.Context()), r.Request.Context()
	if wrong := apivalidation.NameIsDNSSubdomain(info.Name, false); len(wrong) > 0 {
		return nil, status.BadRequestf("%.100q is no name of a node: %s", info.Name, wrong[0])
	}
	exec, err := post(r.Request, "/api/v1/nodes/"+info.Name+"/exec", nil)
	if err != nil {
		return nil, err
	}
	if exec, err = authz.Permit(h.Authorizer, exec); err != nil {
		return nil, err
	}
	if h.Nodes == nil {
		return nil, status.Errorf(http.StatusNotImplemented,
			"there are no shells on nodes here: set terminal.node.image in the configuration to an image that has a shell and nsenter")
	}
	if err := h.checkPage(r.Request); err != nil {
		return nil, err
	}
	if err := h.Nodes.check(ctx, info.Name); err != nil {
		return nil, err
	}
	u := request.UserFrom(ctx)
	if !nodeshell.IsUID(u.GetUID()) {
		return nil, status.Forbiddenf("shells on nodes are for users whose UID is known here, which that of %.200q is not: log in", u.GetName())
	}
	leave, err := h.Nodes.Limits.Enter(u.GetName())
	if err != nil {
		return nil, err
	}
	decision := authz.DecisionFrom(exec.Context())
	decision.Group = nodeshell.Group
	return &openedNode{h, decision, nodeshell.Shell{Node: info.Name, Image: h.Nodes.Image, Profile: h.Nodes.Profile, User: u.GetName(),
		UID: u.GetUID(), Command: terminal.Shell(r.Request.URL.Query().Get("shell")), Max: h.Max}, leave}, nil
}

// check refuses nodes that may have no shell, or can't have one now.
func (n *Nodes) check(ctx context.Context, name string) error {
	node, err := n.Node(ctx, name)
	if err != nil {
		return err
	}
	if !n.Selector.Matches(labels.Set(node.Labels)) {
		return status.Forbiddenf("node %q may have no shells: its labels do not match terminal.node.selector (%s)", name, n.Selector)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return status.About(nodesResource, name, status.Errorf(http.StatusConflict, "node %q is not Ready: no shell can be started there", name))
}

// openedNode is the answer to a request for a shell on a node: the terminal. It is a web.Responder.
type openedNode struct {
	*V1alpha2
	decision authz.Decision
	shell    nodeshell.Shell
	leave    func()
}

// Respond makes the pod, opens the terminal, and returns when it has ended and the pod is deleted.
func (o *openedNode) Respond(w http.ResponseWriter, r *http.Request) {
	defer o.leave()
	s, over, err := o.Streams.Over(w, r)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	defer s.Stop()
	rec, err := o.record(r, terminal.Subject{Node: o.shell.Node})
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	defer rec.End(nil, 0, 0)
	over = over.WithContext(authz.WithDecision(over.Context(), o.decision))
	p := &nodePod{Nodes: o.Nodes, by: o.Executor, request: over}
	// Also where making it has failed: it may be there in part.
	defer p.remove()
	if err := p.create(o.shell); err != nil {
		web.WriteError(w, r, err)
		return
	}
	event := audit.From(r.Context())
	event.Annotate(annotation+"pod", p.name)
	event.Annotate(annotation+"profile", string(o.shell.Profile))
	klog.InfoS("pod of a shell on a node made", "user", o.shell.User, "node", o.shell.Node, "profile", o.shell.Profile, "pod", p.name)
	attach, err := p.attach()
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	ctx, stop := context.WithCancel(over.Context())
	var renewing sync.WaitGroup
	renewing.Go(func() { p.renew(ctx) })
	defer renewing.Wait()
	defer stop()
	o.run(w, over, attach, p, rec)
}

// nodePod is the pod of one shell. It is a terminal.Executor that waits for the pod to run.
type nodePod struct {
	*Nodes
	by terminal.Executor
	// request is that of the shell. Its context has the decision by which all of this is done.
	request   *http.Request
	name, uid string
}

// create makes the pod and its Lease.
func (p *nodePod) create(s nodeshell.Shell) error {
	made, err := p.send(p.request.Context(), http.MethodPost, podsPath, "", s.Pod())
	if err != nil {
		return err
	}
	p.name, p.uid = made.Name, string(made.UID)
	_, err = p.send(p.request.Context(), http.MethodPost, leasesPath, "", nodeshell.Lease(made, time.Now()))
	return err
}

// send sends an object, and returns what is known of a pod in the answer.
func (p *nodePod) send(ctx context.Context, method, path, mediaType string, object any) (*corev1.Pod, error) {
	o := caller.Order{Method: method, Path: path, Type: mediaType, For: p.request, Implied: true}
	if object != nil {
		var err error
		if o.Body, err = json.Marshal(object); err != nil {
			return nil, fmt.Errorf("encode a part of a shell on a node: %w", err)
		}
	}
	answer, err := p.AsCaller.Do(ctx, o)
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

// attach returns the request to attach to the shell.
func (p *nodePod) attach() (*http.Request, error) {
	r, err := post(p.request, podsPath+"/"+url.PathEscape(p.name)+"/attach", terminal.AttachQuery(nodeshell.Container))
	if err != nil {
		return nil, err
	}
	info, err := request.Parse(r)
	if err != nil {
		return nil, err
	}
	return r.WithContext(request.WithInfo(r.Context(), info)), nil
}

// Exec implements terminal.Executor.
func (p *nodePod) Exec(r *http.Request, s terminal.Streams) error {
	if err := p.await(r.Context()); err != nil {
		return err
	}
	return p.by.Exec(r, s)
}

// await waits until the pod runs.
func (p *nodePod) await(ctx context.Context) error {
	late := time.NewTimer(p.Timeout)
	defer late.Stop()
	poll := time.NewTicker(pollPod)
	defer poll.Stop()
	for {
		pod, err := p.send(ctx, http.MethodGet, podsPath+"/"+p.name, "", nil)
		if err != nil {
			return err
		}
		switch pod.Status.Phase {
		case corev1.PodRunning:
			return nil
		case corev1.PodFailed, corev1.PodSucceeded:
			return status.Errorf(http.StatusNotFound, "the pod of the shell has ended before it could be used: %s", trouble(pod))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return status.Errorf(http.StatusNotFound, "the pod of the shell does not run after %v (terminal.node.timeout): %s", p.Timeout,
				trouble(pod))
		case <-poll.C:
		}
	}
}

// trouble returns what kubelet says about a pod that does not run.
func trouble(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			return fmt.Sprintf("%s: %.500s", c.State.Waiting.Reason, c.State.Waiting.Message)
		case c.State.Terminated != nil:
			return fmt.Sprintf("%s (exit status %d): %.500s", c.State.Terminated.Reason, c.State.Terminated.ExitCode, c.State.Terminated.Message)
		}
	}
	if pod.Status.Reason != "" {
		return fmt.Sprintf("%s: %.500s", pod.Status.Reason, pod.Status.Message)
	}
	return "its node says no more"
}

// renew renews the Lease until ctx ends.
func (p *nodePod) renew(ctx context.Context) {
	tick := time.NewTicker(nodeshell.RenewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		renewal := map[string]any{"spec": map[string]any{"renewTime": metav1.NewMicroTime(time.Now())}}
		one, cancel := context.WithTimeout(ctx, nodeshell.RenewEvery)
		_, err := p.send(one, http.MethodPatch, leasesPath+"/"+p.name, "application/merge-patch+json", renewal)
		cancel()
		if err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "the Lease of a shell on a node was not renewed: its pod is deleted unless that succeeds", "pod", p.name, "within",
				nodeshell.LeaseDuration)
		}
	}
}

// remove deletes the pod, which ends the shell.
func (p *nodePod) remove() {
	if p.name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.request.Context()), cleanup)
	defer cancel()
	o, err := caller.Deletion(podsPath+"/"+p.name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(p.uid)}, nil)
	if err == nil {
		o.For, o.Implied = p.request, true
		_, err = p.AsCaller.Do(ctx, o)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		klog.ErrorS(err, "the pod of a shell on a node was not deleted: ks-controller-manager does so", "pod", p.name)
	}
}
