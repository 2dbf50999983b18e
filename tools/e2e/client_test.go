package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/pace"
)

// patience bounds every wait for a condition. It is long, since CI machines are slow; a test that
// passes never waits for it.
const patience = 3 * time.Minute

// caller is who asks, and where.
type caller struct {
	base, token string
}

// transport keeps as many connections as tests ask at once. It follows no redirects. It gives a connection up long before the server does
// (3 minutes): a POST on one that ends at that moment fails, and is not sent again.
var transport = &http.Transport{MaxIdleConnsPerHost: askers, IdleConnTimeout: time.Minute}

// askers is how many questions the sweep asks at once. Most of them wait for the end of a watch.
const askers = 32

type reply struct {
	code   int
	header http.Header
	body   string
}

// list is both list shapes.
type list struct {
	Items []struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Spec   map[string]any `json:"spec"`
		Status map[string]any `json:"status"`
	} `json:"items"`
	TotalItems *int `json:"totalItems"`
	Metadata   struct {
		ResourceVersion    string `json:"resourceVersion"`
		Continue           string `json:"continue"`
		RemainingItemCount *int   `json:"remainingItemCount"`
	} `json:"metadata"`
}

func (l list) names() []string {
	names := make([]string, 0, len(l.Items))
	for _, i := range l.Items {
		names = append(names, i.Metadata.Name)
	}
	return names
}

// do asks once. The body is sent as JSON, unless a header says otherwise ("Name: value").
func (c caller) do(ctx context.Context, method, path string, body any, headers ...string) (reply, error) {
	return c.via(ctx, transport, method, path, body, headers...)
}

// via is do on connections of the caller's choice.
func (c caller) via(ctx context.Context, by http.RoundTripper, method, path string, body any, headers ...string) (reply, error) {
	var rd io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		rd = strings.NewReader(b)
	case io.Reader:
		rd = b
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return reply{}, err
		}
		rd = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, rd)
	if err != nil {
		return reply{}, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		req.Header.Set(k, v)
	}
	resp, err := by.RoundTrip(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(raw)}, err
}

// whenLoaded asks, and asks again while the answer is that the first list of the kind is under way, or that packages are sent to as many as
// can be, which it is for longer on a busy machine: such an answer says when to come back.
func (c caller) whenLoaded(ctx context.Context, method, path string, body any, headers ...string) (reply, error) {
	_, once := body.(io.Reader) // which is read by the first request
	late := time.After(patience)
	for {
		r, err := c.do(ctx, method, path, body, headers...)
		if err != nil || once || r.code != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" ||
			method != http.MethodHead && !strings.Contains(r.body, "first list is not complete yet") && // an answer to HEAD does not say
				!strings.Contains(r.body, "too many packages are sent at this moment") {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, nil
		case <-late:
			return r, nil
		case <-time.After(time.Second):
		}
	}
}

// watched asks for a watch of an object that ends after a second, and again while it has told of nothing by then, as on a busy machine. The
// answer is all that was told.
func (c caller) watched(ctx context.Context, path, name string, headers ...string) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var told strings.Builder
	for {
		r, err := c.whenLoaded(ctx, http.MethodGet, path, nil, headers...)
		told.WriteString(r.body)
		if r.body = told.String(); err != nil || r.code != http.StatusOK || strings.Contains(r.body, name) {
			return r, err
		}
	}
}

// must asks, once the kind is loaded, and fails the test unless the answer has the code.
func (c caller) must(t *testing.T, code int, method, path string, body any, headers ...string) reply {
	t.Helper()
	r, err := c.whenLoaded(t.Context(), method, path, body, headers...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if r.code != code {
		t.Fatalf("%s %s = %d %s, want %d", method, path, r.code, clip(r.body), code)
	}
	return r
}

func (c caller) list(t *testing.T, path string) list {
	t.Helper()
	return decode[list](t, c.must(t, http.StatusOK, http.MethodGet, path, nil).body)
}

func decode[T any](t *testing.T, body string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("decode %s: %v", clip(body), err)
	}
	return v
}

func clip(s string) string {
	if len(s) > 600 {
		return s[:600] + "..."
	}
	return s
}

// step is a part of a story: the parts after it build on it, so the story ends with the first that fails.
func step(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	if !t.Run(name, f) {
		t.FailNow()
	}
}

// eventually waits until f returns nil. It fails the test with f's last error.
func eventually(t *testing.T, what string, f func(ctx context.Context) error) time.Duration {
	t.Helper()
	return within(t, patience, what, f)
}

// within is eventually with a bound that the product promises.
func within(t *testing.T, bound time.Duration, what string, f func(ctx context.Context) error) time.Duration {
	t.Helper()
	start := time.Now()
	if err := pace.Until(t.Context(), bound, f); err != nil {
		t.Fatalf("%s: not within %v: %v", what, bound, err)
	}
	return time.Since(start)
}

// after returns a channel that is closed once bound is over, as within counts it.
func after(t *testing.T, bound time.Duration) <-chan struct{} {
	t.Helper()
	return pace.After(t.Context(), bound, anonymous().is(http.StatusOK, http.MethodGet, "/livez"))
}

// endsBy waits for the end of something, until late at most, and reports whether it has ended.
func endsBy(end, late <-chan struct{}) bool {
	select {
	case <-end:
		return true
	case <-late:
	}
	select { // of two that are closed, a select takes any
	case <-end:
		return true
	default:
		return false
	}
}

// is returns a condition: the answer has the code.
func (c caller) is(code int, method, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.do(ctx, method, path, nil)
		if err != nil {
			return err
		}
		if r.code != code {
			return fmt.Errorf("%s %s = %d %s, want %d", method, path, r.code, clip(r.body), code)
		}
		return nil
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// stored is an object as kube-apiserver has it: what it keeps and never shows through the product, too.
func stored(t *testing.T, path string) string {
	t.Helper()
	raw, err := kubeClient(t).RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(t.Context())
	if err != nil {
		t.Fatalf("GET %s at kube-apiserver: %v", path, err)
	}
	return string(raw)
}
