package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
)

// errWaiting says that a member has not answered its invitation.
var errWaiting = errors.New("the cluster has been invited, and has not answered: is ks-apiserver running there, with" +

	" multicluster.clusterRole member?")

// invite invites a member, and lets it in once it has asked for a certificate.
func (d *Dialing) invite(ctx context.Context, client kubernetes.Interface, m *cluster.Member) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	maps := client.CoreV1().ConfigMaps(namespace)
	now, err := maps.Get(ctx, join.Invitation, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		now = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: join.Invitation}}
		d.write(now, m)
		if _, err = maps.Create(ctx, now, metav1.CreateOptions{}); err != nil {
			return explain("invite the cluster", err)
		}
		return errWaiting
	case err != nil:
		return explain("read the cluster's invitation", err)
	}
	of, cluster := now.Data[join.InvitationHub], now.Data[join.InvitationClusterUID]
	switch {
	case of != d.Hub && of != "":
		return fmt.Errorf("another hub has invited the cluster, whose kube-system has the UID %.64s: its administrator deletes the"+
			" ConfigMap %s in %s first", of, join.Invitation, namespace)
	case cluster != m.UID: // of a Cluster that is gone
		d.write(now, m)
		if _, err = maps.Update(ctx, now, metav1.UpdateOptions{}); err != nil {
			return explain("invite the cluster", err)
		}
		return errWaiting
	case now.Data[join.InvitationRequest] == "":
		if now.Data[join.InvitationAnswer] != "" {
			return nil // it is in
		}
		return errWaiting
	}
	r := &join.Request{}
	if err := decode(now.Data[join.InvitationRequest], r); err != nil {
		return errors.New("what the cluster has answered to its invitation can't be read")
	}
	answer, err := d.Admit(ctx, m, r)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("write the certificate of a member: %w", err)
	}
	now.Data[join.InvitationAnswer] = string(raw)
	delete(now.Data, join.InvitationRequest)
	if _, err := maps.Update(ctx, now, metav1.UpdateOptions{}); err != nil {
		return explain("let the cluster in", err)
	}
	return nil
}

// write writes an invitation.
func (d *Dialing) write(c *corev1.ConfigMap, m *cluster.Member) {
	c.Data = map[string]string{join.InvitationHub: d.Hub, join.InvitationCluster: m.Name, join.InvitationClusterUID: m.UID}
}
