package queryclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Door is the API through which queries are sent.
type Door string

const (
	// Any is Kapis at a ks-apiserver, and Aggregated elsewhere.
	Any Door = ""
	// Kapis is ks-apiserver's own API.
	Kapis Door = "kapis"
	// Aggregated is query.kapis.dev, through kube-apiserver.
	Aggregated Door = "aggregated"
)

// Media types of answers.
const (
	JSON = "application/json"
	// Table is a meta.k8s.io/v1 Table, or JSON where there is none.
	Table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
)

const (
	queryGroup   = "query.kapis.dev"
	queryVersion = "v1alpha1"
	// maxAnswer bounds an answer, in bytes. It is more than a server sends.
	maxAnswer = 512 << 20
	// maxError bounds an error, in bytes.
	maxError = 1 << 20
)

// Client sends queries to one server.
type Client struct {
	// Door is the API that answers.
	Door Door

	http *http.Client
	base url.URL
	// all are the kinds that can be listed.
	all []Kind
}

// Open finds out which API answers at the server of a configuration, and which kinds it has. The error says what to do where none does, or
// not the one that through names.
func Open(ctx context.Context, config *rest.Config, through Door) (*Client, error) {
	c, err := newClient(config)
	if err != nil {
		return nil, err
	}
	if through != Aggregated {
		kapis, err := isKapis(ctx, config)
		switch {
		case err != nil:
			return nil, err
		case kapis && (config.Impersonate.UserName != "" || len(config.Impersonate.Groups) > 0):
			return nil, fmt.Errorf("%s is a ks-apiserver, which lets nobody act as another user: leave the impersonation out, or use a kubeconfig"+
				" of the cluster itself", config.Host)
		case kapis:
			c.Door = Kapis
			_, err := c.discover(ctx)
			return c, err
		case through == Kapis:
			return nil, fmt.Errorf("%s is no ks-apiserver: add a context of one with `kubectl ks kubeconfig --server URL`", config.Host)
		}
	}
	c.Door = Aggregated
	aggregated, err := c.discover(ctx)
	switch {
	case err != nil:
		return nil, err
	case aggregated:
		return c, nil
	case through == Aggregated:
		return nil, fmt.Errorf("%s does not serve %s: switch it on with aggregated.enabled in the configuration of ks-apiserver and of"+
			" ks-controller-manager (docs/aggregated.md)", config.Host, queryGroup)
	}
	return nil, fmt.Errorf("%s answers no queries: use a context of ks-apiserver (`kubectl ks kubeconfig --server URL` adds one), or switch on"+
		" queries through kube-apiserver with aggregated.enabled in the configuration of ks-apiserver and of ks-controller-manager"+
		" (docs/aggregated.md)", config.Host)
}

func newClient(config *rest.Config) (*Client, error) {
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	secure := config.CAFile != "" || len(config.CAData) > 0 || config.Insecure
	base, _, err := rest.DefaultServerURL(config.Host, "", schema.GroupVersion{}, secure)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	// The transport adds credentials to each request: they go to no other server.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{http: &http.Client{Transport: h.Transport, Timeout: h.Timeout, CheckRedirect: stay}, base: *base}, nil
}

// isKapis reports whether the server is a ks-apiserver. It is asked without impersonation, which a ks-apiserver refuses.
func isKapis(ctx context.Context, config *rest.Config) (bool, error) {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{}
	c, err := newClient(config)
	if err != nil {
		return false, err
	}
	text, err := c.get(ctx, "/kapis/version", nil, JSON)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return false, nil // kube-apiserver forbids unknown paths to most users
	}
	var v struct{ Kubernetes json.RawMessage }
	return err == nil && json.Unmarshal(text, &v) == nil && len(v.Kubernetes) > 0, err
}

// Query names objects.
type Query struct {
	Kind *Kind
	// Namespace is empty for all of them.
	Namespace string
	// Name is empty for a list.
	Name string
	// Fleet asks all clusters of the fleet that the parameter clusters names, of which Kapis alone knows.
	Fleet bool
	// Parameters are those of docs/queries.md.
	Parameters url.Values
}

// Get returns the answer to a query, in a media type, and whether it is of a partial list. The error of a server is an
// apierrors.StatusError.
func (c *Client) Get(ctx context.Context, q Query, accept string) ([]byte, bool, error) {
	res, err := c.send(ctx, c.path(q), q.Parameters, accept)
	if err != nil {
		return nil, false, err
	}
	defer res.Body.Close()
	text, err := readAll(res.Body)
	return text, res.Header.Get("X-Kapis-Partial") == "true", err
}

// Stream sends a query for a watch or a live page, and calls event for each of its events until that returns an error, the stream ends, or
// ctx does. An event of type ERROR is an error.
func (c *Client) Stream(ctx context.Context, q Query, accept string, event func(typ string, message json.RawMessage) error) error {
	res, err := c.send(ctx, c.path(q), q.Parameters, accept)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	for d := json.NewDecoder(res.Body); ; {
		var message json.RawMessage
		switch err := d.Decode(&message); {
		case errors.Is(err, io.EOF):
			return ctx.Err()
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return &brokenError{err}
		}
		var head struct {
			Type   string
			Object json.RawMessage
		}
		if err := json.Unmarshal(message, &head); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		if head.Type == "ERROR" {
			return statusError(head.Object, 0)
		}
		if err := event(head.Type, message); err != nil {
			return err
		}
	}
}

// brokenError is the error of a stream that did not end, but broke.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return "read the stream: " + e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// MayReopen reports whether a live page that ended with an error goes on when it is opened again.
func MayReopen(err error) bool {
	var broken *brokenError
	return errors.As(err, &broken) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// LiveSeconds returns how long a live page should last at most, in seconds, 0 for no limit of this side. kube-apiserver breaks off every
// answer that is no watch after a minute (its --request-timeout).
func (c *Client) LiveSeconds() int {
	if c.Door == Aggregated {
		return 50
	}
	return 0
}

// get returns the answer to a request.
func (c *Client) get(ctx context.Context, path string, parameters url.Values, accept string) ([]byte, error) {
	res, err := c.send(ctx, path, parameters, accept)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return readAll(res.Body)
}

func readAll(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = errors.New("it is too long")
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return text, nil
}

// send sends a request; an answer that is no success is its error.
func (c *Client) send(ctx context.Context, path string, parameters url.Values, accept string) (*http.Response, error) {
	u := c.base
	u.Path += path
	u.RawQuery = parameters.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", u.Host, err)
	}
	r.Header.Set("Accept", accept)
	res, err := c.http.Do(r)
	if err != nil {
		if cause := ctx.Err(); cause != nil {
			return nil, cause
		}
		var wrapped *url.Error
		if errors.As(err, &wrapped) { // without the parameters
			err = wrapped.Err
		}
		return nil, fmt.Errorf("connect to %s: %w", u.Host, err)
	}
	if res.StatusCode < http.StatusMultipleChoices {
		return res, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxError))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return nil, statusError(text, res.StatusCode)
}

// statusError returns the error of a Status, or, for an answer that is none, one of its code.
func statusError(text []byte, code int) error {
	var s metav1.Status
	if err := json.Unmarshal(text, &s); err == nil && s.Kind == "Status" && s.Status != metav1.StatusSuccess {
		return &apierrors.StatusError{ErrStatus: s}
	}
	err := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(code), //nolint:gosec // three digits
		Message: fmt.Sprintf("the server answers %d %s", code, http.StatusText(code))}}
	switch code {
	case http.StatusUnauthorized:
		err.ErrStatus.Reason = metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		err.ErrStatus.Reason = metav1.StatusReasonForbidden
	case http.StatusNotFound:
		err.ErrStatus.Reason = metav1.StatusReasonNotFound
	case http.StatusServiceUnavailable:
		err.ErrStatus.Reason = metav1.StatusReasonServiceUnavailable
	}
	return err
}
