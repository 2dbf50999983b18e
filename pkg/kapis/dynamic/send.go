package dynamic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/web"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxAnswer bounds an answer that is read whole: an object and its managedFields, or an error.
const maxAnswer = 16 << 20

// outgoing is a request to kube-apiserver.
type outgoing struct {
	method, path string
	query        url.Values
	contentType  string
	body         string
	accept       string // application/json where it is empty
}

// send sends a request for the caller. What goes out is read once more, the way that the caller's own
// request was read, and must ask for the object that was authorized (S23).
func (o *order) send(out outgoing) (*http.Response, error) {
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
	return o.Kube.RoundTrip(r)
}

// translate reads a request to kube-apiserver, and refuses it unless it is about the object of the
// order.
func (o *order) translate(r *http.Request) (*request.Info, error) {
	info, err := request.Parse(r)
	if err != nil {
		return nil, err
	}
	is := o.info
	if !info.IsKubernetes || !info.IsResource || info.APIGroup != is.APIGroup || info.APIVersion != is.APIVersion || info.Resource != is.Resource ||
		info.Namespace != is.Namespace || info.Name != is.Name ||
		info.Subresource != is.Subresource && info.Subresource != "" { // the object itself is looked at before its sub-resource is written
		return nil, nothingHere()
	}
	return info, nil
}

// answer is what kube-apiserver answered. It is a web.Responder.
type answer struct {
	*http.Response
	// redaction takes out of the object what is hidden; nil for nothing.
	redaction *resource.Redaction
}

// reply sends the write itself, and answers with what comes of it.
func (o *order) reply(out outgoing) (any, error) {
	res, err := o.send(out) //nolint:bodyclose // answer closes it
	if err != nil {
		return nil, err
	}
	return o.answer(res), nil
}

func (o *order) answer(res *http.Response) *answer {
	a := &answer{Response: res}
	if o.info.Subresource == "" || o.info.Subresource == "status" {
		a.redaction = resource.RedactionOf(o.kind.GVR.GroupResource())
	}
	return a
}

// Respond implements web.Responder. Success is 200, as clients of the routes expect, whatever kind of
// success it is; a failure has its own code.
func (a *answer) Respond(w http.ResponseWriter, r *http.Request) {
	defer a.Body.Close()
	isJSON := strings.HasPrefix(a.Header.Get("Content-Type"), typeJSON)
	switch code := a.StatusCode; {
	case code == http.StatusUnauthorized:
		// It is this server that was not recognized: the caller need not log in again.
		web.WriteError(w, r, badGateway("kube-apiserver does not take this server's credentials: an administrator must renew them"))
		return
	case code >= 400 && !isJSON:
		text, _ := io.ReadAll(io.LimitReader(a.Body, 1<<10))
		web.WriteError(w, r, apierrors.NewGenericServerResponse(code, strings.ToLower(r.Method), schema.GroupResource{}, "", strings.TrimSpace(string(text)), 0, true))
		return
	case code < 200 || code >= 300 && code < 400:
		web.WriteError(w, r, badGateway(fmt.Sprintf("kube-apiserver answered a write with %d", code)))
		return
	}
	h := w.Header()
	for _, k := range []string{"Content-Type", "Warning", "Retry-After", "Audit-Id"} {
		if v := a.Header[k]; len(v) > 0 {
			h[k] = v
		}
	}
	h.Set("X-Content-Type-Options", "nosniff")
	if a.redaction != nil && a.StatusCode < 300 {
		a.writeCut(w, r)
		return
	}
	if a.ContentLength >= 0 {
		h.Set("Content-Length", strconv.FormatInt(a.ContentLength, 10))
	}
	w.WriteHeader(a.code())
	_, _ = io.Copy(w, a.Body) // one of the two sides is gone: nobody is left to tell
}

func (a *answer) code() int {
	if a.StatusCode < 300 {
		return http.StatusOK
	}
	return a.StatusCode
}

// writeCut writes an object without what is hidden. What is no object of the kind (the Status of a
// deletion, a list of what was deleted) is cut too, where it has the same members.
func (a *answer) writeCut(w http.ResponseWriter, r *http.Request) {
	text, err := readAll(a.Response)
	if err == nil {
		text, err = redacted(text, a.redaction)
	}
	if err != nil {
		web.WriteError(w, r, fmt.Errorf("read kube-apiserver's answer to a write: %w", err))
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, text) // the client is gone: nobody is left to tell
}

func redacted(text string, x *resource.Redaction) (string, error) {
	if items := rawjson.Get(text, "items"); items != "" {
		out := []byte{'['}
		for e := rawjson.Array(items); e.Next(); {
			if len(out) > 1 {
				out = append(out, ',')
			}
			var err error
			if out, err = x.Append(out, e.Value); err != nil {
				return "", err
			}
		}
		return with(text, string(append(out, ']')), "items"), nil
	}
	out, err := x.Append(nil, text)
	return string(out), err
}

// read returns the text of a successful answer, and the error that any other is.
func read(res *http.Response) (string, error) {
	defer res.Body.Close()
	text, err := readAll(res)
	if err != nil {
		return "", err
	}
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusCreated {
		return text, nil
	}
	var s metav1.Status
	if err := json.Unmarshal([]byte(text), &s); err != nil || s.Kind != "Status" || res.StatusCode == http.StatusUnauthorized {
		return "", badGateway(fmt.Sprintf("kube-apiserver answered with %d", res.StatusCode))
	}
	return "", &apierrors.StatusError{ErrStatus: s}
}

func readAll(res *http.Response) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return "", fmt.Errorf("read kube-apiserver's answer: %w", err)
	}
	if len(raw) > maxAnswer {
		return "", errTooLong
	}
	return string(raw), nil
}

var errTooLong = errors.New("kube-apiserver's answer is too long")
