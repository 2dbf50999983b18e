package web

import (
	"net/http"
	"net/url"
	"strings"

	"kapis.dev/ks-apiserver/pkg/status"
)

// Parameters returns the known parameters of the query. It refuses one that differs from a known one only in upper and lower case: a
// dropped "dryrun" would be a real write.
func Parameters(r *http.Request, known ...string) (url.Values, error) {
	out := url.Values{}
	for name, values := range r.URL.Query() {
		for _, k := range known {
			if name == k {
				out[name] = values
			} else if strings.EqualFold(name, k) {
				return nil, status.BadRequestf("the parameter %.100q is unknown: it is written %s", name, k)
			}
		}
	}
	return out, nil
}

// WriteParameters returns the parameters of the write to kube-apiserver that a request stands for.
func WriteParameters(r *http.Request) (url.Values, error) {
	return Parameters(r, "dryRun", "fieldManager", "fieldValidation")
}
