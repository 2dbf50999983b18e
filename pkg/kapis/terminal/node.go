package terminal

import (
	"context"
	"errors"
	"net/http"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
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
	"kapis.dev/ks-apiserver/pkg/terminal/shellpod"
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

var nodesResource = schema.GroupResource{Resource: "nodes"}

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
	if !shellpod.IsUID(u.GetUID()) {
		return nil, status.Forbiddenf("shells on nodes are for users whose UID is known here, which that of %.200q is not: log in", u.GetName())
	}
	leave, err := h.Nodes.Limits.Enter(u.GetName())
	if err != nil {
		return nil, err
	}
	decision := authz.DecisionFrom(exec.Context())
	decision.Group = nodeshell.Group
	return &openedNode{h, decision, nodeshell.Shell{Node: info.Name, Image: h.Nodes.Image, Profile: h.Nodes.Profile, User: u.GetName(),
		UID: u.GetUID(), FromHub: terminal.FromHub(ctx), Command: terminal.Shell(r.Request.URL.Query().Get("shell")), Max: h.Max}, leave}, nil
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
	o.guarded(w, r, terminal.Subject{Node: o.shell.Node}, func(over *http.Request, rec terminal.Recording) { o.serve(w, r, over, rec) })
}

func (o *openedNode) serve(w http.ResponseWriter, r, over *http.Request, rec terminal.Recording) {
	over = over.WithContext(authz.WithDecision(over.Context(), o.decision))
	p := &nodePod{o.Nodes, shellPod{asCaller: o.Nodes.AsCaller, request: over, namespace: nodeshell.Namespace}, o.Executor}
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
	attach, err := p.post(over.Context(), "attach", terminal.AttachQuery(nodeshell.Container))
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	defer during(over.Context(), p.renewUntil)()
	o.run(w, over, attach, p, rec, "")
}

// nodePod is the pod of one shell. It is a terminal.Executor that waits for the pod to run.
type nodePod struct {
	*Nodes
	shellPod
	by terminal.Executor
}

// create makes the pod and its Lease.
func (p *nodePod) create(s nodeshell.Shell) error {
	made, err := p.shellPod.create(s.Pod())
	if err != nil {
		return err
	}
	return p.lease(p.request.Context(), made)
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
	err := await(ctx, p.Timeout, func() (*corev1.Pod, bool, error) {
		pod, err := p.get(ctx)
		if err != nil {
			return nil, false, err
		}
		switch pod.Status.Phase {
		case corev1.PodRunning:
			return pod, true, nil
		case corev1.PodFailed, corev1.PodSucceeded:
			return pod, false, status.Errorf(http.StatusNotFound, "the pod of the shell has ended before it could be used: %s", trouble(pod))
		}
		return pod, false, nil
	})
	if late := (*lateError)(nil); errors.As(err, &late) {
		return status.Errorf(http.StatusNotFound, "%v (terminal.node.timeout)", late)
	}
	return err
}
