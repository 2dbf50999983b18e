// Package proxy passes requests on to kube-apiserver.
package proxy

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"
)

// KubeOptions configure NewKube.
type KubeOptions struct {
	// Config reaches kube-apiserver with this server's own identity, which needs only the right to impersonate for this.
	Config *rest.Config
	// Streams ends the long requests whose right ends. Nil means a Guard that never checks again: for tests only.
	Streams *stream.Guard
	// Extra returns what kube-apiserver is told of the caller for one request, besides the caller's own extras. Nil means nothing.
	Extra func(*request.Info, user.Info) map[string][]string
	// FieldValidation is what kube-apiserver does with unknown fields of a written object where the client does not say: Strict, Warn or
	// Ignore. Empty leaves it to kube-apiserver.
	FieldValidation string
}

// Kube passes requests to kube-apiserver as their caller: the request has this server's credentials and the caller's identity by
// impersonation, so that kube-apiserver authorizes the caller, and names them in its audit log. It has to follow authentication and
// authorization, and refuses a request without either.
//
// It does not buffer, follow redirects or lend its own rights. It parses no bodies except those of the few kinds that have secrets in
// them (redaction.Hidden), whose answers it redacts.
type Kube struct {
	base    *url.URL
	origin  []string // of base
	streams *stream.Guard
	extra   func(*request.Info, user.Info) map[string][]string
	// fieldValidation is the query parameter of writes, "" for none.
	fieldValidation string

	closeIdle func()

	// Three proxies, for three kinds of requests. They differ in their transports: ordinary requests give up when no answer begins; streams
	// may take any time; upgrades need HTTP/1.1 connections of their own.
	ordinary, lasting, upgrades *httputil.ReverseProxy
	// own is for the requests that handlers make themselves, see RoundTrip; streaming for watches that are answered in another form;
	// upgrading for WebSockets of this server's own, see Exec, which has config for those that are none.
	own, streaming, upgrading http.RoundTripper
	config                    *rest.Config
}

// NewKube returns a Kube for the cluster that o.Config reaches. An error says what is wrong with the configuration; nothing is dialled
// yet.
func NewKube(o KubeOptions) (*Kube, error) {
	base, _, err := rest.DefaultServerUrlFor(o.Config)
	if err != nil {
		return nil, fmt.Errorf("read the address of kube-apiserver: %w", err)
	}
	t, err := newTransports(o.Config)
	if err != nil {
		return nil, err
	}
	k := &Kube{
		base:    &url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/")},
		origin:  []string{base.Scheme + "://" + base.Host},
		streams: o.Streams,
		extra:   o.Extra,
	}
	if o.FieldValidation != "" {
		k.fieldValidation = "fieldValidation=" + url.QueryEscape(o.FieldValidation)
	}
	if k.streams == nil {
		k.streams = stream.New(stream.Options{})
	}
	pool := relay.NewBuffers()
	k.ordinary, k.lasting, k.upgrades = k.by(t.ordinary, pool), k.by(t.streams, pool), k.by(t.upgrades, pool)
	k.own, k.streaming, k.upgrading, k.closeIdle = t.ordinary, t.streams, t.upgrades, t.closeIdle
	k.config = rest.CopyConfig(o.Config)
	k.config.Impersonate = rest.ImpersonationConfig{} // the caller's identity is set on each request
	return k, nil
}

// CloseIdleConnections closes the connections to kube-apiserver that no request uses.
func (k *Kube) CloseIdleConnections() { k.closeIdle() }

func (k *Kube) by(t http.RoundTripper, pool *relay.Buffers) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:   k.rewrite,
		Transport: web.FinalAnswers{RoundTripper: t},
		ModifyResponse: func(res *http.Response) error {
			if err := checkCredentials(res); err != nil {
				return err
			}
			if err := modifyResponse(res); err != nil {
				return err
			}
			return redactAnswer(res)
		},
		ErrorHandler: answerError,
		BufferPool:   pool,
		ErrorLog:     log.New(relay.QuietLog{}, "", 0),
	}
}

// ServeHTTP passes r on.
func (k *Kube) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, err := checkAuthorized(r)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	switch {
	case request.IsUpgrade(r.Header):
		if r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
			web.WriteError(w, r, relay.ErrUpgradeBody)
			return
		}
		if x := redactionOf(info); x != nil {
			k.upgradeHidden(w, r, info, x)
			return
		}
		relay.Guarded(k.streams, w, r, func(s *stream.Stream, r *http.Request) {
			k.upgrades.ServeHTTP(&relay.Tunnel{ResponseWriter: w, Stream: s}, r)
		})
	case relay.IsLong(info, r.URL):
		relay.Guarded(k.streams, w, r, func(_ *stream.Stream, r *http.Request) { k.lasting.ServeHTTP(relay.Paced(k.streams, w, info), r) })
	default:
		if redactionOf(info) != nil {
			if err := checkPatch(r, info); err != nil {
				web.WriteError(w, r, err)
				return
			}
		}
		k.ordinary.ServeHTTP(relay.Whole{ResponseWriter: relay.Paced(k.streams, w, info)}, r)
	}
}

// checkAuthorized refuses requests that did not pass the filters: without a caller there is no one to impersonate, and this server's own
// identity would remain.
func checkAuthorized(r *http.Request) (*request.Info, error) {
	ctx := r.Context()
	info, u := request.InfoFrom(ctx), request.UserFrom(ctx)
	switch {
	case info == nil || u == nil:
		return nil, errors.New("pass a request to kube-apiserver: it was neither parsed nor authenticated")
	case !authz.DecisionFrom(ctx).Allowed():
		return nil, errors.New("pass a request to kube-apiserver: it was not authorized")
	case !info.IsKubernetes:
		return nil, fmt.Errorf("pass a request to kube-apiserver: %s is not a path of it", info.Path)
	}
	return info, checkUser(u)
}

// rewrite makes the request that is sent. ReverseProxy has removed the hop-by-hop headers by now, and those that the Connection header
// names, so a client can't remove the headers set here.
func (k *Kube) rewrite(p *httputil.ProxyRequest) {
	upgrade := request.IsUpgrade(p.In.Header)
	k.address(p.Out, p.In, upgrade)
	if redactionOf(request.InfoFrom(p.In.Context())) != nil {
		askJSON(p.Out)
	}
	if upgrade {
		// kube-apiserver accepts no WebSocket without an Origin (RFC 6455, 4.1). The page's Origin was checked before; this one is this
		// server's.
		p.Out.Header["Origin"] = k.origin
	}
}

// address turns out, a copy of in, into a request of this server to kube-apiserver for in's caller.
func (k *Kube) address(out, in *http.Request, upgrade bool) {
	ctx := in.Context()
	info := request.InfoFrom(ctx)
	path, raw := info.URLPath()
	u := &url.URL{Scheme: k.base.Scheme, Host: k.base.Host, RawQuery: k.validating(info, out.URL.RawQuery)}
	u.Path = k.base.Path + path
	if raw != "" {
		u.RawPath = k.base.EscapedPath() + raw
	}
	out.URL = u
	out.Host = ""
	relay.CutHeaders(out.Header)
	if !upgrade {
		delete(out.Header, "Connection")
		delete(out.Header, "Upgrade")
	}
	relay.SetPeer(out.Header, in.RemoteAddr)
	caller := request.UserFrom(ctx)
	impersonate(out.Header, caller, authz.DecisionFrom(ctx).Group)
	if k.extra != nil {
		for key, values := range k.extra(info, caller) {
			setExtra(out.Header, key, values)
		}
	}
}

// validating returns the query of a request, with the parameter fieldValidation where an object is written and the client does not say.
// Connections to a workload are no writes, and what they ask for is the workload's.
func (k *Kube) validating(i *request.Info, query string) string {
	if k.fieldValidation == "" || !i.IsResource || i.Subresource != "" && i.Subresource != "status" && i.Subresource != "scale" {
		return query
	}
	if i.Verb != "create" && i.Verb != "update" && i.Verb != "patch" {
		return query
	}
	switch q, err := url.ParseQuery(query); {
	case err != nil || q.Has("fieldValidation"):
		return query
	case query == "":
		return k.fieldValidation
	}
	return query + "&" + k.fieldValidation
}

// checkUser refuses to act for names that belong to Kubernetes itself. No authenticator here returns them; if one did, the request would
// have the rights of a component of the control plane.
func checkUser(u user.Info) error {
	name := u.GetName()
	if name == "" {
		return errors.New("pass a request to kube-apiserver: the caller has no name")
	}
	if !relay.Survives(name) {
		return fmt.Errorf("pass a request to kube-apiserver: the name %q would not arrive there as it is", name)
	}
	if strings.HasPrefix(name, "system:") && name != user.Anonymous && !strings.HasPrefix(name, "system:serviceaccount:") {
		return fmt.Errorf("pass a request to kube-apiserver: refusing to act as %q", name)
	}
	return nil
}
