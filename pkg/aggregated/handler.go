// Package aggregated serves query.kapis.dev/v1alpha1, the API that kube-apiserver passes on to this server, so that the queries of
// docs/queries.md can be sent with the credentials of any kubeconfig: docs/aggregated.md. The front proxy alone names users here, and
// kube-apiserver decides what they may read.
package aggregated

import (
	"context"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	queryv1alpha1 "kapis.dev/ks-apiserver/pkg/api/query/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"
)

// FrontProxy authenticates the peer, and the user that it names.
type FrontProxy interface {
	authenticator.Request
	// Cut removes the headers that name users.
	Cut(h http.Header)
	// Verify returns why the peer of a request is not the front proxy, or nil.
	Verify(r *http.Request) error
	// Fault returns why nobody can be authenticated, or nil.
	Fault() error
}

// Reviewer decides what users may do.
type Reviewer interface {
	Allowed(ctx context.Context, u user.Info, what authorizationv1.ResourceAttributes) (bool, error)
}

// Options are what a Handler needs.
type Options struct {
	FrontProxy FrontProxy
	Reviewer   Reviewer
	Resources  *resource.Service
	// Namespaces returns the namespaces in which a user, or one of the user's groups, may have the right to do verb to a kind. Each of them
	// is reviewed. Nil knows none.
	Namespaces func(ctx context.Context, u user.Info, verb string, k *store.Kind) ([]string, error)
	// Unauthenticated prepares the answer to a peer that is not known to be the front proxy: filter.LimitHTTP2.
	Unauthenticated http.HandlerFunc
	// Authenticated wraps what is done for a request whose context has its user; nil for nothing.
	Authenticated func(http.Handler) http.Handler
	// Drain ends all watches when it is done.
	Drain context.Context
}

// Handler serves the API.
type Handler struct {
	Options
	streams       *stream.Guard
	authenticated http.Handler
	answers       *httpcache.Responses // to Queries
}

// New returns a Handler.
func New(o Options) *Handler {
	h := &Handler{Options: o, answers: httpcache.NewResponses(maxAnswers, maxAnswer)}
	h.authenticated = http.HandlerFunc(h.serve)
	if o.Authenticated != nil {
		h.authenticated = o.Authenticated(h.authenticated)
	}
	h.streams = stream.New(stream.Options{Recheck: h.recheck, Drain: o.Drain})
	return h
}

const (
	// pathReady answers without authentication whether requests can be answered.
	pathReady   = "/readyz"
	pathGroups  = "/apis"
	pathGroup   = pathGroups + "/" + queryv1alpha1.GroupName
	pathVersion = pathGroup + "/" + queryv1alpha1.Version
)

// ServeHTTP authenticates a request and answers it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == pathReady {
		h.Unauthenticated(w, r)
		h.ready(w, r)
		return
	}
	u, err := h.authenticate(r)
	if err != nil {
		h.Unauthenticated(w, r)
		web.WriteError(w, r, err)
		return
	}
	h.authenticated.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), u)))
}

// serve answers an authenticated request.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	v, err := h.answer(r)
	if c, ok := v.(*contextual); ok {
		v, r = c.answer, c.request
	}
	web.Write(w, r, v, err)
}

// ready answers 200 where the front proxy can be authenticated and discovery is known: ks-controller-manager asks before it tells
// kube-apiserver of the API. The reason is only logged, since anybody may ask.
func (h *Handler) ready(w http.ResponseWriter, r *http.Request) {
	fault := h.FrontProxy.Fault()
	if fault == nil && h.Resources.Catalog().All() == nil {
		fault = h.Resources.Catalog().Err()
		if fault == nil {
			fault = errNoDiscovery
		}
	}
	w.Header().Set("Cache-Control", "no-cache, private")
	if fault != nil {
		klog.V(2).InfoS("The aggregated API is not ready", "err", fault)
		http.Error(w, "not ready: see the log of ks-apiserver", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte("ok"))
	}
}

// errNoDiscovery is the error for a request that comes before kube-apiserver has told which kinds there are.
var errNoDiscovery = status.RetryAfter(1, status.Errorf(http.StatusServiceUnavailable,
	"kube-apiserver has not yet told which kinds it serves"))

// authenticate returns the user that the front proxy names, and removes everything by which a request states an identity.
func (h *Handler) authenticate(r *http.Request) (user.Info, error) {
	got, ok, err := h.FrontProxy.AuthenticateRequest(r)
	if err != nil {
		klog.V(2).InfoS("A request to the aggregated API is refused", "from", r.RemoteAddr, "reason", err.Error())
	}
	if apierrors.IsServiceUnavailable(err) { // who the front proxy is can't be told yet
		return nil, err
	}
	if err != nil || !ok || got == nil || got.User == nil || got.User.GetName() == "" {
		return nil, apierrors.NewUnauthorized("this API is reached through kube-apiserver only")
	}
	// kube-apiserver has impersonated, and removed these headers, before it passes a request on.
	if err := web.RefuseImpersonation(r.Header); err != nil {
		return nil, err
	}
	h.FrontProxy.Cut(r.Header)
	r.Header.Del("Authorization")
	r.Header.Del("Cookie")
	return got.User, nil
}

// answer returns the answer to an authenticated request.
func (h *Handler) answer(r *http.Request) (any, error) {
	info := request.InfoFrom(r.Context())
	if info == nil {
		return nil, status.NoResource()
	}
	if request.IsUpgrade(r.Header) {
		return nil, status.BadRequestf("the aggregated API has no other protocols: watch without an upgrade")
	}
	path := strings.TrimSuffix(info.Path, "/")
	rest, resources := strings.CutPrefix(path, pathVersion+"/")
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case resources:
		return h.resource(r, rest)
	case !read:
		return nil, notAllowed(r.Method, "")
	case path == pathGroups:
		return h.groups(r)
	case path == pathGroup:
		return group(), nil
	case path == pathVersion:
		return h.resourceList()
	case path == pathOpenAPI:
		return openAPIIndex()
	case path == pathOpenAPIVersion:
		return openAPIDocument(), nil
	}
	return nil, status.NoResource()
}

func notAllowed(method, resource string) error {
	return apierrors.NewMethodNotSupported(schema.GroupResource{Group: queryv1alpha1.GroupName, Resource: resource}, strings.ToLower(method))
}

// resource answers requests for objects: <plural>, <plural>/<name>, and both of them in namespaces/<namespace>/.
func (h *Handler) resource(r *http.Request, path string) (any, error) {
	a := &access{user: request.UserFrom(r.Context())}
	s := strings.Split(path, "/")
	if len(s) >= 3 && s[0] == "namespaces" {
		a.namespace, s = s[1], s[2:]
	}
	if len(s) > 2 {
		return nil, status.NoResource()
	}
	if s[0] == queryv1alpha1.Queries && len(s) == 1 && a.namespace == "" {
		if r.Method != http.MethodPost {
			return nil, notAllowed(r.Method, s[0])
		}
		return h.create(r, a.user)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, notAllowed(r.Method, s[0])
	}
	var err error
	if a.kind, err = h.kind(r.Context(), s[0]); err != nil {
		return nil, err
	}
	if len(s) == 2 {
		a.verb, a.name = "get", s[1]
		return h.get(r, a)
	}
	a.verb = "list"
	if info := request.InfoFrom(r.Context()); info.Verb == "watch" {
		a.verb = "watch"
	}
	return h.list(r, a)
}
