package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// limitedSilence is the body of an answer, which ends if it pauses for too long.
type limitedSilence struct {
	io.ReadCloser
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func newLimitedSilence(body io.ReadCloser, cancel context.CancelCauseFunc) io.ReadCloser {
	return &limitedSilence{body, time.AfterFunc(silenceTimeout, func() { cancel(errors.New("the backend is silent")) }), cancel}
}

func (s *limitedSilence) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err == nil { // else it would run on, and hold what it would end
		s.timer.Reset(silenceTimeout)
	}
	return n, err
}

func (s *limitedSilence) Close() error {
	s.timer.Stop()
	defer s.cancel(nil)
	return s.ReadCloser.Close()
}

// modifyAnswer decides whether the answer of a backend may go to the client, and which of its headers.
func modifyAnswer(res *http.Response) error {
	c := callOf(res.Request)
	d := c.backend.Directives
	if res.StatusCode == http.StatusUnauthorized {
		return relay.Because(ReasonUnauthorized, status.Errorf(http.StatusBadGateway, "the backend of the %s %s does not accept who you are:"+
			" it has to trust the headers X-Remote-*, or the token in Authorization", c.backend.Kind, c.backend.Name))
	}
	if d != nil {
		if d.MapLinks {
			mapPageLinks(res, c.backend.Base)
		}
		location := res.Header["Location"]
		d.Down(res.Header)
		setOrDelete(res.Header, "Location", location) // it is checked below
	}
	set := res.Cookies()
	if err := relay.ModifyAnswer(res, c.mapRedirect); err != nil {
		return err
	}
	h := res.Header
	delete(h, "Www-Authenticate")
	for _, cookie := range set {
		if own := c.cookie(cookie); own != "" {
			h["Set-Cookie"] = append(h["Set-Cookie"], own)
		}
	}
	if types := h["Content-Type"]; len(types) > 1 {
		h["Content-Type"] = types[:1]
	}
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if d == nil && (err != nil || strings.Contains(media, "html") || strings.Contains(media, "xml")) {
		h["Content-Security-Policy"] = []string{"sandbox"} // an API has no pages
	}
	return nil
}

// cookie returns a cookie that a backend sets, as the client is told: for the paths of the backend alone; "" if it may not be set.
func (c *call) cookie(in *http.Cookie) string {
	if ownCookie(in.Name) {
		return ""
	}
	in.Domain = ""
	if in.Path == "" || in.Path != c.backend.Base && !strings.HasPrefix(in.Path, c.backend.Base+"/") {
		in.Path = c.backend.Base
	}
	return in.String()
}

// mapRedirect maps a redirect of a backend to the path that it has here. One that leads elsewhere is no answer.
func (c *call) mapRedirect(res *http.Response, upgrade bool) error {
	refused := relay.Because(ReasonAnswer, status.Errorf(http.StatusBadGateway,
		"the backend of the %s %s answers with a redirect (%d) that leads away from its own paths", c.backend.Kind, c.backend.Name,
		res.StatusCode))
	d := c.backend.Directives
	if d == nil || d.RejectRedirects || upgrade {
		return refused
	}
	location := res.Header.Get("Location")
	to, err := url.Parse(location)
	if err != nil || location == "" || to.Opaque != "" || to.User != nil {
		return refused
	}
	to = res.Request.URL.ResolveReference(to)
	at := c.backend.Address
	rest, below := strings.CutPrefix(to.Path, at.Path)
	if to.Scheme != at.Scheme || to.Host != at.Host || !below || rest != "" && rest[0] != '/' {
		return refused
	}
	path := d.Restore(rest)
	if !c.backend.Within(path) || !extension.SoundPath(path) {
		return refused
	}
	info := request.InfoFrom(res.Request.Context())
	if info != nil && info.Cluster != "" {
		path = "/clusters/" + info.Cluster + path
	}
	res.Header["Location"] = []string{(&url.URL{Path: path, RawQuery: to.RawQuery, Fragment: to.Fragment}).String()}
	return nil
}

// answerError answers a request whose backend did not answer, or whose answer must not be passed on. The cause is only logged, since it
// may name addresses.
func answerError(w http.ResponseWriter, r *http.Request, err error) {
	if relay.AnsweredEnd(w, r) {
		return
	}
	b := callOf(r).backend
	answer := statusOf(b, err)
	if answer.ErrStatus.Code >= http.StatusInternalServerError {
		klog.ErrorS(err, "passing a request to the backend of an extension failed", "kind", b.Kind, "name", b.Name,
			"method", r.Method, "path", r.URL.Path)
	}
	web.WriteError(w, r, answer)
}

func statusOf(b *extension.Backend, err error) *apierrors.StatusError {
	if told := relay.Told(err); told != nil {
		return told
	}
	var (
		refused *relay.RefusedAnswer
		op      *net.OpError
	)
	switch {
	case errors.As(err, &refused):
		return relay.Because(ReasonAnswer, relay.BadGateway(fmt.Sprintf(
			"the backend of the %s %s gave an answer that is not passed on: %s", b.Kind, b.Name, refused.Reason)))
	case errors.Is(err, extension.ErrHeaderTimeout):
		return relay.Because(ReasonTimeout, status.RetryAfter(5, status.Errorf(http.StatusGatewayTimeout,
			"the backend of the %s %s has not begun to answer in time", b.Kind, b.Name)))
	case errors.As(err, &op) && op.Op == "dial":
		return relay.Because(ReasonUnavailable, status.RetryAfter(5, status.Errorf(http.StatusServiceUnavailable,
			"the backend of the %s %s can't be reached: the log of this server says why", b.Kind, b.Name)))
	}
	return relay.Because(ReasonAnswer, relay.BadGateway(fmt.Sprintf("the backend of the %s %s did not answer as it should", b.Kind,
		b.Name)))
}
