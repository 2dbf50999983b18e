package identity

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/pace"
)

// patience bounds every wait for a condition. It is long, since CI machines are slow; a test that
// passes never waits for it.
const patience = 3 * time.Minute

const formType = "application/x-www-form-urlencoded"

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// call sends a request to an address and follows nothing. The body is url.Values (a form), a string or nil; headers are
// "Name: value", and one that is given twice is sent twice.
func call(t *testing.T, method, address string, body any, headers ...string) answer {
	t.Helper()
	a, err := try(t.Context(), method, address, body, headers...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, address, err)
	}
	return a
}

func try(ctx context.Context, method, address string, body any, headers ...string) (answer, error) {
	var text string
	header := http.Header{}
	switch b := body.(type) {
	case url.Values:
		text = b.Encode()
		header.Set("Content-Type", formType)
	case string:
		text = b
		header.Set("Content-Type", formType)
	}
	given := map[string]bool{}
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		if !given[k] {
			header.Del(k)
		}
		given[k] = true
		header.Add(k, v)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(text))
	if err != nil {
		return answer{}, err
	}
	req.Header = header
	if host := header.Get("Host"); host != "" {
		req.Host = host
		req.Header.Del("Host")
	}
	resp, err := wire.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(raw)}, err
}

// get asks the product, with a bearer token unless it is "".
func get(t *testing.T, path, token string, headers ...string) answer {
	t.Helper()
	return call(t, http.MethodGet, issuer+path, nil, append(bearer(token), headers...)...)
}

func bearer(token string) []string {
	if token == "" {
		return nil
	}
	return []string{"Authorization: Bearer " + token}
}

// field returns a member of a JSON object as text; "" where it is none.
func (a answer) field(name string) string {
	s, _ := a.object()[name].(string)
	return s
}

// object is the body as a JSON object; nil where it is none.
func (a answer) object() (v map[string]any) {
	_ = json.Unmarshal([]byte(a.body), &v) // nil says it
	return v
}

// is fails the test unless the answer has the status.
func (a answer) is(t *testing.T, status int) answer {
	t.Helper()
	if a.status != status {
		t.Errorf("%d %s, want %d", a.status, clip(a.body), status)
	}
	return a
}

// must is is, and ends the test.
func (a answer) must(t *testing.T, status int) answer {
	t.Helper()
	if a.is(t, status); t.Failed() {
		t.FailNow()
	}
	return a
}

// fails fails the test unless the answer is an error of OAuth with that status and that name.
func (a answer) fails(t *testing.T, status int, name string) answer {
	t.Helper()
	if a.status != status || a.field("error") != name {
		t.Errorf("%d %s, want %d %s", a.status, clip(a.body), status, name)
	}
	return a
}

func clip(s string) string {
	if len(s) > 600 {
		return s[:600] + "..."
	}
	return s
}

// eventually waits until f returns nil. It fails the test with f's last error.
func eventually(t *testing.T, what string, f func(ctx context.Context) error) {
	t.Helper()
	within(t, patience, what, f)
}

// within is eventually with a bound that the product promises.
func within(t *testing.T, bound time.Duration, what string, f func(ctx context.Context) error) {
	t.Helper()
	if err := pace.Until(t.Context(), bound, f); err != nil {
		t.Fatalf("%s: not within %v: %v", what, bound, err)
	}
}
