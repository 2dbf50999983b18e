package lite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/direct"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
)

const (
	// leaveTimeout bounds what is done in a member that leaves.
	leaveTimeout = 30 * time.Second
	// roleName is the name of the account's ClusterRole and of its binding. Those in the namespace have the account's.
	roleName = "kubesphere:" + join.LiteAccount
)

// leave takes the yes back, and the account with its rights, by the rights of the account itself. What it may not delete is made to belong
// to what it may, so that Kubernetes collects it. A cluster that has said yes to another hub meanwhile is left alone.
func (k *Keeper) leave(ctx context.Context, m *cluster.Member, kubeconfig []byte) error {
	if kubeconfig == nil {
		return errors.New("it was never served")
	}
	c, err := direct.Parse(kubeconfig, k.Transport)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return errors.New("the certificate or the key in the kubeconfig can't be read")
	}
	if _, err := Consent(ctx, client, k.Hub, m.Name); err != nil {
		return err
	}
	if err := CheckAccount(ctx, client); err != nil { // what was imported is not used for this
		return err
	}
	return Remove(ctx, client)
}

// Remove deletes the yes, the account and its rights.
func Remove(ctx context.Context, client kubernetes.Interface) error {
	account, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, join.LiteAccount, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the account: %w", err)
	}
	ofAccount, err := ownedBy("v1", "ServiceAccount", join.LiteAccount, account.UID)
	if err != nil {
		return err
	}
	rbac := client.RbacV1()
	o := metav1.PatchOptions{}
	_, roleErr := rbac.Roles(namespace).Patch(ctx, join.LiteAccount, types.MergePatchType, ofAccount, o)
	_, bindingErr := rbac.RoleBindings(namespace).Patch(ctx, join.LiteAccount, types.MergePatchType, ofAccount, o)
	steps := []error{roleErr, bindingErr,
		client.CoreV1().ConfigMaps(namespace).Delete(ctx, join.Consent, metav1.DeleteOptions{}), removeGlobal(ctx, client),
		client.CoreV1().ServiceAccounts(namespace).Delete(ctx, join.LiteAccount, metav1.DeleteOptions{})}
	var left []error
	for _, err := range steps {
		if err != nil && !apierrors.IsNotFound(err) {
			left = append(left, err)
		}
	}
	return errors.Join(left...)
}

// removeGlobal deletes what is in no namespace: the binding, to which the role is made to belong.
func removeGlobal(ctx context.Context, client kubernetes.Interface) error {
	rbac := client.RbacV1()
	binding, err := rbac.ClusterRoleBindings().Get(ctx, roleName, metav1.GetOptions{})
	if err == nil {
		owned, err := ownedBy("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", roleName, binding.UID)
		if err != nil {
			return err
		}
		if _, err = rbac.ClusterRoles().Patch(ctx, roleName, types.MergePatchType, owned, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return rbac.ClusterRoleBindings().Delete(ctx, roleName, metav1.DeleteOptions{})
}

// ownedBy returns the patch that makes an object belong to another.
func ownedBy(version, kind, name string, uid types.UID) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{
		{APIVersion: version, Kind: kind, Name: name, UID: uid}}}})
}
