package controllermanager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/admission"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	kubespherev1alpha1 "kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// escalationWebhook answers kube-apiserver by the rules of package admission.
type escalationWebhook struct {
	guard *admission.Guard
	// ready returns nil once all roles and bindings are loaded. Before that nothing is allowed.
	ready func() error
}

// Handle implements webhook.Handler.
func (j *escalationWebhook) Handle(ctx context.Context, req webhook.Request) webhook.Response {
	if err := j.ready(); err != nil {
		return webhook.Errored(http.StatusServiceUnavailable, fmt.Errorf("roles are not known yet, try again: %w", err))
	}
	w := &admission.Write{
		By: writer(req.UserInfo), Verb: strings.ToLower(string(req.Operation)), Namespace: req.Namespace, Name: req.Name,
		GVR:    schema.GroupVersionResource{Group: req.Resource.Group, Version: req.Resource.Version, Resource: req.Resource.Resource},
		Object: req.Object.Raw, Old: req.OldObject.Raw, DryRun: req.DryRun != nil && *req.DryRun,
	}
	return answer(j.guard.Check(ctx, w))
}

// answer returns the refusal that kube-apiserver passes on; for nil it allows.
func answer(err error) webhook.Response {
	if err == nil {
		return webhook.Allowed("")
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return webhook.Errored(http.StatusInternalServerError, err)
	}
	s := status.Status()
	return webhook.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Result: &s}}
}

// writer returns the user who writes, as roles know them: without the synthetic groups, which stand for the role that allowed the request.
func writer(u authenticationv1.UserInfo) user.Info {
	extra := make(map[string][]string, len(u.Extra))
	for k, v := range u.Extra {
		extra[k] = v
	}
	return &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: own(u.Groups), Extra: extra}
}

// own returns groups without the synthetic ones. That of an installer of an extension stays: its rights exist for one operation.
func own(groups []string) []string {
	return slices.DeleteFunc(slices.Clone(groups), func(g string) bool {
		return strings.HasPrefix(g, iamv1beta1.SyntheticGroupPrefix) && !strings.HasPrefix(g, kubespherev1alpha1.InstallerGroupPrefix)
	})
}
