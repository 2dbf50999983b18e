package redaction

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxAnswer bounds an answer that is read whole: an object and its managedFields, or an error.
const maxAnswer = 16 << 20

var errTooLong = errors.New("kube-apiserver's answer is too long")

// Response is kube-apiserver's answer about objects of a kind. Its body can be read as a Raw, or without hidden fields.
type Response struct {
	// StatusCode and Header are the answer's.
	StatusCode int
	Header     http.Header

	kind   schema.GroupResource
	body   io.ReadCloser
	length int64
}

// Respond returns the Response for an answer about objects of a kind.
func Respond(res *http.Response, kind schema.GroupResource) *Response {
	return &Response{StatusCode: res.StatusCode, Header: res.Header, kind: kind, body: res.Body, length: res.ContentLength}
}

// Close closes the body.
func (r *Response) Close() { _ = r.body.Close() }

// Raw reads the whole body.
func (r *Response) Raw() (Raw, error) {
	raw, err := io.ReadAll(io.LimitReader(r.body, maxAnswer+1))
	if err != nil {
		return Raw{}, fmt.Errorf("read kube-apiserver's answer: %w", err)
	}
	if len(raw) > maxAnswer {
		return Raw{}, errTooLong
	}
	return Received(string(raw)), nil
}

// Shown returns the body without hidden fields, and its length, or -1 if that is not known. For kinds that have some it reads the whole
// body; failures have none, and pass as they are.
func (r *Response) Shown() (io.Reader, int64, error) {
	if r.StatusCode >= http.StatusMultipleChoices || Of(r.kind) == nil {
		return r.body, r.length, nil
	}
	raw, err := r.Raw()
	if err != nil {
		return nil, 0, err
	}
	shown, err := raw.Shown(r.kind)
	return strings.NewReader(shown.text), int64(shown.Len()), err
}

// Status returns the Status of a failure, or nil if it has another body.
func (r *Response) Status() *metav1.Status {
	var s metav1.Status
	if r.StatusCode < http.StatusBadRequest || json.NewDecoder(io.LimitReader(r.body, maxAnswer)).Decode(&s) != nil || s.Kind != "Status" {
		return nil
	}
	return &s
}
