package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
)

const (
	// fileTimeout bounds a request to a member with a chart or a package, and askTimeout any other.
	fileTimeout = 2 * time.Minute
	askTimeout  = 20 * time.Second
	// maxAnswer bounds an answer of a member, in bytes.
	maxAnswer = 8 << 20
)

// Refused says that a member has answered, and does not do what it was asked.
type Refused struct {
	Cluster string
	Code    int
	Message string
}

func (r *Refused) Error() string {
	return fmt.Sprintf("the member cluster %q refuses it (%d): %.500s", r.Cluster, r.Code, r.Message)
}

// Ask asks a member by POST, and reads its answer; into is nil where that says nothing.
func Ask(ctx context.Context, m *cluster.Member, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode what a member cluster is asked: %w", err)
	}
	return (&Request{Method: http.MethodPost, Path: path, Body: raw, Timeout: askTimeout, MaxAnswer: maxAnswer}).Send(ctx, m, into)
}

// SendFile sends a chart or a package to a member. The query has what ReadFile reads.
func SendFile(ctx context.Context, m *cluster.Member, path string, query url.Values, raw []byte) error {
	r := Request{Method: http.MethodPost, Path: path + "?" + query.Encode(), Body: raw, Timeout: fileTimeout, MaxAnswer: maxAnswer}
	return r.Send(ctx, m, nil)
}

// Request is what a hub asks a member over its link.
type Request struct {
	Method, Path string
	Body         []byte
	// Timeout bounds all of it, and MaxAnswer the answer, in bytes: a member is not trusted.
	Timeout   time.Duration
	MaxAnswer int64
}

// Send sends the request, and reads the answer; into is nil where that says nothing. The error is Refused where the member answers that it
// does not do it.
func (q *Request) Send(ctx context.Context, m *cluster.Member, into any) error {
	ctx, cancel := context.WithTimeout(cluster.AsHub(ctx), q.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, q.Method, "https://member"+q.Path, bytes.NewReader(q.Body))
	if err != nil {
		return err
	}
	resp, err := m.RoundTripHere(req)
	if err != nil {
		return fmt.Errorf("ask the member cluster %q for %s: %w", m.Name, req.URL.Path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, q.MaxAnswer))
	if err != nil {
		return fmt.Errorf("ask the member cluster %q for %s: %w", m.Name, req.URL.Path, err)
	}
	if resp.StatusCode != http.StatusOK {
		said := struct{ Message string }{}
		if json.Unmarshal(answer, &said) != nil || said.Message == "" {
			said.Message = "it runs an older version, which does not know this"
		}
		return &Refused{Cluster: m.Name, Code: resp.StatusCode, Message: said.Message}
	}
	if into == nil {
		return nil
	}
	if json.Unmarshal(answer, into) != nil {
		return fmt.Errorf("the answer of the member cluster %q to %s can't be read", m.Name, req.URL.Path)
	}
	return nil
}
