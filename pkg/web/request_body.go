package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"kapis.dev/ks-apiserver/pkg/status"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ReadBody reads a body of at most that many bytes, and trims the white space around it.
func ReadBody(r *http.Request, most int64) ([]byte, error) {
	var b bytes.Buffer
	if n := r.ContentLength; n > 0 && n <= most {
		b.Grow(int(n) + bytes.MinRead)
	}
	_, err := b.ReadFrom(io.LimitReader(r.Body, most+1))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, tooLong(long.Limit)
	case err != nil:
		return nil, status.BadRequestf("the body can't be read to its end")
	case int64(b.Len()) > most:
		return nil, tooLong(most)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

func tooLong(most int64) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body may have %d bytes at most", most))
}

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
