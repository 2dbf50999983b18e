package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/request"
)

// WritePassword writes the hash of a new password to a User, as by: whether he may is decided as for a PATCH of his own, here first, then
// by kube-apiserver. It is an iam.PasswordWriter.
func (a asCaller) WritePassword(ctx context.Context, by user.Info, u *iam.User, hash string) error {
	metadata := map[string]any{"uid": u.UID} // and of no user made anew under the name
	if by.GetName() == u.Name && u.Uninitialized {
		metadata["annotations"] = map[string]any{iamv1beta1.AnnotationUninitialized: nil}
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata, "spec": map[string]any{"password": hash}})
	if err != nil {
		return fmt.Errorf("write the password of user %q: %w", u.Name, err)
	}
	ctx = request.WithUser(ctx, by)
	r, err := http.NewRequestWithContext(ctx, http.MethodPatch, "/apis/"+iamv1beta1.GroupName+"/v1beta1/users/"+u.Name, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("write the password of user %q: %w", u.Name, err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", "application/merge-patch+json")
	if r, err = authz.Permit(a.may, r); err != nil {
		return err
	}
	resp, err := a.kube.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxObject))
	var s metav1.Status
	if err != nil || json.Unmarshal(raw, &s) != nil || s.Code == 0 || s.Code == http.StatusUnauthorized {
		return fmt.Errorf("write the password of user %q: kube-apiserver answers %d", u.Name, resp.StatusCode)
	}
	return &apierrors.StatusError{ErrStatus: s}
}
