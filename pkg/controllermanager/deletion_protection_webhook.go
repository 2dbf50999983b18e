package controllermanager

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// protect refuses to delete objects that are labelled as protected, for installations whose webhook configuration asks
// here; the policy protected.kapis.dev needs no webhook.
func protect(_ context.Context, req webhook.Request) webhook.Response {
	if req.Operation != admissionv1.Delete {
		return webhook.Allowed("")
	}
	var o metav1.PartialObjectMetadata
	if err := unmarshal(req.OldObject.Raw, &o); err != nil {
		return webhook.Errored(http.StatusBadRequest, err)
	}
	if _, ok := o.Labels[labelProtected]; ok {
		return webhook.Denied(fmt.Sprintf("%s %q is protected: take the label %s away first", req.Resource.Resource, req.Name, labelProtected))
	}
	return webhook.Allowed("")
}
