package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// A workspace is written through its template: the paths workspaces and workspacetemplates are the same to a write.

const templateKind = "WorkspaceTemplate"

// restoreTimeout is how long restoring a template may take after a deletion that failed.
const restoreTimeout = 5 * time.Second

func (h *Handler) template(name string) *target {
	return &target{Handler: h, gvr: templatesKind, name: name, implied: true, check: h.checkTemplate}
}

// begin returns the request with the right to the template: a right to a workspace alone is not enough.
func (h *Handler) begin(r *restful.Request) (*restful.Request, error) {
	ctx := r.Request.Context()
	u, info := request.UserFrom(ctx), request.InfoFrom(ctx)
	if info.Resource == templatesKind.Resource {
		return r, nil
	}
	info = info.As(templatesKind.GroupResource())
	d, err := h.AsCaller.May.Authorize(ctx, u, info)
	if err != nil {
		return nil, err
	}
	if !d.Allowed() {
		return nil, authz.Forbidden(u, info, d)
	}
	r.Request = r.Request.WithContext(authz.WithDecision(ctx, d))
	return r, nil
}

func (h *Handler) createTemplate(r *restful.Request) (any, error) {
	r, err := h.begin(r)
	if err != nil {
		return nil, err
	}
	o, err := readTemplate(r.Request)
	if err != nil {
		return nil, err
	}
	if overrides, _, err := unstructured.NestedSlice(o.Object, "spec", "overrides"); err != nil || len(overrides) > 0 {
		return nil, status.BadRequestf("spec.overrides is not supported: a workspace is the same in all of its clusters")
	}
	name := request.UserFrom(r.Request.Context()).GetName()
	if manager, _, err := unstructured.NestedString(o.Object, managerPath...); err != nil {
		return nil, status.BadRequestf("spec.template.spec.manager in the body must be a string: %v", err)
	} else if manager == "" { // it needs a manager
		if err := unstructured.SetNestedField(o.Object, name, managerPath...); err != nil {
			return nil, status.BadRequestf("spec.template.spec in the body must be an object: %v", err)
		}
	}
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[tenantv1beta1.AnnotationCreator] = name
	o.SetAnnotations(annotations)
	return h.template(o.GetName()).create(r, o)
}

// readTemplate reads a template, and refuses what older clients may ask for and no workspace has.
func readTemplate(r *http.Request) (*unstructured.Unstructured, error) {
	o, err := readObject(r, templatesKind.GroupVersion().String(), templateKind)
	if err != nil {
		return nil, err
	}
	if isolated, _, err := unstructured.NestedBool(o.Object, "spec", "template", "spec", "networkIsolation"); err != nil || isolated {
		return nil, status.BadRequestf("spec.template.spec.networkIsolation is not supported: use NetworkPolicies in the namespaces")
	}
	return o, nil
}

func (h *Handler) updateTemplate(r *restful.Request) (any, error) {
	r, err := h.begin(r)
	if err != nil {
		return nil, err
	}
	o, err := readTemplate(r.Request)
	if err != nil {
		return nil, err
	}
	name := r.PathParameter("workspace")
	if err := named(o, name); err != nil {
		return nil, err
	}
	return h.template(name).replace(r, o)
}

func (h *Handler) patchTemplate(r *restful.Request) (any, error) {
	r, err := h.begin(r)
	if err != nil {
		return nil, err
	}
	return h.template(r.PathParameter("workspace")).patch(r)
}

// deleteTemplate deletes a workspace. An annotation of the template tells the controller what to do with its namespaces; to
// kube-apiserver it is an ordinary deletion. A request without a policy removes an annotation with another one: it may be of an
// earlier deletion, which was refused.
func (h *Handler) deleteTemplate(r *restful.Request) (any, error) {
	r, err := h.begin(r)
	if err != nil {
		return nil, err
	}
	d, err := web.ReadDeleteOptions(r.Request)
	if err != nil {
		return nil, err
	}
	n := &note{target: h.template(r.PathParameter("workspace")), dry: d.DryRun}
	if d.PropagationPolicy != nil {
		policy, background := string(*d.PropagationPolicy), metav1.DeletePropagationBackground
		n.policy, d.PropagationPolicy = &policy, &background
	}
	out, err := n.remove(r, d, n.write)
	if err != nil {
		n.takeBack(r.Request.Context())
	}
	return out, err
}

// note is the annotation of a template about its namespaces, for the deletion that follows.
type note struct {
	*target
	// policy is the new value, nil for none, and before the former one; uid is the template's, empty where nothing was written.
	policy, before *string
	uid            types.UID
	dry            []string
}

func noted(o *unstructured.Unstructured) *string {
	if v, ok := o.GetAnnotations()[tenantv1beta1.AnnotationDeletionPropagation]; ok {
		return &v
	}
	return nil
}

// write writes the policy into the template, and returns the version that has it.
func (n *note) write(ctx context.Context, now *unstructured.Unstructured) (version string, err error) {
	was := noted(now)
	if ptr.Equal(was, n.policy) {
		return now.GetResourceVersion(), nil
	}
	if n.uid == "" { // otherwise it is a retry
		n.before = was
	}
	if len(n.dry) == 0 {
		n.uid = now.GetUID()
	}
	out, err := n.set(ctx, now.GetResourceVersion(), n.policy)
	if err != nil || len(n.dry) > 0 {
		return now.GetResourceVersion(), err
	}
	return out.GetResourceVersion(), nil
}

func (n *note) set(ctx context.Context, version string, policy *string) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": version, "annotations": map[string]any{tenantv1beta1.AnnotationDeletionPropagation: policy},
	}})
	if err != nil {
		return nil, fmt.Errorf("encode how a workspace is deleted: %w", err)
	}
	query := url.Values{}
	if len(n.dry) > 0 {
		query["dryRun"] = n.dry
	}
	return n.do(ctx, caller.Order{Method: http.MethodPatch, Path: n.path(n.name), Query: query, Type: typeMergePatch, Body: body})
}

// takeBack restores the annotation after a deletion that failed, also if the client has disconnected. It changes nothing where the
// template is being deleted after all, or was written by another request meanwhile.
func (n *note) takeBack(ctx context.Context) {
	if n.uid == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
	defer cancel()
	_, err := caller.Change(ctx, n.seen(""), n.readLive, func(ctx context.Context, now *unstructured.Unstructured) (any, error) {
		if now.GetUID() != n.uid || now.GetDeletionTimestamp() != nil || !ptr.Equal(noted(now), n.policy) {
			return nil, nil
		}
		return n.set(ctx, now.GetResourceVersion(), n.before)
	})
	if err != nil && !apierrors.IsNotFound(err) {
		klog.ErrorS(err, "Can't restore what the template of a workspace says of its namespaces, after a deletion that failed",
			"workspace", n.name, "annotation", tenantv1beta1.AnnotationDeletionPropagation)
	}
}
