package remote

import (
	"kapis.dev/ks-apiserver/pkg/git"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// gitAccount is the body of git/verify.
type gitAccount struct {
	// RemoteURL is the address of the repository.
	RemoteURL string `json:"remoteUrl"`
	// SecretRef names a Secret with username and password; none for a public repository.
	SecretRef *corev1.SecretReference `json:"secretRef,omitempty"`
}

// verifyGit reads a repository, with the account of a Secret that the caller may read.
func (m *Handler) verifyGit(r *restful.Request) (any, error) {
	ctx := r.Request.Context()
	var a gitAccount
	if err := body(r, &a); err != nil {
		return nil, err
	}
	var who git.Account
	if ref := a.SecretRef; ref != nil && (ref.Name != "" || ref.Namespace != "") {
		s, err := m.secret(ctx, ref.Namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		if len(s.Data[corev1.SSHAuthPrivateKey]) > 0 {
			return nil, apierrors.NewBadRequest("the Secret has an SSH key: repositories over SSH can't be checked")
		}
		who = git.Account{Username: string(s.Data[corev1.BasicAuthUsernameKey]), Password: string(s.Data[corev1.BasicAuthPasswordKey])}
		if who == (git.Account{}) {
			return nil, apierrors.NewBadRequest("the Secret has neither username nor password")
		}
	}
	if err := m.git.Verify(ctx, a.RemoteURL, who); err != nil {
		return nil, err
	}
	return message{"success"}, nil
}
