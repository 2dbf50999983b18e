package extensionsync

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// approvalWait bounds how long an answer to the hub, which waits for 20 s, waits for approvals. Those that are not reached then are asked
// for with the next one.
const approvalWait = 8 * time.Second

var usersKind = iamv1beta1.SchemeGroupVersion.WithResource("users")

// approvals has the webhook of this cluster decide again on plans that wait for an approval. It decides when a plan is written; but users
// and their bindings come from the hub by another way, and may be here later than the plan.
type approvals struct {
	*Member
	hub string
}

// ask asks for the approval of a plan, if its approver is here: at once where the User is another one than before, and else less and less
// often, since what their roles give is for the webhook alone to say. It changes nothing of the plan.
func (a approvals) ask(ctx context.Context, o *unstructured.Unstructured, p *v1alpha1.InstallPlan) {
	approver := p.Annotations[v1alpha1.AnnotationFleetApprover]
	if approver == "" || !p.DeletionTimestamp.IsZero() || !meta.IsStatusConditionFalse(p.Status.Conditions, v1alpha1.ConditionApproved) {
		a.asked.Forget(p.Name)
		return
	}
	u, err := a.Objects.Resource(usersKind).Get(ctx, approver, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && u.GetLabels()[clusterv1alpha1.LabelFleet] != a.hub {
		return // who comes later is another User than the one that was asked for last
	}
	if err != nil {
		klog.V(2).InfoS("the approver of an agent can't be read", "installPlan", p.Name, "error", err)
		return
	}
	of := p.Annotations[v1alpha1.AnnotationFleetHash] + " " + string(u.GetUID()) + " " + u.GetResourceVersion()
	if _, early := a.asked.Of(p.Name, of); early {
		return
	}
	a.asked.Add(p.Name, of, "")
	_, err = a.Objects.Resource(plansKind).Update(ctx, o, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // of those, the next answer knows more
		klog.ErrorS(err, "The approval of an agent is not decided on; it is asked for again", "installPlan", p.Name)
	}
}
