package proxy

import (
	"context"
	"errors"
	"log"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/authn/fleet"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// memberTimeout is how long a member has to begin the answer to a read at /kapis, which it answers from memory, and memberLongTimeout
	// to any other: more than the member gives its kube-apiserver, so that it is the member that reports it.
	memberTimeout     = 10 * time.Second
	memberLongTimeout = headerTimeout + 5*time.Second
	// HeaderCluster says which member has answered.
	HeaderCluster = "X-Kapis-Cluster"
)

// The reasons of answers about a member that can't be asked. None of them is Unauthorized, and no code is 401: consoles take those for the
// end of the caller's login here.
const (
	ReasonNotReady     metav1.StatusReason = "ClusterNotReady"
	ReasonUnreachable  metav1.StatusReason = "ClusterUnreachable"
	ReasonTimeout      metav1.StatusReason = "ClusterTimeout"
	ReasonUnauthorized metav1.StatusReason = "MemberUnauthorized"
	ReasonIdentity     metav1.StatusReason = "ClusterIdentity"
)

// Members passes requests on to member clusters, over links, as their caller. It has to follow authentication and the decision whether the
// caller may enter the cluster; what they may do there the member decides.
type Members struct {
	find    func(name string) *cluster.Member
	streams *stream.Guard

	proxy *httputil.ReverseProxy
}

// NewMembers returns a Members that finds clusters by find. Streams ends long requests whose right ends.
func NewMembers(find func(name string) *cluster.Member, streams *stream.Guard) *Members {
	m := &Members{find: find, streams: streams}
	m.proxy = &httputil.ReverseProxy{
		Rewrite: rewriteForMember, Transport: web.FinalAnswers{RoundTripper: memberTransport{}}, ModifyResponse: modifyMemberAnswer,
		ErrorHandler: answerMemberError, BufferPool: relay.NewBuffers(), ErrorLog: log.New(relay.QuietLog{}, "", 0),
		FlushInterval: -1, // whether an answer is a stream is known by the member
	}
	return m
}

type memberKey struct{}

// ServeHTTP passes r on to the cluster that its path names.
func (m *Members) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	member, err := m.member(r)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	w.Header().Set(HeaderCluster, member.Name)
	r = r.WithContext(context.WithValue(r.Context(), memberKey{}, member))
	upgrade := request.IsUpgrade(r.Header)
	switch info := request.InfoFrom(r.Context()); {
	case upgrade && (r.ContentLength != 0 || len(r.TransferEncoding) > 0):
		w.Header().Set("Connection", "close")
		web.WriteError(w, r, relay.ErrUpgradeBody)
	case upgrade:
		r = r.WithContext(cluster.AsStream(r.Context()))
		relay.Guarded(m.streams, w, r, func(s *stream.Stream, r *http.Request) {
			m.proxy.ServeHTTP(&relay.Tunnel{ResponseWriter: w, Stream: s}, r)
		})
	case relay.IsLong(info, r.URL) || stream.WantsEvents(r.Header):
		r = r.WithContext(cluster.AsStream(r.Context()))
		relay.Guarded(m.streams, w, r, func(_ *stream.Stream, r *http.Request) { m.proxy.ServeHTTP(relay.Paced(m.streams, w, info), r) })
	default:
		m.proxy.ServeHTTP(relay.Whole{ResponseWriter: relay.Paced(m.streams, w, info)}, r)
	}
}

// member returns the cluster that a request is for, or why it can't be asked.
func (m *Members) member(r *http.Request) (*cluster.Member, error) {
	ctx := r.Context()
	return enterable(m.find, request.InfoFrom(ctx), request.UserFrom(ctx), authz.DecisionFrom(ctx))
}

// enterable returns the cluster that a request of a user is for, or why it can't be asked. D is the decision that they may enter it.
func enterable(find func(string) *cluster.Member, info *request.Info, u user.Info, d authz.Decision) (*cluster.Member, error) {
	switch {
	case info == nil || u == nil:
		return nil, errors.New("pass a request to a member cluster: it was neither parsed nor authenticated")
	case !d.Allowed():
		return nil, errors.New("pass a request to a member cluster: it was not authorized")
	case cluster.IsHubPath(info.Path):
		return nil, status.NoResource()
	}
	member := find(info.Cluster)
	if member == nil {
		return nil, unavailable(ReasonUnreachable, "the cluster %q has just left the fleet", info.Cluster)
	}
	if !isOfFleet(u) {
		return nil, status.Forbiddenf("%.100q is no user of the fleet: only people enter member clusters", u.GetName())
	}
	linked, since := member.Linked()
	if !linked && member.Foreign() {
		return nil, relay.Because(ReasonIdentity, status.Errorf(http.StatusBadGateway, "what answers at the address of the cluster %q is"+
			" another one, or has no valid certificate of this fleet: nothing was sent; see its condition Ready", member.Name))
	}
	if !linked {
		return nil, unavailable(ReasonUnreachable, "the cluster %q has no connection to this server since %s: see its condition Ready, and the"+
			" log of its ks-apiserver", member.Name, since.UTC().Format(time.RFC3339))
	}
	if synced, _ := member.Synced(); !synced && member.Trouble == "" {
		return nil, unavailable(ReasonNotReady, "the cluster %q takes no requests yet: it has just been linked, and is told first what"+
			" users lost meanwhile", member.Name)
	}
	if member.Trouble != "" {
		return nil, unavailable(ReasonNotReady, "the cluster %q takes no requests: %s", member.Name, member.Trouble)
	}
	return member, nil
}

// isOfFleet reports whether a user may be named to members.
func isOfFleet(u user.Info) bool {
	name := u.GetName()
	return u.GetUID() != "" && !strings.HasPrefix(name, "system:") && !strings.HasPrefix(name, relay.SyntheticGroup) && relay.Survives(name)
}

func unavailable(reason metav1.StatusReason, format string, args ...any) error {
	return relay.Because(reason, status.RetryAfter(5, status.Errorf(http.StatusServiceUnavailable, format, args...)))
}

// rewriteForMember makes the request that is sent: the path that was parsed, without the cluster, the query as it is, and the caller's
// name, but none of the caller's credentials.
func rewriteForMember(p *httputil.ProxyRequest) {
	ctx := p.In.Context()
	path, raw := request.InfoFrom(ctx).URLPath()
	p.Out.URL = &url.URL{Scheme: "https", Host: "member", Path: path, RawPath: raw, RawQuery: p.In.URL.RawQuery}
	p.Out.Host = ""
	h := p.Out.Header
	relay.CutHeaders(h)
	if !request.IsUpgrade(p.In.Header) {
		delete(h, "Connection")
		delete(h, "Upgrade")
	}
	relay.SetPeer(h, p.In.RemoteAddr)
	nameCaller(h, request.UserFrom(ctx))
}

// nameCaller sets the headers that name the caller to the member.
func nameCaller(h http.Header, u user.Info) {
	h[fleet.HeaderUser] = []string{u.GetName()}
	h[fleet.HeaderUID] = []string{u.GetUID()}
	var groups []string
	for _, g := range u.GetGroups() {
		if relay.Assertable(g) && !strings.HasPrefix(g, "system:") {
			groups = append(groups, g)
		}
	}
	if len(groups) > 0 {
		h[fleet.HeaderGroup] = groups
	}
	if scope := u.GetExtra()[authz.ExtraScope]; len(scope) > 0 && authz.ClusterOf(u) == "" { // it is at its cluster
		h[fleet.HeaderScope] = scope
	}
}

// memberTransport sends requests to the member in their context.
type memberTransport struct{}

var errMemberTimeout = errors.New("no answer has begun in time")

// RoundTrip implements http.RoundTripper. A read whose link broke before an answer began is sent once more, over another link.
func (memberTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	member, ok := r.Context().Value(memberKey{}).(*cluster.Member)
	if !ok {
		return nil, errors.New("the request is for no member cluster")
	}
	limit := memberLongTimeout
	if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/kap") {
		limit = memberTimeout
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(limit, func() { cancel(errMemberTimeout) })
	out := r.WithContext(ctx)
	resp, err := member.RoundTrip(out)
	if err != nil && ctx.Err() == nil && r.Body == nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		resp, err = member.RoundTrip(out)
	}
	if timer.Stop() && err == nil {
		return resp, nil
	}
	if err == nil { // it came when the time was over
		_ = resp.Body.Close()
	}
	if errors.Is(context.Cause(ctx), errMemberTimeout) {
		err = errMemberTimeout
	}
	cancel(err)
	return nil, err
}

// modifyMemberAnswer decides whether the answer of a member may go to the client, and which of its headers.
func modifyMemberAnswer(res *http.Response) error {
	if res.StatusCode == http.StatusUnauthorized {
		return relay.Because(ReasonUnauthorized, status.Errorf(http.StatusNetworkAuthenticationRequired,
			"the cluster does not know who you are: a user of its own may have your name; ask its administrator"))
	}
	if err := modifyResponse(res); err != nil {
		return err
	}
	delete(res.Header, HeaderCluster)
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || strings.Contains(media, "html") || strings.Contains(media, "xml") {
		res.Header["Content-Security-Policy"] = []string{"sandbox"} // it is the member's page, and not this server's
	}
	return nil
}

// answerMemberError answers where the member could not, or where its answer must not be passed on. What went wrong is only logged: errors
// name addresses.
func answerMemberError(w http.ResponseWriter, r *http.Request, err error) {
	if relay.AnsweredEnd(w, r) {
		return
	}
	name := request.InfoFrom(r.Context()).Cluster
	answer := memberStatus(name, err)
	if answer.ErrStatus.Code >= http.StatusInternalServerError {
		klog.ErrorS(err, "passing a request to a member cluster failed", "cluster", name, "method", r.Method, "path", r.URL.Path)
	}
	web.WriteError(w, r, answer)
}

func memberStatus(name string, err error) *apierrors.StatusError {
	if told := relay.Told(err); told != nil {
		return told
	}
	var refused *relay.RefusedAnswer
	switch {
	case errors.As(err, &refused):
		return relay.BadGateway("the cluster " + name + " gave an answer that is not passed on: " + refused.Reason)
	case errors.Is(err, errMemberTimeout):
		return relay.Because(ReasonTimeout, status.RetryAfter(5, status.Errorf(http.StatusGatewayTimeout,
			"the cluster %q has not begun to answer in time; whether it did what was asked is not known", name)))
	case errors.Is(err, cluster.ErrUnlinked), errors.Is(err, cluster.ErrSpared):
		return relay.Because(ReasonUnreachable, status.RetryAfter(5, status.Errorf(http.StatusServiceUnavailable,
			"the cluster %q is not reached: nothing was sent; see its condition Ready, and the log of its ks-apiserver", name)))
	case errors.Is(err, cluster.ErrBusy):
		return status.RetryAfter(5, status.Errorf(http.StatusTooManyRequests,
			"the cluster %q has too many requests under way: try again", name))
	}
	return relay.Because(ReasonUnreachable, status.RetryAfter(5, status.Errorf(http.StatusServiceUnavailable,
		"the connection to the cluster %q broke; whether it did what was asked is not known", name)))
}
