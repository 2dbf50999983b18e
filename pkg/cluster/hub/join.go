package hub

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/status"
)

// proof is the way in which a member proves which Cluster it is.
type proof int

const (
	byToken proof = iota
	byCertificate
	byInvitation
)

// Token returns a join token for a Cluster, and when it ends. The caller has the right to change the Cluster.
func (h *Hub) Token(c *clusterv1alpha1.Cluster) (string, time.Time, error) {
	return h.tokens.Issue(string(c.UID))
}

// Join lets a member in, or gives it its next certificate. Its errors are Statuses.
func (h *Hub) Join(ctx context.Context, r *join.Request) (*join.Answer, error) {
	uid, how, err := h.cluster(r)
	if err != nil {
		return nil, err
	}
	member := h.Members.ByUID(uid)
	if member == nil {
		return nil, h.deleted(ctx, uid)
	}
	return h.let(ctx, member, r, how)
}

// Invited lets a direct member in, which has answered its invitation.
func (h *Hub) Invited(ctx context.Context, m *cluster.Member, r *join.Request) (*join.Answer, error) {
	return h.let(ctx, m, r, byInvitation)
}

// let checks the request of a member, and signs its certificate.
func (h *Hub) let(ctx context.Context, member *cluster.Member, r *join.Request, how proof) (*join.Answer, error) {
	key, err := keyOf(r.CSR)
	if err != nil {
		return nil, err
	}
	if err := h.admit(ctx, member, r, how); err != nil {
		return nil, err
	}
	signed, err := h.Authority.Sign(key, link.MemberName(member.UID), certificateLife)
	if err != nil {
		return nil, err
	}
	return &join.Answer{Cluster: member.Name, UID: member.UID, Certificate: string(signed), Authorities: string(h.Authority.Bundle())}, nil
}

// keyOf returns the key of a certificate request.
func keyOf(text string) (*ecdsa.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, status.BadRequestf("csr has no certificate request in PEM")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || csr.CheckSignature() != nil {
		return nil, status.BadRequestf("csr can't be read, or is not signed by its key")
	}
	key, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, status.BadRequestf("the key of csr is not one on the curve P-256")
	}
	return key, nil
}

// cluster returns the UID of the Cluster that a request claims to be, and how it proves it.
func (h *Hub) cluster(r *join.Request) (uid string, how proof, err error) {
	if r.Token != "" {
		uid, err := h.tokens.Verify(r.Token)
		if errors.Is(err, join.ErrInvalid) {
			err = status.Forbiddenf("%v", err)
		}
		return uid, byToken, err
	}
	block, _ := pem.Decode([]byte(r.Certificate))
	if block == nil {
		return "", byCertificate, status.Forbiddenf("a member joins by a token, or renews by the certificate that it has")
	}
	refused := status.Forbiddenf("the certificate is not one of this fleet, or the request is not signed by its key: join with a new token")
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil || len(c.DNSNames) != 1 {
		return "", byCertificate, refused
	}
	key, ok := c.PublicKey.(*ecdsa.PublicKey)
	signature, err := base64.StdEncoding.DecodeString(r.Signature)
	sum := sha256.Sum256([]byte(r.CSR))
	if !ok || err != nil || !ecdsa.VerifyASN1(key, sum[:], signature) {
		return "", byCertificate, refused
	}
	rules := x509.VerifyOptions{Roots: h.Authority.Pool(), CurrentTime: h.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if _, err := c.Verify(rules); err != nil {
		return "", byCertificate, refused
	}
	uid, _, _ = strings.Cut(c.DNSNames[0], ".")
	if c.DNSNames[0] != link.MemberName(uid) {
		return "", byCertificate, refused
	}
	return uid, byCertificate, nil
}

// admit checks that a member may be the Cluster, and records that it has joined.
func (h *Hub) admit(ctx context.Context, m *cluster.Member, r *join.Request, how proof) error {
	if r.UID == "" || len(r.UID) > 64 {
		return status.BadRequestf("uid is not that of a namespace kube-system")
	}
	if r.UID == h.UID {
		return status.BadRequestf("this is the hub itself, which is no member: join from another cluster")
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		all, err := h.list(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(c clusterv1alpha1.Cluster) bool { return string(c.UID) == m.UID })
		if i < 0 || !all[i].DeletionTimestamp.IsZero() {
			return status.Errorf(http.StatusGone, "the Cluster %q has been deleted", m.Name)
		}
		c := &all[i]
		if err := h.may(c, all, r, how); err != nil || how == byCertificate {
			return err
		}
		if how == byToken {
			used := append(strings.Fields(c.Annotations[annotationUsed]), join.Used(r.Token))
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, annotationUsed, strings.Join(used[max(0, len(used)-tokensAtMost):], " "))
		}
		c.Status.UID = types.UID(r.UID)
		c.Status.KubernetesVersion, c.Status.KubeSphereVersion = clip(r.KubernetesVersion), clip(r.Version)
		h.set(c, clusterv1alpha1.ClusterInitialized, corev1.ConditionTrue, "Joined", "The cluster has joined the fleet.")
		return h.write(ctx, c)
	})
}

// may returns nil if a member may be a Cluster, and otherwise why not.
func (h *Hub) may(c *clusterv1alpha1.Cluster, all []clusterv1alpha1.Cluster, r *join.Request, how proof) error {
	if how != byInvitation && c.Spec.Connection.Type != clusterv1alpha1.ConnectionProxy {
		return status.Errorf(http.StatusConflict, "the Cluster %q has the connection type %q: only those of type proxy join"+
			" by a token", c.Name, c.Spec.Connection.Type)
	}
	if c.Status.UID != "" && string(c.Status.UID) != r.UID {
		err := status.Errorf(http.StatusConflict, "the Cluster %q is another one, with the UID %s: delete it, or create one"+
			" of another name", c.Name, c.Status.UID)
		if how == byInvitation { // the hub has dialled it
			return fmt.Errorf("%w: %w", link.ErrIdentity, err)
		}
		return err
	}
	for i := range all {
		if all[i].UID != c.UID && string(all[i].Status.UID) == r.UID {
			return status.Errorf(http.StatusConflict, "this cluster is in the fleet already, as %q", all[i].Name)
		}
	}
	if how == byToken && slices.Contains(strings.Fields(c.Annotations[annotationUsed]), join.Used(r.Token)) {
		return status.Forbiddenf("the join token has been used: it counts once; ask for a new one")
	}
	return nil
}
