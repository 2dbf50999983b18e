package dynamic

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// outgoing is a request to kube-apiserver.
type outgoing struct {
	method, path string
	query        url.Values
	contentType  string
	body         string
	accept       string // application/json where it is empty
}

// send sends a request for the caller. The request is parsed again, like the caller's own was, and must ask for the object that was
// authorized (S23).
func (o *writeRequest) send(out outgoing) (*redaction.Response, error) {
	ctx := o.in.Context()
	r, err := http.NewRequestWithContext(ctx, out.method, "/", strings.NewReader(out.body))
	if err != nil {
		return nil, fmt.Errorf("make a request for kube-apiserver: %w", err)
	}
	r.URL = &url.URL{Path: out.path, RawQuery: out.query.Encode()}
	info, err := o.translate(r)
	if err != nil {
		return nil, err
	}
	r = r.WithContext(request.WithInfo(ctx, info))
	r.RemoteAddr = o.in.RemoteAddr
	r.Header.Set("Accept", typeJSON)
	if out.accept != "" {
		r.Header.Set("Accept", out.accept)
	}
	if out.contentType != "" {
		r.Header.Set("Content-Type", out.contentType)
	}
	// kube-apiserver names the field manager by the client's program, where the query does not.
	for _, k := range []string{"User-Agent", "Audit-Id"} {
		if v := o.in.Header[k]; len(v) > 0 {
			r.Header[k] = v
		}
	}
	res, err := o.Kube.RoundTrip(r) //nolint:bodyclose // it goes along
	if err != nil {
		return nil, err
	}
	return redaction.Respond(res, o.kind.GVR.GroupResource()), nil
}

// translate parses a request to kube-apiserver, and refuses it unless it is about the object of the write.
func (o *writeRequest) translate(r *http.Request) (*request.Info, error) {
	info, err := request.Parse(r)
	if err != nil {
		return nil, err
	}
	is := o.info
	if !info.IsKubernetes || !info.IsResource || info.APIGroup != is.APIGroup || info.APIVersion != is.APIVersion ||
		info.Resource != is.Resource ||
		info.Namespace != is.Namespace || info.Name != is.Name ||
		info.Subresource != is.Subresource && info.Subresource != "" { // the object itself is read before its sub-resource is written
		return nil, status.NoResource()
	}
	return info, nil
}

// answer is what kube-apiserver answered. It is a web.Responder.
type answer struct {
	*redaction.Response
}

// reply sends the write itself, and answers its result.
func (o *writeRequest) reply(out outgoing) (any, error) {
	res, err := o.send(out)
	if err != nil {
		return nil, err
	}
	return &answer{res}, nil
}

// Respond implements web.Responder. Any success is 200, as clients of the routes expect; a failure has its own code.
func (a *answer) Respond(w http.ResponseWriter, r *http.Request) {
	defer a.Close()
	isJSON := strings.HasPrefix(a.Header.Get("Content-Type"), typeJSON)
	body, length, err := a.Shown()
	switch code := a.StatusCode; {
	case err != nil:
		web.WriteError(w, r, fmt.Errorf("read kube-apiserver's answer to a write: %w", err))
		return
	case code == http.StatusUnauthorized:
		// It is this server that was not authenticated: the caller need not log in again.
		web.WriteError(w, r, status.Errorf(http.StatusBadGateway,
			"kube-apiserver does not take this server's credentials: an administrator must renew them"))
		return
	case code >= 400 && !isJSON:
		text, _ := io.ReadAll(io.LimitReader(body, 1<<10))
		web.WriteError(w, r, apierrors.NewGenericServerResponse(code, strings.ToLower(r.Method), schema.GroupResource{}, "",
			strings.TrimSpace(string(text)), 0, true))
		return
	case code < 200 || code >= 300 && code < 400:
		web.WriteError(w, r, status.Errorf(http.StatusBadGateway, "kube-apiserver answered a write with %d", code))
		return
	}
	h := w.Header()
	for _, k := range []string{"Content-Type", "Warning", "Retry-After", "Audit-Id"} {
		if v := a.Header[k]; len(v) > 0 {
			h[k] = v
		}
	}
	h.Set("X-Content-Type-Options", "nosniff")
	if length >= 0 {
		h.Set("Content-Length", strconv.FormatInt(length, 10))
	}
	w.WriteHeader(a.code())
	defer web.WriteDeadline(w, r, max(length, 2*maxBody))()
	_, _ = io.Copy(w, body) // one of the two sides is gone: no one can be told
}

func (a *answer) code() int {
	if a.StatusCode < 300 {
		return http.StatusOK
	}
	return a.StatusCode
}

// readAnswer returns the object of a successful answer, and the error that any other is.
func readAnswer(res *redaction.Response) (redaction.Raw, error) {
	defer res.Close()
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusCreated {
		return res.Raw()
	}
	if s := res.Status(); s != nil && res.StatusCode != http.StatusUnauthorized {
		return redaction.Raw{}, &apierrors.StatusError{ErrStatus: *s}
	}
	return redaction.Raw{}, status.Errorf(http.StatusBadGateway, "kube-apiserver answered with %d", res.StatusCode)
}
