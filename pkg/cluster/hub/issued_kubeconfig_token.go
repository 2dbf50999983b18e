package hub

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/token"
)

// KubeconfigUser begins the name of the user in the kubeconfig of a Cluster; the name of the Cluster follows. No User has such a name: none
// of an object has a colon.
const KubeconfigUser = "kubeconfig:"

// kubeconfigLife is how old the token in a kubeconfig becomes.
const kubeconfigLife = 15 * 24 * time.Hour

var errKubeconfigToken = errors.New("the token in the kubeconfig of a Cluster is not one of this hub, or its Cluster has another one, or" +
	" none: read spec.connection.kubeconfig again")

// kubeconfigToken returns a token for the kubeconfig of the Cluster with a UID. It is made by a key, and stored nowhere but there.
func (h *Hub) kubeconfigToken(uid string) (string, error) {
	said := base64.RawURLEncoding.EncodeToString([]byte(uid + " " + strconv.FormatInt(h.Now().Unix(), 10)))
	mac, err := h.kubeconfigMAC(said)
	if err != nil {
		return "", err
	}
	return token.ClusterPrefix + said + "." + base64.RawURLEncoding.EncodeToString(mac), nil
}

func (h *Hub) kubeconfigMAC(said string) ([]byte, error) {
	key, err := h.Authority.Derive("kubeconfigs of Clusters")
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(said))
	return mac.Sum(nil), nil
}

// verifyKubeconfigToken returns the UID of the Cluster that a token was made for, and when.
func (h *Hub) verifyKubeconfigToken(s string) (uid string, made time.Time, err error) {
	rest, found := strings.CutPrefix(s, token.ClusterPrefix)
	said, text, cut := strings.Cut(rest, ".")
	got, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !found || !cut || err != nil {
		return "", time.Time{}, errKubeconfigToken
	}
	want, err := h.kubeconfigMAC(said)
	if err != nil {
		return "", time.Time{}, err
	}
	if !hmac.Equal(got, want) {
		return "", time.Time{}, errKubeconfigToken
	}
	raw, err := base64.RawURLEncoding.DecodeString(said) // this hub's own from here on
	uid, at, _ := strings.Cut(string(raw), " ")
	n, notNumber := strconv.ParseInt(at, 10, 64)
	if err != nil || notNumber != nil {
		return "", time.Time{}, errKubeconfigToken
	}
	return uid, time.Unix(n, 0), nil
}

// AuthenticateToken returns the user in the kubeconfig of a Cluster, who is somebody at that cluster alone. A token counts while the
// Cluster has it. Its error is a Status of 503 where the Cluster may have it, and is only not known as it is now.
func (h *Hub) AuthenticateToken(_ context.Context, s string) (*authenticator.Response, bool, error) {
	if !strings.HasPrefix(s, token.ClusterPrefix) {
		return nil, false, nil
	}
	uid, _, err := h.verifyKubeconfigToken(s)
	if err != nil {
		return nil, false, err
	}
	m := h.holder(uid, s)
	if m == nil {
		if h.Complete != nil {
			if err := h.Complete(); err != nil {
				return nil, false, fmt.Errorf("%w: %w", errClustersUnknown(), err)
			}
		}
		if m = h.holder(uid, s); m == nil { // it may have come before the last of them
			return nil, false, errKubeconfigToken
		}
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: KubeconfigUser + m.Name, UID: uid,
		Extra: map[string][]string{authz.ExtraScope: {authz.ScopeCluster + m.Name}}}}, true, nil
}

// holder returns the member with a UID, nil unless its Cluster has a token.
func (h *Hub) holder(uid, token string) *cluster.Member {
	if m := h.Members.ByUID(uid); m != nil && m.Dials() && bytes.Contains(m.Kubeconfig(), []byte(token)) {
		return m
	}
	return nil
}

// errClustersUnknown returns the error for a token that may be good, since not all Clusters are known as they are.
func errClustersUnknown() error {
	return status.RetryAfter(1, status.Errorf(http.StatusServiceUnavailable, "tokens of Clusters can't be verified now: try again"))
}
