package wire

import (
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
