package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

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
