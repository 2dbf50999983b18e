package tenant

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/tenant"
	"kapis.dev/ks-apiserver/pkg/web"
)

// groupMove is the synthetic group that may move a namespace from one workspace to another: natively it may get and patch namespaces,
// and the policy labels.namespaces.kapis.dev lets it change nothing else of what it guards. It is asserted for the requests of one
// move, after the rights on both sides were decided here.
const groupMove = "kapis:platform:move"

// maxAssigned bounds the namespaces of one request.
const maxAssigned = 100

// The results of an assignment.
const (
	resultMoved     = "Moved"
	resultUnchanged = "Unchanged"
	resultFailed    = "Failed"
)

// assigned is the outcome for one namespace.
type assigned struct {
	Namespace string `json:"namespace"`
	// Result is Moved, Unchanged (it was already there) or Failed; Code, Reason and Message are those of the failure.
	Result  string `json:"result"`
	Code    int32  `json:"code,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// assignment is the answer: a result for each namespace, in the order in which they were named.
type assignment struct {
	Items      []assigned `json:"items"`
	TotalItems int        `json:"totalItems"`
}

// assign moves namespaces into a workspace (U51). The route needs the right to create namespaces there; for each one, the caller also
// needs to update and to delete namespaces of the workspace that it leaves, or of the cluster where it leaves none (S7).
func (h *Handler) assign(r *restful.Request) (any, error) {
	ctx, workspace := r.Request.Context(), r.PathParameter("workspace")
	names, err := readNames(r.Request)
	if err != nil {
		return nil, err
	}
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return nil, err
	}
	if err := h.open(ctx, workspace); err != nil {
		return nil, err
	}
	out := assignment{Items: make([]assigned, 0, len(names)), TotalItems: len(names)}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m := move{Handler: h, to: workspace, name: name, query: q}
		out.Items = append(out.Items, m.run(ctx))
	}
	return out, nil
}

func readNames(r *http.Request) ([]string, error) {
	raw, err := web.ReadBody(r, maxBody)
	if err != nil {
		return nil, err
	}
	var body struct {
		Namespaces []string `json:"namespaces"`
	}
	if err := json.Unmarshal(raw, &body); err != nil || len(body.Namespaces) == 0 {
		return nil, status.BadRequestf(`the body must name the namespaces: {"namespaces":["a","b"]}`)
	}
	if len(body.Namespaces) > maxAssigned {
		return nil, status.BadRequestf("%d namespaces are more than the %d of one request", len(body.Namespaces), maxAssigned)
	}
	seen := map[string]bool{}
	for _, name := range body.Namespaces {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return nil, status.BadRequestf("%.100q can't be the name of a namespace", name)
		}
		if seen[name] {
			return nil, status.BadRequestf("the namespace %.100q is named twice", name)
		}
		seen[name] = true
	}
	return body.Namespaces, nil
}

// move is the move of one namespace.
type move struct {
	*Handler
	to, name string
	query    url.Values
}

func (m *move) run(ctx context.Context) assigned {
	moved := false
	err := retry.OnError(wait.Backoff{Steps: caller.Attempts}, apierrors.IsConflict, func() (err error) {
		moved, err = m.once(ctx)
		return err
	})
	switch {
	case err != nil:
		s := web.Status(err)
		return assigned{Namespace: m.name, Result: resultFailed, Code: s.Code, Reason: string(s.Reason), Message: s.Message}
	case !moved:
		return assigned{Namespace: m.name, Result: resultUnchanged}
	}
	return assigned{Namespace: m.name, Result: resultMoved}
}

// once checks whether the caller may take the namespace out of its workspace, reads it by that right, and changes the version that it
// read.
func (m *move) once(ctx context.Context) (moved bool, err error) {
	kind, err := m.Resources.Catalog().Resolve(ctx, namespacesKind)
	if err != nil {
		return false, err
	}
	known, err := m.Resources.Get(ctx, kind, plan.Scope{}, m.name)
	if apierrors.IsNotFound(err) {
		if _, denied := m.leave(ctx, ""); denied != nil {
			return false, denied // not every caller may know whether a namespace exists
		}
	}
	if err != nil {
		return false, err
	}
	from := known.JSON.GetText("metadata", "labels", tenantv1beta1.LabelWorkspace)
	if from == m.to {
		return false, nil
	}
	if ctx, err = m.leave(ctx, from); err != nil {
		return false, err
	}
	t := &target{Handler: m.Handler, gvr: namespacesKind, name: m.name, implied: true}
	now, err := t.readLive(ctx)
	if err != nil {
		return false, err
	}
	labels := now.GetLabels()
	if labels[tenantv1beta1.LabelWorkspace] != from {
		return false, caller.Modified(namespacesKind.GroupResource(), m.name)
	}
	_, marked := labels[tenantv1beta1.LabelProtectedResource]
	if marked || tenantv1beta1.IsSystemNamespace(m.name) || from == tenantv1beta1.SystemWorkspace || m.to == tenantv1beta1.SystemWorkspace {
		if err := m.forAdministrators(ctx, m.name); err != nil {
			return false, err
		}
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": now.GetResourceVersion(), "labels": map[string]string{tenantv1beta1.LabelWorkspace: m.to},
	}})
	if err != nil {
		return false, fmt.Errorf("encode a move: %w", err)
	}
	_, err = t.do(ctx, caller.Order{Method: http.MethodPatch, Path: t.path(m.name), Query: m.query, Type: typeMergePatch, Body: body})
	return err == nil, err
}

// leave returns a context with the decision by which the caller may take the namespace out of a workspace, as groupMove; or, for an
// empty one, out of none, which takes the caller's own right at kube-apiserver. Roles in the namespace itself do not count: it is the
// workspace's.
func (m *move) leave(ctx context.Context, from string) (context.Context, error) {
	out, u := ctx, request.UserFrom(ctx)
	for _, verb := range []string{"delete", "update"} { // the last one is used
		i := right(verb, namespacesKind, m.name, request.Cluster)
		if from != "" {
			i = right(verb, tenantNamespaces, m.name, request.Workspace)
			i.Workspace, i.Path = from, "/kapis/"+tenant.Group+"/"+V1beta1+"/workspaces/"+from+"/namespaces/"+m.name
		}
		d, err := m.AsCaller.May.Authorize(ctx, u, i)
		if err != nil {
			return nil, err
		}
		if !d.Allowed() { // in the same words in all cases, since the caller may not know where the namespace is
			return nil, apierrors.NewForbidden(namespacesKind.GroupResource(), m.name,
				fmt.Errorf("moving it takes the rights to update and to delete namespaces where it is now, which %q has not", u.GetName()))
		}
		if from != "" {
			d.Group = groupMove
		}
		out = authz.WithDecision(ctx, d)
	}
	return out, nil
}

// tenantNamespaces are the namespaces of workspaces, as roles of workspaces name them.
var tenantNamespaces = schema.GroupVersionResource{Group: tenant.Group, Version: V1beta1, Resource: namespaces}
