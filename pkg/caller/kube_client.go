// Package caller reads and writes at kube-apiserver for handlers, as the caller of the request that they answer.
package caller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/request"
)

// maxObject bounds an object that is read, in bytes: etcd takes smaller ones only.
const maxObject = 4 << 20

// ErrTooLarge says that an answer has more than is read of one: a list of fewer objects may have room.
var ErrTooLarge = fmt.Errorf("the answer has more than %d bytes", maxObject)

// Client sends requests to kube-apiserver as the caller in the context of a request. None is sent with this server's own rights.
type Client struct {
	// May decides whether the caller may make the request: it is another one than the one that was authorized.
	May authz.Authorizer
	// Kube sends a request as the caller of its context. proxy.Kube is one.
	Kube http.RoundTripper
}

// Order is a request to kube-apiserver.
type Order struct {
	// Method is GET, POST, PUT, PATCH or DELETE; Path is canonical, such as /api/v1/namespaces/a.
	Method, Path string
	// Query are the parameters. A DELETE has either them or a Body, as Deletion makes it: kube-apiserver would ignore the query of a DELETE
	// with a Body, and it may say dryRun.
	Query url.Values
	// Type is the media type of Body; empty means application/json.
	Type string
	Body []byte
	// For is the request that the order is sent for: its address and its User-Agent are sent along. It is nil if they mean nothing to
	// kube-apiserver.
	For *http.Request
	// Implied means that the right which allowed the request of the context is the right to this order too: an invitation to a workspace is
	// the right to write the binding that it consists of. Then the order is not authorized again here, kube-apiserver decides by the
	// synthetic group of that right, and the code that sets it must make sure that the order does exactly what was authorized.
	Implied bool
}

// Deletion returns the order to delete the object at a path. The dryRun of query counts in addition to that of options: kube-apiserver
// reads the query of a deletion only if there is no body.
func Deletion(path string, options metav1.DeleteOptions, query url.Values) (Order, error) {
	o := Order{Method: http.MethodDelete, Path: path}
	options.TypeMeta = metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}
	options.DryRun = append(slices.Clone(options.DryRun), query["dryRun"]...)
	var err error
	if o.Body, err = json.Marshal(options); err != nil {
		return o, o.failure(err)
	}
	return o, nil
}

// Get returns the object at a path.
func (c Client) Get(ctx context.Context, path string) (redaction.Raw, error) {
	return c.Do(ctx, Order{Method: http.MethodGet, Path: path})
}

// Do sends an order, and returns the object in the answer. If the answer is a Status, the error is that Status; if the order is refused
// here, it is authz.Forbidden's.
func (c Client) Do(ctx context.Context, o Order) (redaction.Raw, error) {
	body, err := c.do(ctx, o)
	return redaction.Received(string(body)), err
}

// Into is Do, and decodes the object in the answer into out as answers may show it: without managedFields and the hidden fields of gr.
func (c Client) Into(ctx context.Context, o Order, gr schema.GroupResource, out any) error {
	raw, err := c.Do(ctx, o)
	if err != nil {
		return err
	}
	shown, err := raw.Shown(gr)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(shown.String()), out); err != nil {
		return fmt.Errorf("read kube-apiserver's answer to %s %s: %w", o.Method, o.Path, err)
	}
	if object, ok := out.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return nil
}

func (c Client) do(ctx context.Context, o Order) ([]byte, error) {
	r, err := o.request(ctx)
	if err != nil {
		return nil, err
	}
	if r, err = c.permit(r, o.Implied); err != nil {
		return nil, err
	}
	resp, err := c.Kube.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxObject+1))
	switch {
	case err != nil:
		return nil, o.failure(err)
	case len(body) > maxObject:
		return nil, o.failure(ErrTooLarge)
	case resp.StatusCode < http.StatusMultipleChoices:
		return body, nil
	}
	var s metav1.Status
	if err := json.Unmarshal(body, &s); err != nil || s.Code == 0 || resp.StatusCode == http.StatusUnauthorized {
		return nil, o.failure(fmt.Errorf("kube-apiserver answers %d", resp.StatusCode))
	}
	return nil, &apierrors.StatusError{ErrStatus: s}
}

func (o Order) request(ctx context.Context) (*http.Request, error) {
	if o.Method == http.MethodDelete && len(o.Body) > 0 && len(o.Query) > 0 {
		return nil, o.failure(errors.New("the query of a deletion with a body would not be read"))
	}
	r, err := http.NewRequestWithContext(ctx, o.Method, "/", bytes.NewReader(o.Body))
	if err != nil {
		return nil, o.failure(err)
	}
	if len(o.Body) == 0 {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	r.URL = &url.URL{Path: o.Path, RawQuery: o.Query.Encode()}
	r.Header.Set("Accept", "application/json")
	if o.Type != "" {
		r.Header.Set("Content-Type", o.Type)
	} else if len(o.Body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	if o.For != nil {
		r.RemoteAddr = o.For.RemoteAddr
		if v := o.For.Header["User-Agent"]; len(v) > 0 {
			r.Header["User-Agent"] = v
		}
	}
	return r, nil
}

func (c Client) permit(r *http.Request, implied bool) (*http.Request, error) {
	if !implied {
		return authz.Permit(c.May, r)
	}
	ctx := r.Context()
	if request.UserFrom(ctx) == nil || !authz.DecisionFrom(ctx).Allowed() {
		return nil, fmt.Errorf("send %s %s as the caller: nothing was allowed that could imply it", r.Method, r.URL.Path)
	}
	info, err := request.Parse(r)
	if err != nil {
		return nil, err
	}
	return r.WithContext(request.WithInfo(ctx, info)), nil
}

func (o Order) failure(err error) error {
	return fmt.Errorf("%s %s as the caller: %w", o.Method, o.Path, err)
}

// DryRun returns the parameters of a dry run of the write that has these.
func DryRun(query url.Values) url.Values {
	out := url.Values{}
	maps.Copy(out, query)
	out.Set("dryRun", metav1.DryRunAll) // last: it overrides the caller's value
	return out
}
