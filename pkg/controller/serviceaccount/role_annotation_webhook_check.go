package serviceaccount

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Path is the path of the webhook that checks whether the writer of an annotation iam.kubesphere.io/role may give that role: package
// admission has the rule.
const Path = "/validate--v1-serviceaccount"

// isGuarded reports whether kube-apiserver calls the webhook at Path for every creation and update of a service account, and refuses the
// write if the call fails. Only the given conditions may exclude writes.
func isGuarded(ctx context.Context, live client.Reader, but []admissionregistrationv1.MatchCondition) (bool, error) {
	list := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	if err := live.List(ctx, list); err != nil {
		return false, fmt.Errorf("look for the webhook of service accounts: %w", err)
	}
	for i := range list.Items {
		if slices.ContainsFunc(list.Items[i].Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return guards(&w, but) }) {
			return true, nil
		}
	}
	return false, nil
}

func guards(w *admissionregistrationv1.ValidatingWebhook, but []admissionregistrationv1.MatchCondition) bool {
	c := w.ClientConfig
	ours := c.Service != nil && c.Service.Path != nil && *c.Service.Path == Path || c.URL != nil && strings.HasSuffix(*c.URL, Path)
	some := func(s *metav1.LabelSelector) bool { return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0 }
	return ours && w.FailurePolicy != nil && *w.FailurePolicy == admissionregistrationv1.Fail &&
		!some(w.NamespaceSelector) && !some(w.ObjectSelector) &&
		!slices.ContainsFunc(w.MatchConditions, func(c admissionregistrationv1.MatchCondition) bool { return !slices.Contains(but, c) }) &&
		slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			has := func(op admissionregistrationv1.OperationType) bool {
				return slices.Contains(r.Operations, op) || slices.Contains(r.Operations, admissionregistrationv1.OperationAll)
			}
			return has(admissionregistrationv1.Create) && has(admissionregistrationv1.Update) && slices.Contains(r.Resources, "serviceaccounts")
		})
}
