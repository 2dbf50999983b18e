package fleetsync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// PathCreator takes a Creator, and answers with an Outcome. A member of an older release does not know it.
	PathCreator = "/fleet/creator"
	// creatorBinding is the ClusterRoleBinding by which the creator of a member's Cluster has creatorRole there.
	creatorBinding, creatorRole = "fleet-creator", "cluster-admin"
)

var (
	clusterRoleBindings = iamv1beta1.SchemeGroupVersion.WithResource("clusterrolebindings")
	users               = iamv1beta1.SchemeGroupVersion.WithResource("users")
)

// Creator is who made the Cluster of a member, and has its role cluster-admin for that.
type Creator struct {
	// Hub is the UID of the hub's kube-system.
	Hub string `json:"hub"`
	// User is the name of a user of the fleet; "" for nobody.
	User string `json:"user"`
}

// creator returns the user of the hub who made the Cluster of a member, as it says, "" for none. A user who came after the Cluster is
// another one, who got the name of somebody who is gone.
func (s *Source) creator(m *cluster.Member) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.objects["users"][m.Creator]; e != nil && !e.created.After(m.Created) {
		return m.Creator
	}
	return ""
}

// tellCreator tells a member who made its Cluster, where that has changed, or everything is compared.
func (r *round) tellCreator(ctx context.Context, m *cluster.Member) error {
	name := r.Source.creator(m)
	if r.compared && r.creator != nil && *r.creator == name {
		return nil
	}
	out := &Outcome{}
	err := r.ask(ctx, m, http.MethodPost, PathCreator, &Creator{Hub: r.Hub, User: name}, out)
	if no := (*exchange.Refused)(nil); errors.As(err, &no) && no.Code == http.StatusNotFound {
		err = nil // it is of an older release
	}
	if err != nil {
		return err
	}
	r.creator, r.ungiven = &name, nil
	if len(out.Pending) > 0 {
		p := out.Pending[0]
		r.ungiven = []cluster.Pending{{Kind: clusterRoleBindings.Resource, Name: creatorBinding, Reason: p.Reason, Passing: p.Passing}}
	}
	return nil
}

// isCreators reports whether what is pending is the role of a creator.
func isCreators(p cluster.Pending) bool {
	return p.Kind == clusterRoleBindings.Resource && p.Name == creatorBinding
}

var errLocalUser = errors.New("this cluster has a user of its own of the creator's name, who would get the role cluster-admin: rename or" +
	" delete that user here")

// bindCreator makes who made this cluster's Cluster an administrator here, and nobody where that is nobody. It writes what differs.
func (m *Member) bindCreator(ctx context.Context, c *Creator) (*Outcome, error) {
	if c.Hub == "" {
		return nil, status.BadRequestf("the question does not say of which hub it is")
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	ref, out := Ref{clusterRoleBindings.Resource, creatorBinding}, &Outcome{}
	if c.User == "" {
		m.delete(ctx, clusterRoleBindings, Change{Ref: ref}, c.Hub, out.pend)
		return out, nil
	}
	if len(validation.IsDNS1123Subdomain(c.User)) > 0 {
		return nil, status.BadRequestf("%.100q can't be the name of a user", c.User)
	}
	if err := m.putCreator(ctx, ref, c); err != nil {
		out.pend(ref, err)
	}
	return out, nil
}

func (m *Member) putCreator(ctx context.Context, ref Ref, c *Creator) error {
	b := &iamv1beta1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: iamv1beta1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: creatorBinding},
		RoleRef:    rbacv1.RoleRef{APIGroup: iamv1beta1.GroupName, Kind: iamv1beta1.KindClusterRole, Name: creatorRole},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: c.User}},
	}
	iamv1beta1.SetReference(b, iamv1beta1.LabelRoleReference, creatorRole)
	iamv1beta1.SetReference(b, iamv1beta1.LabelUserReference, c.User)
	raw, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("encode the binding of a creator: %w", err)
	}
	sum := hashOf(raw)
	now, err := m.Objects.Resource(clusterRoleBindings).Get(ctx, creatorBinding, metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return err
	case err == nil && now.GetLabels()[LabelFleet] == c.Hub && now.GetAnnotations()[annotationHash] == sum &&
		now.GetDeletionTimestamp() == nil:
		return nil
	}
	local, err := m.Objects.Resource(users).Get(ctx, c.User, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err == nil && local.GetLabels()[LabelFleet] != c.Hub {
		return errLocalUser
	}
	return m.put(ctx, clusterRoleBindings, &Change{Ref: ref, Hash: sum, Object: raw}, &Changes{Hub: c.Hub})
}
