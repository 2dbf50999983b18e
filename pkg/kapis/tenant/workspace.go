package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	restful "github.com/emicklei/go-restful/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/tenant"
)

// A workspace is written by its template: the paths workspaces and workspacetemplates are the same to a write.

const templateKind = "WorkspaceTemplate"

func (h *Handler) template(name string) *target {
	return &target{Handler: h, gvr: templatesKind, name: name, implied: true, judge: h.judgeTemplate}
}

// begin refuses what was not authorized, and returns the request with the right to the template: a right to a workspace alone is none.
func (h *Handler) begin(r *restful.Request, verb string) (*restful.Request, error) {
	plural := "workspaces"
	if info := infoOf(r); info != nil && info.Resource == "workspacetemplates" {
		plural = info.Resource
	}
	if err := authorized(r, verb, plural, r.PathParameter("workspace")); err != nil {
		return nil, err
	}
	if plural == "workspacetemplates" {
		return r, nil
	}
	ctx := r.Request.Context()
	u, info := request.UserFrom(ctx), infoOf(r).As(schema.GroupResource{Group: tenant.Group, Resource: "workspacetemplates"})
	d, err := h.AsCaller.May.Authorize(ctx, u, info)
	if err != nil {
		return nil, err
	}
	if !d.Allowed {
		return nil, authz.Denied(u, info, d)
	}
	r.Request = r.Request.WithContext(authz.WithDecision(ctx, d))
	return r, nil
}

func (h *Handler) createTemplate(r *restful.Request) (any, error) {
	r, err := h.begin(r, "create")
	if err != nil {
		return nil, err
	}
	o, err := readObject(r.Request, templatesKind.GroupVersion().String(), templateKind)
	if err != nil {
		return nil, err
	}
	name := request.UserFrom(r.Request.Context()).GetName()
	if manager, _, err := unstructured.NestedString(o.Object, managerPath...); err != nil {
		return nil, badRequest("spec.template.spec.manager in the body must be a string: %v", err)
	} else if manager == "" { // somebody has to run it
		if err := unstructured.SetNestedField(o.Object, name, managerPath...); err != nil {
			return nil, badRequest("spec.template.spec in the body must be an object: %v", err)
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

func (h *Handler) updateTemplate(r *restful.Request) (any, error) {
	r, err := h.begin(r, "update")
	if err != nil {
		return nil, err
	}
	o, err := readObject(r.Request, templatesKind.GroupVersion().String(), templateKind)
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
	r, err := h.begin(r, "patch")
	if err != nil {
		return nil, err
	}
	return h.template(r.PathParameter("workspace")).patch(r)
}

// deleteTemplate deletes a workspace. What is to become of its namespaces stands in an annotation of the template, for the controller; to
// kube-apiserver it is an ordinary deletion.
func (h *Handler) deleteTemplate(r *restful.Request) (any, error) {
	r, err := h.begin(r, "delete")
	if err != nil {
		return nil, err
	}
	d, err := readDeletion(r.Request)
	if err != nil {
		return nil, err
	}
	t := h.template(r.PathParameter("workspace"))
	if d.PropagationPolicy == nil {
		return t.remove(r, d, nil)
	}
	policy := string(*d.PropagationPolicy)
	background := metav1.DeletePropagationBackground
	d.PropagationPolicy = &background
	return t.remove(r, d, func(ctx context.Context, now *unstructured.Unstructured) error {
		if now.GetAnnotations()[tenantv1beta1.AnnotationDeletionPropagation] == policy {
			return nil
		}
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": now.GetResourceVersion(), "annotations": map[string]string{tenantv1beta1.AnnotationDeletionPropagation: policy},
		}})
		if err != nil {
			return fmt.Errorf("encode how a workspace is deleted: %w", err)
		}
		dry := url.Values{}
		if len(d.DryRun) > 0 {
			dry["dryRun"] = d.DryRun
		}
		_, err = t.do(ctx, caller.Order{Method: http.MethodPatch, Path: t.path(t.name), Query: dry, Type: typeMergePatch, Body: body})
		return err
	})
}
