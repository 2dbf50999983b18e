package lite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kapis.dev/ks-apiserver/pkg/cluster/join"
)

const (
	// namespace is where the yes and the account are, and username whom the account is authenticated as.
	namespace = "kubesphere-system"
	username  = "system:serviceaccount:" + namespace + ":" + join.LiteAccount
	// mostGroups bounds the groups that a yes names.
	mostGroups = 256
)

// ErrRefused says that a member's administrator has not said yes to this hub, has taken that back, or has given the account what no hub
// takes. Any other error says that the member was not asked.
var ErrRefused = errors.New("the cluster is not served")

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

// Consent returns the groups of the hub's users that count in a member whose administrator has said yes to a hub, by the UID of its
// kube-system, for the Cluster of a name.
func Consent(ctx context.Context, client kubernetes.Interface, hub, name string) (groups []string, err error) {
	c, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, join.Consent, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, refused("its administrator has not said yes: apply there what this server answers at clusters/%s/agent/deployment", name)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return nil, refused("whether its administrator says yes can't be read: the account needs get on the ConfigMap %s in %s",
			join.Consent, namespace)
	case err != nil:
		return nil, errors.New("the cluster's kube-apiserver does not say whether its administrator says yes: is it reached?")
	case hub == "" || c.Data[join.ConsentHub] != hub:
		return nil, refused("its administrator has said yes to another hub, whose kube-system has the UID %.64q", c.Data[join.ConsentHub])
	case c.Data[join.ConsentCluster] != name:
		return nil, refused("its administrator has said yes to a Cluster of the name %.64q", c.Data[join.ConsentCluster])
	}
	for group := range strings.SplitSeq(c.Data[join.ConsentGroups], "\n") {
		group = strings.TrimSpace(group)
		if group == "" || strings.HasPrefix(group, "system:") || strings.HasPrefix(group, "kapis:") || len(groups) == mostGroups {
			continue
		}
		groups = append(groups, group)
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}
