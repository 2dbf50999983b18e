package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// ProtectPath is the path of the webhook that protects what is installed.
const ProtectPath = "/validate-kubesphere-io-v1alpha1-catalogue"

// Protected are the resources that the webhook protects.
func Protected() []string { return []string{"extensions", "extensionversions"} }

// Protector refuses to delete an Extension that has an InstallPlan, and an ExtensionVersion that one uses.
type Protector struct {
	// Live reads without a cache: a plan that was just made counts.
	Live client.Reader
}

// Handle implements webhook.Handler.
func (p *Protector) Handle(ctx context.Context, req webhook.Request) webhook.Response {
	if req.Operation != admissionv1.Delete || req.SubResource != "" {
		return webhook.Allowed("")
	}
	plans := &v1alpha1.InstallPlanList{}
	if err := p.Live.List(ctx, plans); err != nil {
		return webhook.Errored(http.StatusInternalServerError, fmt.Errorf("list InstallPlans: %w", err))
	}
	switch req.Resource.Resource {
	case "extensions":
		name := req.Name
		if name == "" { // kube-apiserver names no object of a collection that is deleted: only the object has its name
			o := &metav1.PartialObjectMetadata{}
			if err := json.Unmarshal(req.OldObject.Raw, o); err != nil || o.Name == "" {
				return webhook.Errored(http.StatusBadRequest, errors.New("the object can't be read"))
			}
			name = o.Name
		}
		for i := range plans.Items {
			if plans.Items[i].Name == name || plans.Items[i].Spec.Extension.Name == name {
				return conflict("the extension %s has the InstallPlan %s: delete that first, which uninstalls it", name, plans.Items[i].Name)
			}
		}
	case "extensionversions":
		v := &v1alpha1.ExtensionVersion{}
		if err := json.Unmarshal(req.OldObject.Raw, v); err != nil {
			return webhook.Errored(http.StatusBadRequest, errors.New("the object can't be read"))
		}
		for i := range plans.Items {
			// What is installed is named by the name of the object too: neither a label nor a field that was changed takes the protection away.
			plan := &plans.Items[i]
			if plan.Uses(v.Labels[v1alpha1.LabelExtension], v.Spec.Version) || usesNamed(plan, v.Name) {
				return conflict("the InstallPlan %s uses the version %s of its extension", plan.Name, v.Spec.Version)
			}
		}
	}
	return webhook.Allowed("")
}

// usesNamed reports whether a plan uses the version whose ExtensionVersion has a name.
func usesNamed(p *v1alpha1.InstallPlan, name string) bool {
	of := p.Spec.Extension.Name
	if name == v1alpha1.ExtensionVersionName(of, p.Spec.Extension.Version) || name == v1alpha1.ExtensionVersionName(of, p.Status.Version) {
		return true
	}
	for _, in := range p.Status.ClusterSchedulingStatuses {
		if name == v1alpha1.ExtensionVersionName(of, in.Version) {
			return true
		}
	}
	return false
}

func conflict(format string, args ...any) webhook.Response {
	out := webhook.Denied("")
	out.Result = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict,
		Message: fmt.Sprintf(format, args...)}
	return out
}
