package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/authz"
)

// maxObject bounds an object that is read for a handler, in bytes: etcd takes smaller ones only.
const maxObject = 4 << 20

// asCaller reads at kube-apiserver for a handler, as the caller of the handler's request. Whether the
// caller may is decided as for a request of his own: here first, then by kube-apiserver. The request that
// is being answered gives no right to it.
type asCaller struct {
	may  authz.Authorizer
	kube http.RoundTripper
}

// Get returns the object at a path. The error of an answer that is a Status is that Status.
func (a asCaller) Get(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("read %s as the caller: %w", path, err)
	}
	r.Header.Set("Accept", "application/json")
	if r, err = authz.Permit(a.may, r); err != nil {
		return nil, err
	}
	resp, err := a.kube.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxObject+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s as the caller: %w", path, err)
	case len(body) > maxObject:
		return nil, fmt.Errorf("read %s as the caller: it has more than %d bytes", path, maxObject)
	case resp.StatusCode == http.StatusOK:
		return body, nil
	}
	var s metav1.Status
	if err := json.Unmarshal(body, &s); err != nil || s.Code == 0 {
		return nil, fmt.Errorf("read %s as the caller: kube-apiserver answers %d", path, resp.StatusCode)
	}
	return nil, &apierrors.StatusError{ErrStatus: s}
}
