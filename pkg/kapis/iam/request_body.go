package iam

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// maxSmall bounds the bodies of requests that have a few words only, in bytes.
const maxSmall = 16 << 10

// readUpTo reads a body of so many bytes at most, less the white space around it.
func readUpTo(r *http.Request, most int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	if err != nil {
		return nil, apierrors.NewBadRequest("the body can't be read to its end")
	}
	if int64(len(raw)) > most {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body may have %d bytes at most", most))
	}
	return bytes.TrimSpace(raw), nil
}

// read reads a JSON object of a few words. Members that are not known are passed over, since clients send more than is read; nothing
// of the body is in an error.
func read(r *http.Request, into any) error {
	raw, err := readUpTo(r, maxSmall)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return apierrors.NewBadRequest("the body is not the JSON object that is expected here")
	}
	return nil
}
