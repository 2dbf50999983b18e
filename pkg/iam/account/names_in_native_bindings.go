package account

import (
	"context"
	"fmt"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

const (
	// nativeFor is how long an answer counts: first logins come in crowds.
	nativeFor = 10 * time.Second
	// nativePage is how many bindings one request reads.
	nativePage = 500
	// notMirrored selects the bindings that are not mirrors of this project's bindings.
	notMirrored = iamv1beta1.LabelManagedBy + "!=" + iamv1beta1.ManagedByController
)

// NativeNames finds the users and groups that Kubernetes' own bindings name. It reads the bindings on request, when a User is created
// with a chosen name or a group is created or joined: there may be tens of thousands, most of them mirrors.
type NativeNames struct {
	Client rbacclient.RbacV1Interface
	Now    func() time.Time

	mu    sync.Mutex
	names map[subjectName]struct{}
	until time.Time
}

// subjectName is a subject: a kind, User or Group, and a name.
type subjectName struct{ kind, name string }

// Has reports whether a binding names a user.
func (n *NativeNames) Has(ctx context.Context, name string) (bool, error) {
	return n.has(ctx, subjectName{rbacv1.UserKind, name})
}

// HasGroup reports whether a binding names a group.
func (n *NativeNames) HasGroup(ctx context.Context, name string) (bool, error) {
	return n.has(ctx, subjectName{rbacv1.GroupKind, name})
}

func (n *NativeNames) has(ctx context.Context, who subjectName) (bool, error) {
	n.mu.Lock() // later callers wait for the same answer
	defer n.mu.Unlock()
	if now := n.Now(); !now.Before(n.until) {
		names, err := n.read(ctx)
		if err != nil {
			return false, err
		}
		n.names, n.until = names, now.Add(nativeFor)
	}
	_, ok := n.names[who]
	return ok, nil
}

func (n *NativeNames) read(ctx context.Context) (map[subjectName]struct{}, error) {
	names := map[subjectName]struct{}{}
	add := func(subjects []rbacv1.Subject) {
		for i := range subjects {
			if s := &subjects[i]; s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind {
				names[subjectName{s.Kind, s.Name}] = struct{}{}
			}
		}
	}
	o := metav1.ListOptions{LabelSelector: notMirrored, Limit: nativePage}
	for {
		list, err := n.Client.ClusterRoleBindings().List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list native cluster role bindings: %w", err)
		}
		for i := range list.Items {
			add(list.Items[i].Subjects)
		}
		if o.Continue = list.Continue; o.Continue == "" {
			break
		}
	}
	for {
		list, err := n.Client.RoleBindings(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list native role bindings: %w", err)
		}
		for i := range list.Items {
			add(list.Items[i].Subjects)
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return names, nil
		}
	}
}
