package proxy

import (
	"context"
	"errors"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/authn/fleet"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// The headers in which ks-apiserver of an older release takes what kube-apiserver on the way to it keeps for itself: the credential of the
// caller, and the query of an upgrade.
const (
	headerOlderToken = "X-Kubesphere-Authorization"
	headerOlderQuery = "X-Kubesphere-Rawquery"
)

// sharedSecretMember passes requests that came over a link on to ks-apiserver of a member that knows its callers by a secret alone.
type sharedSecretMember struct {
	at    *url.URL
	token func(user string) (string, error)
	who   fleet.Authenticator
	proxy *httputil.ReverseProxy
}

// NewSharedSecretMember returns what passes requests on to a URL, by a transport with the hub's credential for the member's kube-apiserver,
// which lies between. Token returns the token of a user.
func NewSharedSecretMember(at *url.URL, by http.RoundTripper, token func(user string) (string, error)) http.Handler {
	m := &sharedSecretMember{at: at, token: token}
	m.proxy = &httputil.ReverseProxy{
		Rewrite: m.rewrite, Transport: web.FinalAnswers{RoundTripper: by}, BufferPool: relay.NewBuffers(), FlushInterval: -1,
		ErrorLog: log.New(relay.QuietLog{}, "", 0),
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			klog.V(2).InfoS("A request to a member cluster with a shared secret failed", "path", r.URL.Path, "reason", err.Error())
			panic(http.ErrAbortHandler) // the hub knows what a broken link means for the request
		},
	}
	return m
}

type olderTokenKey struct{}

// ServeHTTP passes r on in the name of the user whom the hub names.
func (m *sharedSecretMember) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, err := m.admit(r)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	m.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), olderTokenKey{}, token)))
}

// admit returns the token that a request is sent with, or why it is not sent.
func (m *sharedSecretMember) admit(r *http.Request) (token string, err error) {
	who, ok, err := m.who.AuthenticateRequest(r)
	if err == nil && !ok {
		err = errors.New("the hub has not sent it")
	}
	if err != nil {
		return "", status.Forbiddenf("pass a request to a member cluster: %v", err)
	}
	if len(who.User.GetExtra()[authz.ExtraScope]) > 0 {
		return "", status.Forbiddenf("the cluster runs an older release, which can't restrict what a credential with a scope may do there")
	}
	if !passesToOlder(r.URL) {
		return "", status.Errorf(http.StatusNotFound, "the cluster runs an older release, of which only the APIs are reached from here")
	}
	if token, err = m.token(who.User.GetName()); err != nil {
		return "", status.Forbiddenf("pass a request to a member cluster: %v", err)
	}
	return token, nil
}

// olderAPIs begin the paths that are passed on: not those of logins, which are the hub's.
var olderAPIs = []string{"api", "apis", "kapi", "kapis", "openapi", "version"}

// passesToOlder reports whether a path is one of an API that every server on the way reads alike: it is appended to that of the Service.
func passesToOlder(u *url.URL) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	return slices.Contains(olderAPIs, first) && path.Clean(u.Path) == strings.TrimSuffix(u.Path, "/") &&
		!strings.Contains(strings.ToLower(u.RawPath), "%2f")
}

func (m *sharedSecretMember) rewrite(p *httputil.ProxyRequest) {
	in := p.In
	u := &url.URL{Scheme: m.at.Scheme, Host: m.at.Host, Path: m.at.Path + in.URL.Path, RawQuery: olderQuery(in.URL.RawQuery)}
	if in.URL.RawPath != "" {
		u.RawPath = m.at.EscapedPath() + in.URL.RawPath
	}
	p.Out.URL, p.Out.Host = u, ""
	h, client := p.Out.Header, in.Header["X-Forwarded-For"] // which the hub has set
	relay.CutHeaders(h)
	if len(client) > 0 {
		h["X-Forwarded-For"] = client
	}
	if request.IsUpgrade(in.Header) {
		if in.URL.RawQuery != "" {
			h[headerOlderQuery] = []string{in.URL.RawQuery}
		}
		h["Origin"] = []string{m.at.Scheme + "://" + m.at.Host} // kube-apiserver accepts no WebSocket without one
	} else {
		delete(h, "Connection")
		delete(h, "Upgrade")
	}
	token, _ := in.Context().Value(olderTokenKey{}).(string)
	h[headerOlderToken] = []string{"Bearer " + token}
}

// olderQuery returns a query with the parameter dryRun as older releases take it: kube-apiserver on the way refuses to pass one on.
func olderQuery(raw string) string {
	all := strings.Split(raw, "&")
	for i, one := range all {
		key, value, _ := strings.Cut(one, "=")
		if name, err := url.QueryUnescape(key); err == nil && name == "dryRun" {
			all[i] = "dryrun=" + value
		}
	}
	return strings.Join(all, "&")
}
