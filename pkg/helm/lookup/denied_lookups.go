// Package lookup is between the templates of charts and kube-apiserver, which they ask by their function lookup: what they may not read is
// noted, and what they read of Secrets is hidden.
package lookup

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// maxLookups bounds what is noted of a chart.
const maxLookups = 100

// notThere is what kube-apiserver answers where an object is not there.
const notThere = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`

// Denied are what templates may not read. Its zero value has nothing.
type Denied struct {
	mu    sync.Mutex
	found []helm.Lookup
}

// Transport returns a transport that takes what templates may not read for what is not there, as it is where a chart is rendered without a
// cluster, and notes it.
func (d *Denied) Transport(next http.RoundTripper) http.RoundTripper { return noting{d, next} }

type noting struct {
	*Denied
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (l noting) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusForbidden || r.Method != http.MethodGet {
		return answer, err
	}
	is, ok := lookupOf(r.URL.Path)
	if !ok || !l.note(is) {
		return answer, nil
	}
	_ = answer.Body.Close() // it says which right is missing
	answer.StatusCode, answer.Status = http.StatusNotFound, "404 Not Found"
	answer.Body, answer.ContentLength = io.NopCloser(strings.NewReader(notThere)), int64(len(notThere))
	answer.Header = http.Header{"Content-Type": {"application/json"}}
	return answer, nil
}

// note notes what is looked for, once; false where that is too much.
func (d *Denied) note(is helm.Lookup) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case slices.Contains(d.found, is):
		return true
	case len(d.found) == maxLookups:
		return false
	}
	d.found = append(d.found, is)
	return true
}

// All returns the noted lookups.
func (d *Denied) All() []helm.Lookup {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.found)
}

// lookupOf returns what a path of kube-apiserver reads: an object, or all of a kind.
func lookupOf(path string) (l helm.Lookup, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		l.Group, parts = parts[1], parts[3:]
	default:
		return l, false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		l.Namespace, parts = parts[1], parts[2:]
	}
	switch len(parts) {
	case 1:
		l.Resource = parts[0]
	case 2:
		l.Resource, l.Name = parts[0], parts[1]
	default:
		return l, false
	}
	return l, true
}
