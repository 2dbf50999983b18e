package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/status"
)

// MaxSmall is the size limit of a small body, in bytes.
const MaxSmall = 16 << 10

// ReadUpTo reads a body of at most so many bytes, and trims the white space around it.
func ReadUpTo(r *http.Request, most int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	if err != nil {
		return nil, apierrors.NewBadRequest("the body can't be read to its end")
	}
	if int64(len(raw)) > most {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body may have %d bytes at most", most))
	}
	return bytes.TrimSpace(raw), nil
}

// Read decodes a small JSON object. Unknown members are ignored, since clients send more than is read; errors quote nothing of the body.
func Read(r *http.Request, into any) error {
	raw, err := ReadUpTo(r, MaxSmall)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return apierrors.NewBadRequest("the body is not the JSON object that is expected here")
	}
	return nil
}

// ReadDeleteOptions reads the body of a deletion, which may be empty.
func ReadDeleteOptions(r *http.Request) (*metav1.DeleteOptions, error) {
	raw, err := ReadUpTo(r, MaxSmall)
	if err != nil {
		return nil, err
	}
	o := &metav1.DeleteOptions{}
	if len(raw) == 0 {
		return o, nil
	}
	if err := json.Unmarshal(raw, o); err != nil {
		return nil, apierrors.NewBadRequest("the body is not DeleteOptions")
	}
	return o, nil
}

// WriteParams returns the parameters of a write that are passed on with every write to kube-apiserver that it stands for. One with
// other capitals is refused: a dropped "dryrun" would write for real.
func WriteParams(r *http.Request) (url.Values, error) {
	out := url.Values{}
	for name, values := range r.URL.Query() {
		for _, known := range []string{"dryRun", "fieldManager", "fieldValidation"} {
			if name == known {
				out[name] = values
			} else if strings.EqualFold(name, known) {
				return nil, status.BadRequestf("the parameter %.100q is written %s", name, known)
			}
		}
	}
	return out, nil
}
