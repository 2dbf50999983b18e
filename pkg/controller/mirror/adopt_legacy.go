package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

const (
	// earlierPage is how many native objects are read at once.
	earlierPage = 500
	// earlierRetry is the pause after a failed attempt.
	earlierRetry = 10 * time.Second
)

// LegacyAdoption adopts, once, the native RBAC objects of an earlier installation's mirror. It mirrored the ClusterRoles and the Roles of
// iam, and each of their bindings, as kubesphere:iam:<name>. If they stayed as they are, rights would outlive their bindings, and the
// names of the new mirror would be taken. Once an object has the mirror's label, the controller of its role does the rest: it keeps the
// objects that it wants, and deletes the others.
type LegacyAdoption struct {
	// Client writes, and Live reads without the cache, which has only the mirror's own objects.
	Client client.Client
	Live   client.Reader
}

// Start implements manager.Runnable, for the leader.
func (e *LegacyAdoption) Start(ctx context.Context) error {
	_ = wait.PollUntilContextCancel(ctx, earlierRetry, true, func(ctx context.Context) (bool,
		error) { // ends with ctx, which is no failure
		n, err := e.Adopt(ctx)
		if n > 0 {
			klog.InfoS("Took over native roles and bindings that an earlier installation mirrored", "objects", n)
		}
		if err != nil {
			klog.ErrorS(err, "Can't take over what an earlier installation mirrored; trying again")
		}
		return err == nil, nil
	})
	return nil
}

// Adopt labels the objects as the mirror's, and returns how many they were. If it fails, the labelled ones stay so.
func (e *LegacyAdoption) Adopt(ctx context.Context) (n int, err error) {
	for _, list := range nativeLists() {
		for next := ""; ; {
			if err := e.Live.List(ctx, list, client.Limit(earlierPage), client.Continue(next)); err != nil {
				return n, fmt.Errorf("list native roles and bindings: %w", err)
			}
			for _, o := range items(list) {
				source := legacySource(o)
				if source == "" {
					continue
				}
				if err := e.mark(ctx, o, source); err != nil {
					return n, err
				}
				n++
			}
			if next = list.GetContinue(); next == "" {
				break
			}
		}
	}
	return n, nil
}

func (e *LegacyAdoption) mark(ctx context.Context, o client.Object, source string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":    o.GetUID(), // no other object of its name
		"labels": map[string]string{iamv1beta1.LabelManagedBy: iamv1beta1.ManagedByController}, "annotations": map[string]string{AnnotationSource: source},
	}})
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	if err := e.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take over %s: %w", describe(o), err)
	}
	return nil
}

// legacySource returns the source, as Source gives it, of an object that an earlier mirror left, and "" for any other. Such an object has
// the earlier mirror's name, has no manager's label, and grants a role of such a name. The mirror's own names have one more colon, except
// for the roles in question.
func legacySource(o client.Object) string {
	if _, managed := o.GetLabels()[iamv1beta1.LabelManagedBy]; managed || plain(o.GetName()) == "" {
		return ""
	}
	role := identify(o)
	switch o.(type) {
	case *rbacv1.ClusterRoleBinding, *rbacv1.RoleBinding:
		role = roleOf(o)
	}
	name := plain(role.name)
	if name == "" {
		return ""
	}
	return Source(role.kind, types.NamespacedName{Namespace: role.namespace, Name: name})
}

// plain returns the name in kubesphere:iam:<name>, and "" if no object of iam can have it.
func plain(native string) string {
	name, ok := strings.CutPrefix(native, NamePrefix)
	if !ok || strings.Contains(name, ":") {
		return ""
	}
	return name
}
