package terminal

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/terminal"
	"kapis.dev/ks-apiserver/pkg/terminal/kubectlshell"
	"kapis.dev/ks-apiserver/pkg/terminal/shellpod"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Kubectl are the kubectl shells. All that a user has at a time share a pod, which goes when nobody has renewed its Lease for a while.
type Kubectl struct {
	// Image is the pods'; see kubectlshell.Shell.
	Image string
	// Timeout is how long a pod may take to run.
	Timeout time.Duration
	// Target returns the server that kubectl calls, or an error that says what has to be configured for one.
	Target func() (kubectlshell.Target, error)
	// Logins are those of the shells.
	Logins *Logins
	// AsCaller makes the pods, as the caller in the group kubectlshell.Group.
	AsCaller caller.Client
	// Limits bounds how many there are.
	Limits *terminal.Limiter
}

const (
	// writeTimeout bounds the commands that write a credential and remove it.
	writeTimeout = 10 * time.Second
	// readyTimeout bounds how long a request without a terminal waits for the pod.
	readyTimeout = 30 * time.Second
)

// kubectlPath is the address of a user's shells, and of the pod that older clients ask for.
const kubectlPath = "/users/{user}/kubectl"

// MountOlder adds the route by which clients of older releases ask for the pod, to the WebService of resources.kubesphere.io/v1alpha2.
func (h *V1alpha2) MountOlder(ws *restful.WebService) {
	ws.Route(ws.GET(kubectlPath).To(web.Handle(h.readyKubectl)).Operation("getUserKubectlPod").
		Doc("Makes the pod of the caller's kubectl shells ready, and answers which it is: a shell there is one with kubectl").
		Param(ws.PathParameter("user", "name of the caller")).Writes(kubectlPodName{}))
}

// kubectlPodName is what older clients open a terminal with.
type kubectlPodName struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
}

// OwnShell returns the right that decides about a request for the caller's own kubectl shells, which each address of them has: that of
// this group. It is nil for any other request.
func OwnShell(u user.Info, r *request.Info) *request.Info {
	if u == nil || r == nil || r.IsKubernetes || !r.IsResource || r.Workspace != "" || r.Verb != "get" {
		return nil
	}
	older := r.APIGroup == "resources.kubesphere.io" && r.Resource == "users" && r.Subresource == "kubectl" && r.Name != "" &&
		r.Namespace == ""
	if !older && (r.APIGroup != group || !isOwnPod(u, r)) {
		return nil
	}
	own := *r
	own.APIGroup, own.APIVersion, own.Resource, own.Subresource = group, version, "users", "kubectl"
	own.Namespace, own.Scope = "", request.Cluster
	if !older {
		own.Name = u.GetName()
	}
	return &own
}

// isOwnPod reports whether a request is for a terminal in the pod of the caller's kubectl shells.
func isOwnPod(u user.Info, r *request.Info) bool {
	return r.Resource == "pods" && r.Namespace == kubectlshell.Namespace && (r.Subresource == "" || r.Subresource == "exec") &&
		shellpod.IsUID(u.GetUID()) && r.Name == kubectlshell.Name(u.GetUID())
}

// openKubectl answers with a kubectl shell.
func (h *V1alpha2) openKubectl(r *restful.Request) (any, error) {
	if name := request.InfoFrom(r.Request.Context()).Name; name != request.UserFrom(r.Request.Context()).GetName() {
		return nil, notOwn(name)
	}
	return h.openOwnShell(r.Request)
}

func notOwn(name string) error {
	return status.Forbiddenf("a kubectl shell has the rights of the user who opens it: nobody opens one for %.200q", name)
}

// openOwnShell answers with a kubectl shell of the caller. All that can be refused without a pod is refused before one is made.
func (h *V1alpha2) openOwnShell(r *http.Request) (any, error) {
	if h.Kubectl == nil {
		return nil, noKubectl()
	}
	if err := h.checkPage(r); err != nil {
		return nil, err
	}
	login, err := h.Kubectl.check(r)
	if err != nil {
		return nil, err
	}
	leave, err := h.Kubectl.Limits.Enter(request.UserFrom(r.Context()).GetName())
	if err != nil {
		return nil, err
	}
	return &openedKubectl{h, &shellLogin{Logins: h.Kubectl.Logins, in: login, request: r}, r.URL.Query().Get("shell"), leave}, nil
}

func noKubectl() error {
	return status.Errorf(http.StatusNotImplemented,
		"there are no kubectl shells here: set terminal.kubectl.image in the configuration to an image that has a shell and kubectl")
}

// check refuses callers who can't have a shell, and returns the session of the others.
func (k *Kubectl) check(r *http.Request) (login *session.Session, err error) {
	if login, err = loginOf(r); err != nil {
		return nil, err
	}
	if !shellpod.IsUID(login.UserUID) {
		return nil, status.Forbiddenf("kubectl shells are for users whose UID is known here, which that of %.200q is not", login.User)
	}
	_, err = k.Target()
	return login, err
}

// readyKubectl answers which pod a kubectl shell is in, once it runs.
func (h *V1alpha2) readyKubectl(r *restful.Request) (any, error) {
	ctx := r.Request.Context()
	if name := request.InfoFrom(ctx).Name; name != request.UserFrom(ctx).GetName() {
		return nil, notOwn(name)
	}
	if h.Kubectl == nil {
		return nil, noKubectl()
	}
	if web.IsHead(r.Request) {
		return nil, status.BadRequestf("a pod is made for a GET")
	}
	login, err := h.Kubectl.check(r.Request)
	if err != nil {
		return nil, err
	}
	leave, err := h.Kubectl.Limits.Enter(login.User)
	if err != nil {
		return nil, err
	}
	defer leave()
	p := h.kubectlPod(r.Request, &shellLogin{in: login})
	if _, _, err = p.look(p.request.Context()); err == nil {
		err = p.await(p.request.Context(), min(p.Timeout, readyTimeout))
	}
	if late := (*lateError)(nil); errors.As(err, &late) {
		return nil, status.RetryAfter(5, status.Errorf(http.StatusServiceUnavailable, "%v", late))
	}
	return kubectlPodName{kubectlshell.Namespace, p.name, kubectlshell.Container}, err
}

// openedKubectl is the answer to a request for a kubectl shell: the terminal. It is a web.Responder.
type openedKubectl struct {
	*V1alpha2
	login *shellLogin
	shell string
	leave func()
}

// Respond makes the pod if there is none, opens the terminal, and returns when that has ended. The pod stays for the next one.
func (o *openedKubectl) Respond(w http.ResponseWriter, r *http.Request) {
	defer o.leave()
	subject := terminal.Subject{Namespace: kubectlshell.Namespace, Pod: kubectlshell.Name(o.login.in.UserUID), Container: kubectlshell.Container}
	o.guarded(w, r, subject, func(over *http.Request, rec terminal.Recording) { o.serve(w, r, over, rec) })
}

func (o *openedKubectl) serve(w http.ResponseWriter, r, over *http.Request, rec terminal.Recording) {
	p := o.kubectlPod(over, o.login)
	ctx := p.request.Context()
	if _, _, err := p.look(ctx); err != nil {
		web.WriteError(w, r, err)
		return
	}
	audit.From(r.Context()).Annotate(annotation+"pod", p.name)
	exec, err := p.post(ctx, "exec", p.session.ShellQuery(o.shell))
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	defer p.close()
	defer during(ctx, p.renewUntil)()
	o.run(w, p.request, exec, p, rec, "")
}

// kubectlPod returns the pod of a user's shells, for one of them.
func (h *V1alpha2) kubectlPod(r *http.Request, login *shellLogin) *kubectlPod {
	decision := authz.DecisionFrom(r.Context())
	decision.Group = kubectlshell.Group
	r = r.WithContext(authz.WithDecision(r.Context(), decision))
	return &kubectlPod{Kubectl: h.Kubectl, by: h.Executor, login: login, session: kubectlshell.NewSession(),
		shellPod: shellPod{asCaller: h.Kubectl.AsCaller, request: r, namespace: kubectlshell.Namespace,
			name: kubectlshell.Name(login.in.UserUID)},
		shell: kubectlshell.Shell{Image: h.Kubectl.Image, User: login.in.User, UID: login.in.UserUID, Max: h.Max}}
}

// kubectlPod is the pod of a user's shells, as one of them sees it. It is a terminal.Executor that waits for the pod to run, and logs the
// shell in.
type kubectlPod struct {
	*Kubectl
	shellPod
	by      terminal.Executor
	shell   kubectlshell.Shell
	login   *shellLogin
	session kubectlshell.Session
}

// look returns the pod, and whether it runs. It makes the pod if there is none, and deletes one that has ended; a pod that was made here
// and has ended is an error.
func (p *kubectlPod) look(ctx context.Context) (*corev1.Pod, bool, error) {
	_, mine := p.known()
	pod, err := p.get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return p.make(ctx)
	case err != nil:
		return nil, false, err
	case pod.Labels[shellpod.LabelUser] != p.shell.UID:
		return nil, false, status.Errorf(http.StatusConflict, "the pod %s/%s is another user's", p.namespace, p.name)
	case pod.DeletionTimestamp != nil:
		return pod, false, nil // another one is made when it is gone
	}
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	switch {
	case ended && mine == string(pod.UID):
		return nil, false, status.Errorf(http.StatusNotFound, "the pod of the shell has ended before it could be used: %s", trouble(pod))
	case ended:
		if err := p.delete(ctx, string(pod.UID)); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return nil, false, err
		}
		return pod, false, nil
	case mine != string(pod.UID):
		p.is(pod)
		if err := p.renew(ctx); err != nil {
			return nil, false, err
		}
	}
	return pod, pod.Status.Phase == corev1.PodRunning, nil
}

// make makes the pod and its Lease, unless another replica has just done so.
func (p *kubectlPod) make(ctx context.Context) (*corev1.Pod, bool, error) {
	made, err := p.create(p.shell.Pod())
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	klog.InfoS("pod of kubectl shells made", "user", p.shell.User, "pod", made.Name)
	if err = p.lease(ctx, made); apierrors.IsAlreadyExists(err) {
		err = p.renew(ctx)
	}
	return made, false, err
}

// await waits until the pod runs.
func (p *kubectlPod) await(ctx context.Context, within time.Duration) error {
	return await(ctx, within, func() (*corev1.Pod, bool, error) { return p.look(ctx) })
}

// Exec implements terminal.Executor.
func (p *kubectlPod) Exec(r *http.Request, s terminal.Streams) error {
	ctx := r.Context()
	if err := p.await(ctx, p.Timeout); err != nil {
		if late := (*lateError)(nil); errors.As(err, &late) {
			return status.Errorf(http.StatusNotFound, "%v (terminal.kubectl.timeout)", late)
		}
		return err
	}
	access, _, err := p.login.open(ctx)
	if err == nil {
		err = p.write(ctx, access)
	}
	if err != nil {
		return err
	}
	defer during(ctx, func(ctx context.Context) { p.login.keep(ctx, p.write) })()
	return p.by.Exec(r, s)
}

// write writes the kubeconfig and a token into the pod.
func (p *kubectlPod) write(ctx context.Context, access string) error {
	to, err := p.Target()
	if err != nil {
		return err
	}
	input, err := kubectlshell.Input(to, p.shell.User, access)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	r, err := p.post(ctx, "exec", p.session.WriteQuery())
	if err != nil {
		return err
	}
	var said reply
	err = p.by.Exec(r, terminal.Streams{Stdin: strings.NewReader(input), Stdout: &said, Stderr: &said})
	if exit := (*terminal.ExitError)(nil); errors.As(err, &exit) {
		return status.Errorf(http.StatusNotFound, "the pod of the shell takes no login (exit status %d): %s", exit.Code, said.text)
	}
	return err
}

// close ends the login, and removes it from the pod.
func (p *kubectlPod) close() {
	if p.login.current == nil {
		return
	}
	ctx := context.WithoutCancel(p.request.Context())
	p.login.close(ctx)
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	r, err := p.post(ctx, "exec", p.session.RemoveQuery())
	if err == nil {
		err = p.by.Exec(r, terminal.Streams{})
	}
	if err != nil {
		klog.V(2).ErrorS(err, "The folder of a kubectl shell stays until its pod goes; its token is worth nothing", "pod", p.name)
	}
}

// reply is the beginning of what a command says.
type reply struct{ text string }

// Write implements io.Writer.
func (r *reply) Write(p []byte) (int, error) {
	r.text += string(p[:min(len(p), max(0, maxReply-len(r.text)))])
	return len(p), nil
}

const maxReply = 512
