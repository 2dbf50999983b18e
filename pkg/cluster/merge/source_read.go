package merge

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/answertext"
	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// maxSources bounds the clusters of one question.
	maxSources = 512
	// maxError bounds the answer of a cluster that is an error.
	maxError = 64 << 10
)

// Source is a cluster that may be asked, as the caller of one request.
type Source struct {
	// Name is that of the cluster, and UID tells it from another one that had the name before.
	Name, UID string
	// Own says that the cluster is this one, whose Tables have the columns that all have.
	Own bool
	// Missing says why the cluster is not asked, nil where it is.
	Missing *Missing
	// Ask sends a GET with parameters for the path of the request to the cluster. The body of the answer has to be closed.
	Ask func(ctx context.Context, parameters url.Values, header http.Header) (*http.Response, error)
}

// Missing is a cluster whose objects are not in an answer, and why.
type Missing struct {
	Name   string      `json:"name"`
	Reason Reason      `json:"reason"`
	Since  metav1.Time `json:"since,omitzero"`
}

// Reason is why a cluster is missing.
type Reason string

// The reasons.
const (
	NotReady    Reason = "NotReady"
	Unreachable Reason = "Unreachable"
	Timeout     Reason = "Timeout"
	Unsupported Reason = "Unsupported"
	Faulty      Reason = "Faulty"
)

// outcome is why a source gave no rows.
type outcome struct {
	// reason is why it is missing, "" where it is not: refused says that the caller may not see anything there, and absent that the cluster
	// has no such kind.
	reason          Reason
	refused, absent bool
	// status is what the cluster said, nil for nothing: its words and its causes, under a reason of this server's.
	status *apierrors.StatusError
}

func (o *outcome) Error() string {
	if o.status != nil {
		return o.status.ErrStatus.Message
	}
	return "the cluster gave no answer that can be used: " + string(o.reason)
}

func faulty() error { return &outcome{reason: Faulty} }

// guarded returns what f returns; where it panics, the cluster is faulty whose answer it reads, and nothing else ends by that.
func guarded(s *Source, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			klog.ErrorS(nil, "panic in reading the answer of a cluster", "cluster", s.Name, "panic", p, "stack", string(debug.Stack()))
			err = faulty()
		}
	}()
	return f()
}

// read has f read the answer of the cluster to parameters: at most so many bytes, which say that they are JSON, and which grow counts. The
// error is an *outcome.
func (s *Source) read(ctx context.Context, parameters url.Values, header http.Header, most int64, grow answertext.Grow,
	f func(text string) error,
) error {
	resp, err := s.Ask(ctx, parameters, header)
	if err != nil {
		return failed(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return refused(resp)
	}
	if !answertext.IsJSON(resp.Header) {
		return faulty()
	}
	text, err := answertext.Text(resp, most, grow)
	var large *outcome
	switch {
	case errors.As(err, &large):
		return large
	case err != nil:
		return unanswered(ctx)
	}
	if int64(len(text)) > most {
		return faulty()
	}
	if err := f(text); err != nil {
		return err
	}
	if answertext.End(resp) != nil {
		return unanswered(ctx)
	}
	return nil
}

// failed is the outcome of a cluster that could not be asked. A Status says why.
func failed(ctx context.Context, err error) error {
	var api *apierrors.StatusError
	if ctx.Err() != nil || !errors.As(err, &api) {
		return unanswered(ctx)
	}
	o := &outcome{reason: Faulty}
	o.judge(int(api.ErrStatus.Code), api.ErrStatus.Reason)
	return o
}

// unanswered is the outcome of a cluster that did not answer to the end.
func unanswered(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &outcome{reason: Timeout}
	}
	return &outcome{reason: Unreachable}
}

// refused is the outcome of an answer that is an error.
func refused(resp *http.Response) error {
	o := &outcome{reason: Faulty}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	said := &metav1.Status{}
	if err != nil || !answertext.IsJSON(resp.Header) || json.Unmarshal(text, said) != nil {
		said = &metav1.Status{}
	}
	// Nothing that a cluster says may look like the end of the caller's login here: no code 401, and no reason but that of the code.
	switch code := resp.StatusCode; code {
	case http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest:
		o.status = status.Errorf(code, "%.1024s", said.Message)
		if said.Details != nil {
			o.status.ErrStatus.Details = &metav1.StatusDetails{Causes: said.Details.Causes[:min(len(said.Details.Causes), 8)]}
		}
	}
	o.judge(resp.StatusCode, said.Reason)
	return o
}

// judge classifies a cluster by the code and the reason of its error.
func (o *outcome) judge(code int, why metav1.StatusReason) {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNetworkAuthenticationRequired:
		o.reason, o.refused = "", true
	case http.StatusNotFound:
		o.reason, o.absent = "", true
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusNotImplemented, http.StatusGone:
		o.reason = Unsupported
	case http.StatusTooManyRequests:
		o.reason = NotReady
	case http.StatusServiceUnavailable:
		o.reason = NotReady
		if why == "ClusterUnreachable" {
			o.reason = Unreachable
		}
	case http.StatusGatewayTimeout:
		o.reason = Timeout
	}
}

// invalid reports whether a cluster found fault with a parameter that is the client's own.
func (o *outcome) invalid() bool {
	if o == nil || o.status == nil || o.status.ErrStatus.Code != http.StatusBadRequest || o.status.ErrStatus.Details == nil {
		return false
	}
	own := []string{"view", "cursor", "offset", "every"}
	return !slices.ContainsFunc(o.status.ErrStatus.Details.Causes, func(c metav1.StatusCause) bool { return slices.Contains(own, c.Field) })
}

// missing returns the entry of a cluster that is missing.
func (s *Source) missing(r Reason, now time.Time) Missing {
	return Missing{Name: s.Name, Reason: r, Since: metav1.NewTime(now)}
}
