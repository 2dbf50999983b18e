package extension

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/extension"
)

// The names of the controllers of backends.
const (
	APIServiceName   = "extension-apiservice"
	ReverseProxyName = "reverseproxy"
)

const (
	// failures and successes in a row change the condition Reachable.
	failures, successes = 3, 2
	probeTimeout        = 5 * time.Second
)

// SetupAPIServices adds the controller of APIServices to mgr.
func SetupAPIServices(_ context.Context, mgr manager.Manager, o Options) error {
	r := NewProbes(mgr.GetClient(), func() client.Object { return &v1alpha1.APIService{} }, o.by, time.Now)
	return builder.ControllerManagedBy(mgr).Named(APIServiceName).For(&v1alpha1.APIService{}).WithOptions(parallel).Complete(r)
}

// SetupReverseProxies adds the controller of ReverseProxies to mgr.
func SetupReverseProxies(_ context.Context, mgr manager.Manager, o Options) error {
	r := NewProbes(mgr.GetClient(), func() client.Object { return &v1alpha1.ReverseProxy{} }, o.by, time.Now)
	return builder.ControllerManagedBy(mgr).Named(ReverseProxyName).For(&v1alpha1.ReverseProxy{}).WithOptions(parallel).Complete(r)
}

// Probes keeps the condition Reachable of objects with a backend. It takes no traffic away.
type Probes struct {
	Client client.Client
	// Probe asks a backend. Any answer is none that fails.
	Probe func(ctx context.Context, e *v1alpha1.Endpoint) error
	Now   func() time.Time

	of   func() client.Object // an empty one
	mu   sync.Mutex
	runs map[string]run
}

// run is how often in a row a backend answered, or did not, and of which version of the object.
type run struct {
	ok   bool
	n    int
	last time.Time
	of   int64
}

// NewProbes returns the reconciler of a kind, of which empty returns an object.
func NewProbes(c client.Client, empty func() client.Object, probe func(context.Context, *v1alpha1.Endpoint) error,
	now func() time.Time) *Probes {
	return &Probes{Client: c, Probe: probe, Now: now, of: empty, runs: map[string]run{}}
}

// by asks a backend whether it answers, within the rules of package egress.
func (o Options) by(ctx context.Context, e *v1alpha1.Endpoint) error { return Probe(ctx, e, o.Egress) }

// parts returns the endpoint and the state of an object.
func parts(o client.Object) (*v1alpha1.Endpoint, *v1alpha1.Status) {
	switch o := o.(type) {
	case *v1alpha1.APIService:
		return &o.Spec.Endpoint, &o.Status
	case *v1alpha1.ReverseProxy:
		return &o.Spec.Upstream, &o.Status
	}
	return nil, nil
}

// Reconcile asks the backend of one object.
func (r *Probes) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := r.of()
	if err := r.Client.Get(ctx, req.NamespacedName, o); err != nil {
		r.mu.Lock()
		delete(r.runs, req.Name)
		r.mu.Unlock()
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	endpoint, status := parts(o)
	if status == nil || status.State != v1alpha1.StateAvailable || o.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil
	}
	r.mu.Lock()
	last := r.runs[req.Name]
	r.mu.Unlock()
	if wait := every - r.Now().Sub(last.last); last.of == o.GetGeneration() && wait > 0 { // the write of the condition brought it here
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	err := r.Probe(ctx, endpoint)
	next := run{ok: err == nil, n: 1, last: r.Now(), of: o.GetGeneration()}
	if last.of == next.of && last.ok == next.ok {
		next.n = last.n + 1
	}
	r.mu.Lock()
	r.runs[req.Name] = next
	r.mu.Unlock()
	before, conditions := o.DeepCopyObject().(client.Object), slices.Clone(status.Conditions)
	changed := r.noteReachable(&conditions, o.GetGeneration(), next, err)
	if r.noteVerified(&conditions, o.GetGeneration(), endpoint) {
		changed = true
	}
	if !changed {
		return reconcile.Result{RequeueAfter: every}, nil
	}
	status.Conditions = conditions
	err = r.Client.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("note whether the backend of %s answers: %w", o.GetName(), err)
	}
	return reconcile.Result{RequeueAfter: every}, nil
}

// noteReachable changes the condition where enough answers in a row say something else than it does.
func (r *Probes) noteReachable(conditions *[]metav1.Condition, generation int64, now run, failure error) (changed bool) {
	c := metav1.Condition{Type: v1alpha1.ConditionReachable, Status: metav1.ConditionTrue, Reason: "Answered",
		Message: "the backend answers", ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(r.Now())}
	need := successes
	if !now.ok {
		c.Status, c.Reason, c.Message, need = metav1.ConditionFalse, "NoAnswer", message(failure), failures
	}
	is := meta.FindStatusCondition(*conditions, c.Type)
	if now.n < need && (is != nil || !now.ok) || is != nil && is.Status == c.Status {
		return false
	}
	return meta.SetStatusCondition(conditions, c)
}

// noteVerified says, where it is so, that nothing tells the backend from somebody between it and ks-apiserver.
func (r *Probes) noteVerified(conditions *[]metav1.Condition, generation int64, e *v1alpha1.Endpoint) (changed bool) {
	if !e.InsecureSkipVerify {
		return meta.RemoveStatusCondition(conditions, v1alpha1.ConditionVerified)
	}
	return meta.SetStatusCondition(conditions, metav1.Condition{Type: v1alpha1.ConditionVerified, Status: metav1.ConditionFalse,
		Reason: "InsecureSkipVerify", Message: "insecureSkipVerify is set: the certificate of the backend is not verified, so whoever is" +
			" between it and this server reads and answers what users ask", ObservedGeneration: generation,
		LastTransitionTime: metav1.NewTime(r.Now())})
}

// message says why a backend does not answer, without the addresses that errors of the network have.
func message(err error) string {
	switch {
	case errors.Is(err, egress.ErrRefused):
		return "this server connects to no such address: loopback, link-local, multicast and metadata addresses are not for users"
	case errors.Is(err, context.DeadlineExceeded):
		return "the backend has not answered in time"
	}
	return "the backend can't be reached: the log of ks-controller-manager says why"
}

// wantsCertificate reports whether a server has ended a connection since it wants a client certificate (RFC 8446, 6.2).
func wantsCertificate(err error) bool {
	const certificateRequired = tls.AlertError(116)
	var remote *net.OpError
	return errors.As(err, &remote) && remote.Op == "remote error" && remote.Err.Error() == certificateRequired.Error()
}

// Probe asks a backend for its root. Any answer is one.
func Probe(ctx context.Context, e *v1alpha1.Endpoint, o egress.Options) error {
	a, err := extension.ParseEndpoint(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	t := a.Transport(o)
	defer t.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, a.Scheme+"://"+a.Host+"/", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := t.RoundTrip(r)
	if wantsCertificate(err) {
		return nil // it answers those who prove themselves, as ks-apiserver does
	}
	if err != nil {
		klog.V(2).InfoS("the backend of an extension does not answer", "host", a.Host, "error", err)
		return err
	}
	return resp.Body.Close()
}
