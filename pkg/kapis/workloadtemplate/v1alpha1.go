// Package workloadtemplate serves workloadtemplate.kubesphere.io: templates that the console's pages fill in to make workloads, each a
// Secret with a label and a type of its own. The right to a template is none to any other Secret: reads find nothing else, and a write is
// checked against the object that kube-apiserver has, here and by a policy there.
package workloadtemplate

import (
	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	group    = "workloadtemplate.kubesphere.io"
	root     = "/kapis/" + group + "/v1alpha1"
	plural   = "workloadtemplates"
	ofObject = "/namespaces/{namespace}/" + plural
	// label and labelValue mark the Secrets that are templates, which also have the type secretType.
	label, labelValue = group, "true"
	secretType        = group + "/workloadtemplate"
)

var (
	templates = schema.GroupResource{Group: group, Resource: plural}
	secrets   = corev1.SchemeGroupVersion.WithResource("secrets")
)

// V1alpha1 serves workloadtemplate.kubesphere.io/v1alpha1.
type V1alpha1 struct {
	// Resources answers reads, and Streams limits their watches.
	Resources *resource.Service
	Streams   *stream.Guard
	// AsCaller writes templates as the caller, and reads Secrets for managedFields=true by the caller's own right to them.
	AsCaller caller.Client
}

// WebService returns the routes.
func (h *V1alpha1) WebService() *restful.WebService {
	ws := new(restful.WebService).Path(root).Produces(restful.MIME_JSON).Doc("Templates of workloads")
	name := ws.PathParameter("workloadtemplate", "name of the template")
	for _, at := range [...]struct{ path, id, parameter string }{
		{"/" + plural, "", ""},
		{"/workspaces/{workspace}/" + plural, "Workspace", "workspace"},
		{ofObject, "Namespaced", "namespace"},
	} {
		list := ws.GET(at.path).To(web.Handle(h.list)).Produces(restful.MIME_JSON, stream.EventStream).
			Metadata(web.MetadataPartialList, true).Metadata(web.MetadataWatch, true).Operation("list" + at.id + "WorkloadTemplates").
			Doc("List templates, which are Secrets: filtered, sorted, one page; or watch them. Their data is in lists of one namespace")
		for _, p := range resource.Parameters() {
			list.Param(ws.QueryParameter(p.Name, p.Doc).DataType(p.Type))
		}
		if at.parameter != "" {
			list.Param(ws.PathParameter(at.parameter, "name of the "+at.parameter))
		}
		ws.Route(list)
	}
	for _, b := range []*restful.RouteBuilder{
		ws.POST(ofObject).Consumes(restful.MIME_JSON).To(web.Handle(h.create)).Operation("createWorkloadTemplate").
			Doc("Create a template, as the caller").Reads(corev1.Secret{}).Writes(corev1.Secret{}),
		ws.GET(ofObject + "/{workloadtemplate}").To(web.Handle(h.get)).Operation("getWorkloadTemplate").
			Doc("One template, with its data").Writes(corev1.Secret{}).Param(name),
		ws.PUT(ofObject + "/{workloadtemplate}").Consumes(restful.MIME_JSON).To(web.Handle(h.update)).Operation("updateWorkloadTemplate").
			Doc("Replace the data, the labels and the annotations of a template, as the caller").Reads(corev1.Secret{}).
			Writes(corev1.Secret{}).Param(name),
		ws.DELETE(ofObject + "/{workloadtemplate}").To(web.Handle(h.delete)).Operation("deleteWorkloadTemplate").
			Doc("Delete a template, as the caller").Param(name),
	} {
		ws.Route(web.Namespaced(ws, b))
	}
	return ws
}

// named rewords an error about a Secret for the caller, who asked for a template.
func named(err error, name string) error {
	switch {
	case apierrors.IsNotFound(err):
		return apierrors.NewNotFound(templates, name)
	case apierrors.IsAlreadyExists(err):
		return apierrors.NewAlreadyExists(templates, name)
	case apierrors.IsConflict(err):
		return caller.Modified(templates, name)
	}
	return err
}

// isName reports whether a text can be the name of a Secret, and so a part of a path at kube-apiserver.
func isName(text string) bool { return len(validation.IsDNS1123Subdomain(text)) == 0 }
