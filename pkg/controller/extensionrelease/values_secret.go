package extensionrelease

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// SecretValues are the values of a release that are kept in a Secret, and none where there is no such Secret.
type SecretValues struct {
	// Secret is the Secret's name; empty for none.
	Secret string
	YAML   []byte
	// Version is the Secret's resourceVersion.
	Version string
	// Stamp identifies the Secret as it is, for an approval. It says nothing of what the Secret has: whoever reads a plan could try passwords
	// on a digest of them. So the same values written once more have another one.
	Stamp string
}

// SeveralSecretsError says that more than one Secret has the values of an extension.
type SeveralSecretsError struct {
	N                    int
	Extension, Namespace string
}

func (e *SeveralSecretsError) Error() string {
	return fmt.Sprintf("%d Secrets in %s have the label %s=%s: one may", e.N, e.Namespace, v1alpha1.LabelValues, e.Extension)
}

// SecretValuesOf reads the values of an extension that are kept in a Secret in the namespace of its release.
func SecretValuesOf(ctx context.Context, live client.Reader, extension, namespace string) (SecretValues, error) {
	secrets := &corev1.SecretList{}
	if err := live.List(ctx, secrets, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelValues: extension}); err != nil {
		return SecretValues{}, fmt.Errorf("read the Secret with values of %s: %w", extension, err)
	}
	switch len(secrets.Items) {
	case 0:
		return SecretValues{}, nil
	case 1:
	default:
		return SecretValues{}, &SeveralSecretsError{len(secrets.Items), extension, namespace}
	}
	s := &secrets.Items[0]
	text, err := json.Marshal([]string{s.Namespace, s.Name, string(s.UID), s.ResourceVersion})
	if err != nil {
		return SecretValues{}, fmt.Errorf("encode which Secret it is: %w", err)
	}
	sum := sha256.Sum256(text)
	return SecretValues{s.Name, s.Data[v1alpha1.SecretValues], s.ResourceVersion, hex.EncodeToString(sum[:])}, nil
}
