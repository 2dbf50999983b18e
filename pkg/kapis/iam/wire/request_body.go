package wire

import (
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/web"
)

// MaxSmall is the size limit of a small body, in bytes.
const MaxSmall = 16 << 10

// Read decodes a small JSON object. Unknown members are ignored, since clients send more than is read; errors quote nothing of the body.
func Read(r *http.Request, into any) error {
	raw, err := web.ReadBody(r, MaxSmall)
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
	raw, err := web.ReadBody(r, MaxSmall)
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
