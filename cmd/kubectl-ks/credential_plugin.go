package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"

	"kapis.dev/ks-apiserver/pkg/kubeconfig"
)

const (
	// execInfo is the variable with kubectl's request.
	execInfo = "KUBERNETES_EXEC_INFO"
)

// tokenCommand is the credential plugin itself (client.authentication.k8s.io/v1).
func (p *program) tokenCommand() *cobra.Command {
	var t target
	var id bool
	cmd := &cobra.Command{
		Use: "token", Short: "Print a credential for kubectl, which runs this itself", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			interactive, err := p.readExecInfo(&t)
			if err != nil {
				return err
			}
			s, err := p.session(&t, p.way(t.device, interactive))
			if err != nil {
				return err
			}
			got, err := s.Token(cmd.Context())
			if err != nil {
				return hint(err)
			}
			out := clientauthv1.ExecCredential{
				TypeMeta: metav1.TypeMeta{APIVersion: clientauthv1.SchemeGroupVersion.String(), Kind: "ExecCredential"},
				Spec:     clientauthv1.ExecCredentialSpec{Interactive: interactive},
				Status:   &clientauthv1.ExecCredentialStatus{Token: got.Access},
			}
			if id {
				if out.Status.Token = got.ID; got.ID == "" {
					return errors.New("there is no ID token: it needs the scope openid")
				}
			}
			if !got.Expiry.IsZero() {
				out.Status.ExpirationTimestamp = &metav1.Time{Time: got.Expiry}
			}
			return json.NewEncoder(p.out).Encode(out)
		},
	}
	t.flags(cmd.Flags())
	cmd.Flags().BoolVar(&id, kubeconfig.FlagIDToken, false,
		"give the ID token, for a kube-apiserver that trusts the issuer itself, in the place of the access token")
	return cmd
}

// readExecInfo reads kubectl's request: whether the user can be asked, and the authority of the cluster.
func (p *program) readExecInfo(t *target) (interactive bool, err error) {
	text := p.env(execInfo)
	if text == "" { // called without kubectl
		return p.typed, nil
	}
	var in clientauthv1.ExecCredential
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return false, fmt.Errorf("read %s: %w", execInfo, err)
	}
	if want := clientauthv1.SchemeGroupVersion.String(); in.APIVersion != want || in.Kind != "ExecCredential" {
		return false, fmt.Errorf("kubectl asks for %s %s, and this plugin gives %s ExecCredential: set apiVersion in the kubeconfig's user",
			in.APIVersion, in.Kind, want)
	}
	if in.Spec.Cluster != nil {
		t.clusterCA = in.Spec.Cluster.CertificateAuthorityData
	}
	return in.Spec.Interactive, nil
}
