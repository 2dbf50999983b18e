// Package installapproval validates InstallPlans when they are written, and records who approves what their charts may do.
package installapproval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// Path is the webhook's, as configurations of existing installations have it.
const Path = "/mutate-kubesphere-io-v1alpha1-installplan"

const (
	// chartWait is how long a write waits for a chart. kube-apiserver waits for 10 s.
	chartWait = 5 * time.Second
	maxConfig = 1 << 20
	// ofLinks is ks-apiserver itself, which has the links to members.
	ofLinks = "system:serviceaccount:kubesphere-system:ks-apiserver"
)

// stamps are the annotations that the webhook alone writes.
var stamps = []string{v1alpha1.AnnotationApproved, v1alpha1.AnnotationApprovedBy, v1alpha1.AnnotationApprovedPlacement,
	v1alpha1.AnnotationApprovedUpstreams, v1alpha1.AnnotationApprovedChart, v1alpha1.AnnotationApprovedValues}

// Charts reads the packed chart of a version. source.Loader does.
type Charts interface {
	Load(ctx context.Context, v *v1alpha1.ExtensionVersion) ([]byte, error)
}

// Webhook validates InstallPlans, and records who approves what a chart may do: the writer of a plan, if that is a person who may. It does
// so for a new plan, for one whose content changes, and where the writer asks for it.
type Webhook struct {
	// Client reads from the cache.
	Client client.Client
	// Live reads versions from kube-apiserver, and users whom the cache does not have: one that was written together with its plan is not in
	// the cache yet.
	Live   client.Reader
	Charts Charts
	// Missing returns what a user would have to hold to approve a request for a plan; nil if the user may.
	Missing func(ctx context.Context, u authenticationv1.UserInfo, plan string, r *permission.Request) ([]rbacv1.PolicyRule, error)
}

// Handle implements webhook.Handler.
func (h *Webhook) Handle(ctx context.Context, req webhook.Request) webhook.Response {
	plan, old := &v1alpha1.InstallPlan{}, &v1alpha1.InstallPlan{}
	if err := json.Unmarshal(req.Object.Raw, plan); err != nil {
		return webhook.Errored(http.StatusBadRequest, errors.New("the InstallPlan can't be read"))
	}
	if req.Operation == admissionv1.Update {
		if err := json.Unmarshal(req.OldObject.Raw, old); err != nil {
			return webhook.Errored(http.StatusBadRequest, errors.New("the InstallPlan as it is can't be read"))
		}
	}
	changes := req.Operation == admissionv1.Create || !equality.Semantic.DeepEqual(plan.Spec, old.Spec) ||
		plan.Annotations[v1alpha1.AnnotationUpstreams] != old.Annotations[v1alpha1.AnnotationUpstreams]
	if changes {
		if err := check(plan); err != nil {
			return webhook.Errored(http.StatusUnprocessableEntity, err)
		}
	}
	annotations := map[string]string{}
	for k, v := range plan.Annotations {
		annotations[k] = v
	}
	writer, ofHub := req.UserInfo, req.UserInfo.Username == clusterv1alpha1.HubUser
	if ofHub {
		var err error
		if writer, err = h.approver(ctx, plan); err != nil {
			return webhook.Errored(http.StatusInternalServerError, err)
		}
	}
	_, byName := annotations[v1alpha1.AnnotationApprove]
	asked := byName || ofHub
	delete(annotations, v1alpha1.AnnotationApprove)
	for _, key := range stamps { // whoever else writes them is not believed
		delete(annotations, key)
		if stamp, ok := old.Annotations[key]; ok {
			annotations[key] = stamp
		}
	}
	var warning string
	if (changes || asked) && plan.DeletionTimestamp.IsZero() {
		var err error
		if warning, err = h.approve(ctx, writer, plan, annotations, byName, ofHub); err != nil {
			return webhook.Errored(http.StatusInternalServerError, err)
		}
	}
	response, forged := webhook.Allowed(""), saysAnotherStatus(&req, plan, old)
	if forged || !maps.Equal(annotations, plan.Annotations) { // mostly not: then nothing is decoded and compared once more
		response = patched(&req, annotations, forged)
	}
	if warning != "" {
		response.Warnings = append(response.Warnings, warning)
	}
	return response
}

// approve notes the approval in annotations if the writer may approve, and returns what is to be told to the writer. byName says
// that the writer asks for it, and ofHub that the writer has approved on the hub. A Secret with values is approved by who asks for it here
// alone: whoever changes a plan for another reason may not know that somebody has written one. Who asks is told which one it is.
func (h *Webhook) approve(ctx context.Context, u authenticationv1.UserInfo, plan *v1alpha1.InstallPlan, annotations map[string]string,
	byName, ofHub bool) (warning string, err error) {
	values := annotations[v1alpha1.AnnotationApprovedValues]
	request, err := h.request(ctx, plan)
	var secret extensionrelease.SecretValues
	if err == nil && byName && !ofHub {
		secret, err = extensionrelease.SecretValuesOf(ctx, h.Live, plan.Name, request.Namespace)
		values = secret.Stamp
	}
	if err != nil {
		return fmt.Sprintf("nothing is approved yet, since %v: once it can be read, approve it by the annotation %s", err,
			v1alpha1.AnnotationApprove), nil
	}
	stamp, placement := request.Stamp(), permission.PlacementOf(&plan.Spec)
	if annotations[v1alpha1.AnnotationApproved] == stamp {
		annotations[v1alpha1.AnnotationApprovedChart] = request.ChartStamp() // what was approved before this was noted has none
		if annotations[v1alpha1.AnnotationApprovedPlacement] == placement && annotations[v1alpha1.AnnotationApprovedValues] == values {
			return "", nil
		}
	}
	if ofHub && len(request.Upstreams) > 0 && strings.Join(request.Upstreams, " ") != annotations[v1alpha1.AnnotationApprovedUpstreams] {
		// The hub sends no hosts: somebody here has named these, and who approved on the hub has not seen them.
		return fmt.Sprintf("the hosts in the annotation %s were named in this cluster: who may approve them here, does it by the annotation %s",
			v1alpha1.AnnotationUpstreams, v1alpha1.AnnotationApprove), nil
	}
	missing, err := h.Missing(ctx, u, plan.Name, request)
	if err != nil {
		return "", fmt.Errorf("find out whether %s may approve the InstallPlan %s: %w", u.Username, plan.Name, err)
	}
	if len(missing) > 0 {
		return helm.Clip(fmt.Sprintf("the InstallPlan waits for an approval by somebody who holds what the chart may do (%s): you do not hold %s",
			request.Level(), permission.Listed(permission.Words(missing))), maxWarning), nil
	}
	annotations[v1alpha1.AnnotationApproved], annotations[v1alpha1.AnnotationApprovedBy] = stamp, u.Username
	annotations[v1alpha1.AnnotationApprovedChart] = request.ChartStamp()
	if secret.Stamp != "" && secret.Stamp != annotations[v1alpha1.AnnotationApprovedValues] {
		warning = helm.Clip(fmt.Sprintf("this also approves the values in the Secret %s/%s as of its resourceVersion %s", request.Namespace,
			secret.Secret, secret.Version), maxWarning)
	}
	if annotations[v1alpha1.AnnotationApprovedValues] = values; values == "" {
		delete(annotations, v1alpha1.AnnotationApprovedValues)
	}
	if annotations[v1alpha1.AnnotationApprovedPlacement] = placement; placement == "" {
		delete(annotations, v1alpha1.AnnotationApprovedPlacement)
	}
	if annotations[v1alpha1.AnnotationApprovedUpstreams] = strings.Join(request.Upstreams, " "); len(request.Upstreams) == 0 {
		delete(annotations, v1alpha1.AnnotationApprovedUpstreams)
	}
	return warning, nil
}

// approver returns the user who approved on the hub what the hub brings, as this cluster knows them; nobody where it knows no such user of
// the fleet. What they may approve here is for the roles of this cluster to say.
func (h *Webhook) approver(ctx context.Context, plan *v1alpha1.InstallPlan) (out authenticationv1.UserInfo, err error) {
	name := plan.Annotations[v1alpha1.AnnotationFleetApprover]
	if name == "" {
		return out, nil
	}
	key, u := client.ObjectKey{Name: name}, &iamv1beta1.User{}
	err = h.Client.Get(ctx, key, u)
	if apierrors.IsNotFound(err) { // whom the hub may have brought just before the plan, which is judged once
		err = h.Live.Get(ctx, key, u)
	}
	if err != nil {
		return out, client.IgnoreNotFound(err)
	}
	if u.Status.State == iamv1beta1.UserDisabled || !u.DeletionTimestamp.IsZero() {
		return out, nil
	}
	if u.Labels[clusterv1alpha1.LabelFleet] == "" || u.Labels[clusterv1alpha1.LabelFleet] != plan.Labels[clusterv1alpha1.LabelFleet] {
		return out, nil // a user of this cluster's own, who has approved nothing
	}
	return authenticationv1.UserInfo{Username: u.Name, Groups: append(slices.Clone(u.Spec.Groups), user.AllAuthenticated)}, nil
}

// maxWarning bounds a warning in bytes: kube-apiserver cuts longer ones.
const maxWarning = 250

// request returns what the version that a plan names may do.
func (h *Webhook) request(ctx context.Context, plan *v1alpha1.InstallPlan) (*permission.Request, error) {
	ctx, cancel := context.WithTimeout(ctx, chartWait)
	defer cancel()
	v := &v1alpha1.ExtensionVersion{}
	name := v1alpha1.ExtensionVersionName(plan.Name, plan.Spec.Extension.Version)
	err := h.Live.Get(ctx, client.ObjectKey{Name: name}, v)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("the ExtensionVersion %s can't be read now", name)
	}
	if extension, ok := v.Is(); err != nil || !ok || extension != plan.Name { // 1-2.0.0 of a is no version, and 2.0.0 of a-1 is one
		return nil, fmt.Errorf("there is no ExtensionVersion %s of the extension", name)
	}
	raw, err := h.Charts.Load(ctx, v)
	if err != nil {
		return nil, errors.New("the chart can't be read now")
	}
	request, _, err := permission.RequestOf(plan, v, raw)
	if err != nil {
		return nil, fmt.Errorf("the chart is not valid: %w", err)
	}
	return request, nil
}

// check refuses a plan that could never be done.
func check(plan *v1alpha1.InstallPlan) error {
	switch of := plan.Spec.Extension; {
	case of.Name != plan.Name:
		return fmt.Errorf("spec.extension.name is %.100q: a plan has the name of its extension, %.100q", of.Name, plan.Name)
	case chart.CheckName(plan.Name) != nil:
		return chart.CheckName(plan.Name)
	case of.Version == "" || len(validation.IsDNS1123Subdomain(v1alpha1.ExtensionVersionName(plan.Name, of.Version))) > 0:
		return fmt.Errorf("spec.extension.version is %.100q: name one of the extension's versions", of.Version)
	}
	if _, err := permission.UpstreamsOf(plan); err != nil {
		return err
	}
	configs := map[string]string{"spec.config": plan.Spec.Config}
	if s := plan.Spec.ClusterScheduling; s != nil {
		if s.Placement != nil {
			if _, err := metav1.LabelSelectorAsSelector(s.Placement.ClusterSelector); err != nil {
				return fmt.Errorf("spec.clusterScheduling.placement.clusterSelector can't be read: %w", err)
			}
		}
		for cluster, config := range s.Overrides {
			configs["spec.clusterScheduling.overrides["+cluster+"]"] = config
		}
	}
	for field, config := range configs {
		if len(config) > maxConfig {
			return fmt.Errorf("%s has %d bytes: at most %d are expected", field, len(config), maxConfig)
		}
		if _, err := chart.ParseValues(config); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

// saysAnotherStatus reports whether a write changes the status, which is the controller's alone: a plan that is deleted takes along what
// its status says to be installed, and where. The kind has no sub-resource for it, since clients of existing installations know none.
// Whoever Kubernetes refuses nothing may: a plan may have to be restored.
func saysAnotherStatus(req *webhook.Request, plan, old *v1alpha1.InstallPlan) bool {
	now := plan.Status
	if req.UserInfo.Username == ofLinks { // which is told by members what they have
		now.ClusterSchedulingStatuses = old.Status.ClusterSchedulingStatuses
	}
	return !slices.Contains(req.UserInfo.Groups, user.SystemPrivilegedGroup) && !equality.Semantic.DeepEqual(now, old.Status)
}

// patched sets the annotations of an object, and with former its status to what that was, and leaves everything else as it was sent.
func patched(req *webhook.Request, annotations map[string]string, former bool) webhook.Response {
	raw := req.Object.Raw
	var o, old map[string]any
	if err := json.Unmarshal(raw, &o); err != nil {
		return webhook.Errored(http.StatusBadRequest, errors.New("the InstallPlan can't be read"))
	}
	if former {
		if err := json.Unmarshal(req.OldObject.Raw, &old); err != nil && len(req.OldObject.Raw) > 0 {
			return webhook.Errored(http.StatusBadRequest, errors.New("the InstallPlan as it is can't be read"))
		}
		if o["status"] = old["status"]; old["status"] == nil {
			delete(o, "status")
		}
	}
	meta, ok := o["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		o["metadata"] = meta
	}
	if len(annotations) == 0 {
		delete(meta, "annotations")
	} else {
		meta["annotations"] = annotations
	}
	changed, err := json.Marshal(o)
	if err != nil {
		return webhook.Errored(http.StatusInternalServerError, fmt.Errorf("encode the InstallPlan: %w", err))
	}
	return webhook.PatchResponseFromRaw(raw, changed)
}
