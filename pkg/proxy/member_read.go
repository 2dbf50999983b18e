package proxy

import (
	"context"
	"net/http"
	"net/url"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	"kapis.dev/ks-apiserver/pkg/request"
)

// MemberReader reads from member clusters as a user, for what this server makes of several answers. A request is what Members would send
// for one of the user's, and its answer is what Members would pass on.
type MemberReader struct {
	// Find returns a member, nil for none.
	Find func(name string) *cluster.Member
}

// Read sends a GET. D is the decision that the user may ask what i says, and h has what the member is told besides who asks: nothing of it
// names a user. The error is a Status, or that of ctx. The body of the answer has to be closed.
func (m MemberReader) Read(ctx context.Context, u user.Info, d authz.Decision, i *request.Info, rawQuery string, h http.Header) (
	*http.Response, error) {
	member, err := enterable(m.Find, i, u, d)
	if err != nil {
		return nil, err
	}
	path, raw := i.URLPath()
	if h = h.Clone(); h == nil {
		h = http.Header{}
	}
	relay.CutHeaders(h)
	nameCaller(h, u)
	r := (&http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: "member", Path: path, RawPath: raw, RawQuery: rawQuery},
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: h}).WithContext(context.WithValue(ctx, memberKey{}, member))
	resp, err := memberTransport{}.RoundTrip(r)
	if err == nil {
		if err = modifyMemberAnswer(resp); err == nil {
			return resp, nil
		}
		_ = resp.Body.Close()
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	answer := memberStatus(member.Name, err)
	if answer.ErrStatus.Code >= http.StatusInternalServerError {
		klog.ErrorS(err, "asking a member cluster failed", "cluster", member.Name, "path", path)
	}
	return nil, answer
}

// Caller returns the headers that name the caller to a member; nil for a user who can't enter members.
func (MemberReader) Caller(u user.Info) http.Header {
	if !isOfFleet(u) {
		return nil
	}
	h := http.Header{}
	nameCaller(h, u)
	return h
}
