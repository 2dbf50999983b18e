// Package remote asks container registries and Git servers for a caller, with credentials that the caller may read.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"kapis.dev/ks-apiserver/pkg/git"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/registry"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"

	restful "github.com/emicklei/go-restful/v3"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// maxAsked is how many requests may wait for other servers at once. Each holds a few answers of up to 4 MiB.
	maxAsked = 32
	// maxWait bounds such a request, also for a Secret with many registries.
	maxWait = 20 * time.Second
)

// Reader reads an object at kube-apiserver as the caller of ctx: with nothing but the caller's own
// rights, decided by this server and then by kube-apiserver. The path is one of kube-apiserver's.
type Reader interface {
	Get(ctx context.Context, path string) (redaction.Raw, error)
}

// Options are the dependencies of a Handler.
type Options struct {
	// AsCaller reads Secrets.
	AsCaller Reader
	// AllowLoopback allows requests to this machine: for tests and local debugging.
	AllowLoopback bool
	// Hub is where Docker Hub is searched; "" is the real one.
	Hub string
}

// Handler asks container registries and Git servers for a caller, with the caller's own credentials: those
// in the request, or in a Secret that the caller may read.
type Handler struct {
	asCaller   Reader
	registries *registry.Client
	git        *git.Client
	asked      chan struct{}
}

// New returns a Handler. Nothing is dialled yet.
func New(o Options) *Handler {
	return &Handler{
		asCaller:   o.AsCaller,
		registries: registry.New(registry.Options{AllowLoopback: o.AllowLoopback, Hub: o.Hub}),
		git:        git.New(git.Options{AllowLoopback: o.AllowLoopback}),
		asked:      make(chan struct{}, maxAsked),
	}
}

// CloseIdleConnections closes the connections that nothing uses.
func (m *Handler) CloseIdleConnections() {
	m.registries.CloseIdleConnections()
	m.git.CloseIdleConnections()
}

// remote returns a route's function that runs h, and refuses while too many others run.
func (m *Handler) remote(h web.Handler) restful.RouteFunction {
	return web.Handle(func(r *restful.Request) (any, error) {
		select {
		case m.asked <- struct{}{}:
			defer func() { <-m.asked }()
			ctx, cancel := context.WithTimeout(r.Request.Context(), maxWait)
			defer cancel()
			r.Request = r.Request.WithContext(ctx)
			return h(r)
		default:
			return nil, apierrors.NewTooManyRequests("too many requests wait for registries and Git servers: try again", 2)
		}
	})
}

// MountV1alpha3 adds the routes about images.
func (m *Handler) MountV1alpha3(ws *restful.WebService) {
	if m == nil {
		return
	}
	const ns = "/namespaces/{namespace}"
	secret := ws.QueryParameter("secret", "name of a Secret of the namespace with the registry's account")
	ws.Route(web.Namespaced(ws, ws.POST(ns+"/registrysecrets/{secret}/verify")).
		To(m.remote(m.verifySecret)).
		Operation("verifyImageRepositorySecret").Doc("Log in to the registries of a Secret").
		Param(ws.PathParameter("secret", "name of the Secret, which need not exist yet")).
		Consumes(restful.MIME_JSON).Reads(corev1.Secret{}).Returns(http.StatusOK, "OK", corev1.Secret{}).
		Returns(http.StatusBadRequest, "why a login failed", nil))
	ws.Route(web.Namespaced(ws, ws.GET(ns+"/imageconfig")).
		To(m.remote(m.imageConfig)).
		Operation("getImageConfig").Doc("The configuration of an image (OCI image specification)").Returns(http.StatusOK, "OK", v1.ConfigFile{}).
		Param(ws.QueryParameter("image", "name of the image, such as nginx:1.29").Required(true)).Param(secret).
		Returns(http.StatusNotFound, "there is no such image", nil))
	tags := web.Namespaced(ws, ws.GET(ns+"/repositorytags")).
		To(m.remote(m.tags)).
		Operation("getRepositoryTags").Doc("The tags of a repository").Writes(repositoryTags{}).
		Param(ws.QueryParameter("repository", "name of the repository, such as nginx").Required(true)).Param(secret)
	for _, p := range resource.Parameters() {
		if p.Name == "limit" || p.Name == "page" || p.Name == "ascending" {
			tags.Param(ws.QueryParameter(p.Name, p.Doc).DataType(p.Type))
		}
	}
	ws.Route(tags)
	ws.Route(web.Namespaced(ws, ws.GET(ns+"/images")).To(m.remote(m.search)).
		Operation("searchImages").Doc("Repositories by a part of their names, in Docker Hub or the Harbor of a Secret").
		Returns(http.StatusOK, "OK", foundImages{}).
		Param(ws.QueryParameter("q", "part of the name; without it the registry decides what it finds")).Param(secret).
		Returns(http.StatusNotFound, "the registry can't be searched", nil))
}

// MountV1alpha2 adds the older routes.
func (m *Handler) MountV1alpha2(ws *restful.WebService) {
	ws.Route(ws.POST("/registry/verify").To(m.remote(m.verifyAccount)).
		Operation("verifyRegistryCredential").Doc("Log in to a registry").
		Consumes(restful.MIME_JSON).Reads(registryAccount{}).Returns(http.StatusOK, "the login works", nil).
		Returns(http.StatusBadRequest, "why it does not", nil))
	ws.Route(ws.GET("/registry/blob").To(m.remote(m.blob)).
		Operation("getRegistryEntry").Doc("The manifest and the configuration of an image").Returns(http.StatusOK, "OK", imageDetails{}).
		Param(ws.QueryParameter("image", "name of the image, such as nginx:1.29").Required(true)).
		Param(ws.QueryParameter("namespace", "namespace of the Secret")).
		Param(ws.QueryParameter("secret", "name of a Secret with the registry's account")).
		Param(ws.QueryParameter("insecure", "true: take an unverified certificate, or no TLS").DataType("boolean")).
		Returns(http.StatusNotFound, "there is no such image", nil))
	ws.Route(ws.POST("/git/verify").To(m.remote(m.verifyGit)).
		Operation("verifyGitCredential").Doc("Ask a Git server for a repository, with the account of a Secret").
		Consumes(restful.MIME_JSON).Reads(gitAccount{}).Returns(http.StatusOK, "OK", message{}).
		Returns(http.StatusBadRequest, "why it can't be read", nil).Returns(http.StatusNotFound, "there is no such repository", nil))
}

// secret reads a Secret as the caller.
func (m *Handler) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, status.BadRequestf("%q in the namespace %q is not the name of a Secret", excerpt(name), excerpt(namespace))
	}
	raw, err := m.asCaller.Get(ctx, "/api/v1/namespaces/"+namespace+"/secrets/"+name)
	if err != nil {
		return nil, err
	}
	s := &corev1.Secret{}
	if json.Unmarshal([]byte(raw.Unredacted()), s) != nil { // the cause would quote it
		return nil, fmt.Errorf("read the Secret %s/%s: kube-apiserver answers something else", namespace, name)
	}
	return s, nil
}

// body decodes the body of a request into v.
func body(r *restful.Request, v any) error {
	err := json.NewDecoder(r.Request.Body).Decode(v)
	var long *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &long):
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body may have %d bytes at most", long.Limit))
	}
	return apierrors.NewBadRequest("the body is not the JSON that this route takes") // the cause may quote a password
}

// excerpt shortens what a client sent for an error message.
func excerpt(s string) string { return status.Excerpt(s, 120) }

// nothing is an answer without a body.
type nothing struct{}

// Respond implements web.Responder.
func (nothing) Respond(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
}

// message is the answer that something was done, in the form that clients know.
type message struct {
	Message string `json:"message"`
}
