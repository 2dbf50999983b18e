// Package backend passes requests on to the backends of extensions, and serves the files of their bundles.
package backend

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/inflight"
	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/token"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// headerTimeout is how long a backend has to begin an answer that is no stream, and silenceTimeout how long the body of one may pause.
	headerTimeout, silenceTimeout = 60 * time.Second, 10 * time.Minute
	// MaxBody bounds the body of a request for a backend, in bytes.
	MaxBody = 100 << 20
	// via is this server's name in the header Via (RFC 9110, 7.6.3). A request that arrives with it is in a loop.
	via = "kapis.dev"
)

// The reasons of answers about a backend of an extension. None of them says that the login has ended.
const (
	ReasonUnavailable  metav1.StatusReason = "BackendUnavailable"
	ReasonUnauthorized metav1.StatusReason = "BackendUnauthorized"
	ReasonTimeout      metav1.StatusReason = "BackendTimeout"
	ReasonAnswer       metav1.StatusReason = "BackendAnswer"
)

// Options are what a Handler is made of.
type Options struct {
	Index *extension.Index
	// Files serves the files of bundles.
	Files *extension.Files
	// Streams ends long requests whose right ends.
	Streams *stream.Guard
	// Issuer signs the tokens by which backends know the caller.
	Issuer *token.Issuer
	// Email returns the address of a user, "" for none.
	Email func(u user.Info) string
	// GroupsOf returns the groups of a user that backends may be told; nil for all.
	GroupsOf func(u user.Info) []string
	Now      func() time.Time
}

// Handler passes requests on to the backends of extensions, and serves the files of their bundles. It has to follow the decision on the
// request.
type Handler struct {
	Options

	who   *identity
	proxy *httputil.ReverseProxy
}

// New returns a Handler.
func New(o Options) *Handler {
	e := &Handler{Options: o, who: newIdentity(&o)}
	e.proxy = &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { callOf(p.In).rewrite(p) }, Transport: web.FinalAnswers{RoundTripper: transport{}},
		ModifyResponse: modifyAnswer, ErrorHandler: answerError, BufferPool: relay.NewBuffers(), ErrorLog: log.New(relay.QuietLog{}, "", 0),
		FlushInterval: -1, // only the backend knows whether its answer is a stream
	}
	return e
}

// Takes reports whether a request is for an extension.
func (e *Handler) Takes(i *request.Info) bool {
	switch {
	case e == nil || i == nil || i.IsKubernetes:
		return false
	case i.IsResource:
		return e.Index.Service(schema.GroupVersion{Group: i.APIGroup, Version: i.APIVersion}) != nil
	}
	return extension.IsPath(i.Path)
}

// ServeHTTP answers requests for extensions, those that e takes.
func (e *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := e.serve(w, r, request.InfoFrom(r.Context())); err != nil {
		web.WriteError(w, r, err)
	}
}

// serve answers a request for an extension. Its error says why it did not.
func (e *Handler) serve(w http.ResponseWriter, r *http.Request, info *request.Info) error {
	ctx := r.Context()
	u, decision := request.UserFrom(ctx), authz.DecisionFrom(ctx)
	switch {
	case u == nil:
		return errors.New("pass a request to an extension: it was not authenticated")
	case !decision.Allowed():
		return authz.Forbidden(u, info, decision) // of a partial list, too: nothing restricts a backend's answer
	case !info.IsResource && extension.IsBundlePath(info.Path):
		return e.file(w, r, info.Path)
	}
	b := e.Index.Service(schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion})
	path := info.Path
	if !info.IsResource {
		if strings.HasSuffix(r.URL.Path, "/") && !strings.HasSuffix(path, "/") {
			path += "/" // pages below it are relative to it
		}
		b = e.Index.Proxy(r.Method, path)
	}
	switch {
	case b == nil:
		return notServed(info)
	case b.Fault != "":
		return unavailable(b, 5*time.Second, "%s", b.Fault)
	case slices.ContainsFunc(r.Header["Via"], func(line string) bool { return strings.Contains(line, via) }):
		return status.Errorf(http.StatusLoopDetected, "the request has been here already: the %s %s leads to this server", b.Kind, b.Name)
	}
	return e.call(w, r, info, &call{Handler: e, backend: b, user: u, path: path})
}

func notServed(info *request.Info) error {
	return status.Errorf(http.StatusNotFound, "there is no ReverseProxy (%s) for this path: %.200s", "extensions.kubesphere.io", info.Path)
}

func unavailable(b *extension.Backend, after time.Duration, format string, args ...any) error {
	return relay.Because(ReasonUnavailable, status.RetryAfter(int32(max(1, after.Round(time.Second)/time.Second)),
		status.Errorf(http.StatusServiceUnavailable, "the backend of the %s %s is not available: %s", b.Kind, b.Name,
			fmt.Sprintf(format, args...))))
}

// file serves a file of a bundle, which everybody may read.
func (e *Handler) file(w http.ResponseWriter, r *http.Request, path string) error {
	f := e.Index.File(path)
	switch {
	case f == nil:
		return status.Errorf(http.StatusNotFound, "no JSBundle has a file %.200s", path)
	case !extension.ReadMethod(r.Method):
		return apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "files of bundles"}, strings.ToLower(r.Method))
	case f.Fault() != "":
		return status.RetryAfter(5, status.Errorf(http.StatusServiceUnavailable, "the JSBundle of this file is not available: %s",
			f.Fault()))
	}
	if err := e.Files.Serve(e.Streams.Progress(w), r, f); err != nil {
		klog.ErrorS(err, "a file of a JSBundle can't be read", "link", path)
		return status.RetryAfter(5, status.Errorf(http.StatusServiceUnavailable,
			"the source of this file can't be read: see the log of this server"))
	}
	return nil
}

// call is a request for a backend.
type call struct {
	*Handler
	backend *extension.Backend
	user    user.Info
	path    string // as it was asked for
	target  extension.Target
	token   string
	long    bool
}

type callKey struct{}

func callOf(r *http.Request) *call {
	c, _ := r.Context().Value(callKey{}).(*call) // set by call
	return c
}

// call passes the request on.
func (e *Handler) call(w http.ResponseWriter, r *http.Request, info *request.Info, c *call) (err error) {
	c.target = extension.Target{Method: r.Method, Path: c.path, Query: r.URL.RawQuery}
	if d := c.backend.Directives; d != nil {
		if c.target, err = d.Apply(c.target); err != nil {
			return status.BadRequestf("%v", err)
		}
	}
	if c.token, err = c.bearer(r.Context()); err != nil {
		return err
	}
	leave, err := c.backend.Upstream.Enter(extension.User{UID: c.user.GetUID(), Name: c.user.GetName()}, e.Now())
	if err != nil {
		return c.refusal(err)
	}
	defer leave()
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	upgrade := request.IsUpgrade(r.Header)
	if !upgrade && r.Body != nil && r.Body != http.NoBody {
		if r.ContentLength > MaxBody {
			w.Header().Set("Connection", "close")
			return tooLarge()
		}
		r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
	}
	switch {
	case upgrade && (r.ContentLength != 0 || len(r.TransferEncoding) > 0):
		w.Header().Set("Connection", "close")
		return relay.ErrUpgradeBody
	case upgrade:
		c.long = true
		relay.Guarded(e.Streams, w, r, func(s *stream.Stream, r *http.Request) {
			e.proxy.ServeHTTP(&relay.Tunnel{ResponseWriter: w, Stream: s}, r)
		})
	case info.IsResource && relay.IsLong(info, r.URL) || stream.WantsEvents(r.Header):
		c.long = true
		relay.Guarded(e.Streams, w, r, func(_ *stream.Stream, r *http.Request) { e.proxy.ServeHTTP(e.Streams.Progress(w), r) })
	default:
		e.proxy.ServeHTTP(e.Streams.Progress(w), r)
	}
	return nil
}

func tooLarge() error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body may have %d bytes at most", MaxBody))
}

func (c *call) refusal(err error) error {
	var down *extension.Down
	switch {
	case errors.As(err, &down):
		return unavailable(c.backend, down.For, "it could not be reached lately, and is tried again soon")
	case errors.Is(err, inflight.ErrFullForOwner):
		return status.RetryAfter(1, status.Errorf(http.StatusTooManyRequests,
			"%s as many requests to the %s %s as one user may have at once", inflight.Has(c.user.GetName()), c.backend.Kind, c.backend.Name))
	}
	return status.RetryAfter(1, status.Errorf(http.StatusTooManyRequests, "the %s %s has as many requests as it may have at once",
		c.backend.Kind, c.backend.Name))
}

// rewrite makes the request for the backend: changed by the directives, with the caller's identity, and without the caller's credentials
// but for what bearer returns.
func (c *call) rewrite(p *httputil.ProxyRequest) {
	at := c.backend.Address
	path := at.Path + c.target.Path
	if c.backend.Directives == nil {
		path = c.backend.Root + strings.TrimPrefix(c.target.Path, extension.GroupRoot)
	}
	p.Out.Method = c.target.Method
	p.Out.URL = &url.URL{Scheme: at.Scheme, Host: at.Host, Path: path, RawQuery: c.target.Query}
	p.Out.Host = ""
	h := p.Out.Header
	cookies, before := h["Cookie"], h["Via"]
	relay.CutHeaders(h)
	// A backend that reads headers as a CGI program does can't tell X_Remote_User from X-Remote-User. Such names are left out, as nginx does.
	maps.DeleteFunc(h, func(name string, _ []string) bool { return strings.Contains(name, "_") })
	if kept := foreignCookies(cookies); kept != "" {
		h["Cookie"] = []string{kept}
	}
	if !request.IsUpgrade(p.In.Header) {
		delete(h, "Connection")
		delete(h, "Upgrade")
	}
	d := c.backend.Directives
	if d != nil {
		d.Up(h, extension.Caller{Name: c.user.GetName(), Email: c.Email(c.user), Groups: c.who.shownGroups(c.user)})
	}
	if d != nil && d.MapLinks {
		delete(h, "Accept-Encoding") // links in a compressed body can't be mapped
	}
	relay.SetPeer(h, p.In.RemoteAddr)
	h["Via"] = append(slices.Clone(before), fmt.Sprintf("%d.%d %s", p.In.ProtoMajor, p.In.ProtoMinor, via))
	if d == nil || d.AuthProxy {
		c.who.name(h, c.user)
	}
	if c.token != "" {
		h["Authorization"] = []string{"Bearer " + c.token}
	}
}

// ownCookie reports whether a cookie is this server's or the console's. Backends neither read nor set such cookies.
func ownCookie(name string) bool {
	switch name {
	case "token", "refreshToken", "expire", "refreshExpire", "currentUser", "referer", "lang", "oAuthLoginInfo":
		return true
	}
	return strings.HasPrefix(name, "ks-") || strings.HasPrefix(name, "kubesphere:") || web.HasPrefixFold(name, "__Host-") ||
		web.HasPrefixFold(name, "__Secure-")
}

// foreignCookies returns the cookies of a request without those of this server and of the console.
func foreignCookies(lines []string) string {
	var kept []string
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			pair = strings.TrimSpace(pair)
			name, _, _ := strings.Cut(pair, "=")
			if name = strings.TrimSpace(name); name != "" && !ownCookie(name) {
				kept = append(kept, pair)
			}
		}
	}
	return strings.Join(kept, "; ")
}

// transport sends the request of a call.
type transport struct{}

// RoundTrip implements http.RoundTripper.
func (transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c := callOf(r)
	if c == nil {
		return nil, errors.New("the request is for no backend")
	}
	if c.long {
		return c.backend.Upstream.RoundTrip(r)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(headerTimeout, func() { cancel(extension.ErrHeaderTimeout) })
	resp, err := c.backend.Upstream.RoundTrip(r.WithContext(ctx))
	if !timer.Stop() && err == nil {
		_ = resp.Body.Close()
		err = extension.ErrHeaderTimeout
	}
	if err != nil {
		if errors.Is(context.Cause(ctx), extension.ErrHeaderTimeout) {
			err = extension.ErrHeaderTimeout
		}
		cancel(err)
		return nil, err
	}
	resp.Body = newLimitedSilence(resp.Body, cancel)
	return resp, nil
}

func setOrDelete(h http.Header, name string, values []string) {
	if values == nil {
		delete(h, name)
		return
	}
	h[name] = values
}
