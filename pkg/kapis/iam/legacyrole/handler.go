// Package legacyrole serves the roles of iam.kubesphere.io/v1alpha2 as clients of release 3.4 read and write them: the templates that a
// role is made of are an annotation there, and the templates themselves are roles with a label. Each request is translated before and
// after the handler of today, which makes the checks.
package legacyrole

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

// AnnotationKey is the annotation of a role that names its templates.
const AnnotationKey = iamv1beta1.AnnotationAggregationRoles

// Caches returns roles and their templates. store.Store is one.
type Caches interface {
	Snapshot(ctx context.Context, gvr schema.GroupVersionResource) (*index.Snapshot, error)
}

// Handler translates requests for roles.
type Handler struct {
	Caches    Caches
	Resources *resource.Service
	// May decides on what a request does besides what was authorized: it lists templates, or updates a role.
	May authz.Authorizer
}

// Kind is one kind of roles: its scope, and the value of the label of the templates for it.
type Kind struct {
	*binding.Scope
	Templates string
}

// Kinds returns the four kinds of roles.
func Kinds() []Kind {
	return []Kind{
		{&binding.Platform, iamv1beta1.ScopeGlobal}, {&binding.Cluster, iamv1beta1.ScopeCluster},
		{&binding.Workspace, iamv1beta1.ScopeWorkspace}, {&binding.Namespace, iamv1beta1.ScopeNamespace},
	}
}

// Names returns the value of the annotation for the JSON of a role: the names of its templates. A role of an older installation that has
// the annotation alone keeps it.
func Names(role string) string {
	names := rawjson.Get(role, "aggregationRoleTemplates", "templateNames")
	if first := rawjson.Array(names); first.Next() {
		return names
	}
	return rawjson.GetText(role, "metadata", "annotations", AnnotationKey)
}

// List returns a handler that lists the templates of a kind of roles, if the query selects these, and calls today's otherwise.
func (h *Handler) List(k Kind, today web.Handler) web.Handler {
	return func(r *restful.Request) (any, error) {
		values := r.Request.URL.Query()
		if !selectsTemplates(values, k.Templates) {
			return today(r)
		}
		return h.templates(r, k, values)
	}
}

// Write returns a handler that writes a role whose annotation names its templates. The request is one of today's version: JSON.
func (h *Handler) Write(k Kind, today web.Handler) web.Handler {
	return func(r *restful.Request) (any, error) {
		info := request.InfoFrom(r.Request.Context())
		if info.Verb != "create" && info.Verb != "update" && info.Verb != "patch" {
			return today(r)
		}
		raw, err := web.ReadBody(r.Request, maxBody)
		if err != nil {
			return nil, err
		}
		text := string(raw)
		if strings.HasPrefix(text, "{") {
			if text, err = h.translate(r.Request.Context(), k, info.Verb, text); err != nil {
				return nil, err
			}
		} else if strings.Contains(text, AnnotationKey) || strings.Contains(text, "aggregation-roles") {
			return nil, status.BadRequestf("the annotation %s can't be changed by a JSON patch: send a merge patch", AnnotationKey)
		}
		if info.Verb == "create" && rawjson.GetText(text, "metadata", "resourceVersion") != "" {
			return h.update(r, text, today)
		}
		in := r.Request.WithContext(r.Request.Context())
		web.SetBody(in, text)
		return today(web.WithRequest(r, in))
	}
}

// maxBody bounds a body, as the routes of all kinds do.
const maxBody = 3 << 20

// update makes the update that a creation of an object with a resourceVersion is to older clients. It needs the right to that, too.
func (h *Handler) update(r *restful.Request, text string, today web.Handler) (any, error) {
	ctx := r.Request.Context()
	info, name := request.InfoFrom(ctx), rawjson.GetText(text, "metadata", "name")
	if name == "" || len(content.IsPathSegmentName(name)) > 0 {
		return nil, status.BadRequestf("the body has a metadata.resourceVersion, and so updates a role: metadata.name %.100q names none", name)
	}
	in, err := http.NewRequestWithContext(ctx, http.MethodPut, "/", strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("make the update of a role: %w", err)
	}
	in.URL = &url.URL{Path: info.Path + "/" + name, RawQuery: r.Request.URL.RawQuery}
	in.Header, in.RemoteAddr = r.Request.Header.Clone(), r.Request.RemoteAddr
	if in, err = authz.Permit(h.May, in); err != nil {
		return nil, err
	}
	now := request.InfoFrom(in.Context())
	if now.Verb != "update" || now.Name != name || now.Subresource != "" || now.APIGroup != info.APIGroup || now.Resource != info.Resource ||
		now.Namespace != info.Namespace || now.Workspace != info.Workspace {
		return nil, status.NoResource()
	}
	next := web.WithRequest(r, in)
	next.PathParameters()["name"] = name
	return today(next)
}

// encode returns JSON of what can always be encoded: strings and JSON.
func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}
