package child

import (
	"net/http"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// dryRuns is a transport that changes nothing, whoever writes: a write is sent as a dry run, and what can't be one is not sent. A deletion
// can't: kube-apiserver takes its options from the body where there is one, and not from the query.
type dryRuns struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (d dryRuns) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.Header.Get("Upgrade") != "":
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		return d.next.RoundTrip(r)
	case r.Method == http.MethodPost, r.Method == http.MethodPut, r.Method == http.MethodPatch:
		r = r.Clone(r.Context())
		q := r.URL.Query()
		q.Set("dryRun", "All")
		r.URL.RawQuery = q.Encode()
		return d.next.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close() // nothing was read of it
	}
	return nil, fault(helm.ReasonInvalid, "a preview sends no %s", r.Method)
}
