package dynamic

import (
	"net/http"
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kube is kube-apiserver, asked as the caller whom the request's context names. proxy.Kube is one.
//
// A write here is decided twice: by this server's roles on what the path says, and by kube-apiserver on what is done. So nothing is
// written with this server's own rights, kube-apiserver's escalation checks hold, and its audit log names the user.
type Kube interface {
	// RoundTrip sends a request of this package's own, which its context authorizes.
	http.RoundTripper
	// ServeHTTP passes the caller's request on.
	http.Handler
}

// writeRequest is what a request asks kube-apiserver for.
type writeRequest struct {
	*Handler
	in   *http.Request
	info *request.Info
	kind *store.Kind
	// path is the object's, or the collection's, at kube-apiserver.
	path string
	// workspace is the one whose label the object itself must carry; empty where the path names none, and where it is the namespace
	// that belongs to the workspace.
	workspace string
	checked   checkedWrites
}

// Write answers a write of an object, or of a sub-resource. A route of a group that has bodies of its own passes the others to it.
func (h *Handler) Write(r *restful.Request) (any, error) { return h.write(r) }

func (h *Handler) write(r *restful.Request) (any, error) {
	o, err := h.order(r)
	if err != nil {
		return nil, err
	}
	if o.info.Subresource == "" && !slices.Contains(o.kind.Verbs, o.info.Verb) {
		return nil, apierrors.NewMethodNotSupported(o.kind.GVR.GroupResource(), o.info.Verb)
	}
	out, err := o.do()
	if err == nil {
		o.checked.made(out)
	}
	return out, err
}

// do makes the write.
func (o *writeRequest) do() (any, error) {
	switch o.info.Verb {
	case "create":
		return o.create()
	case "update":
		return o.update()
	case "patch":
		return o.patch()
	case "delete":
		return o.delete()
	case "deletecollection":
		return o.deleteCollection()
	}
	return nil, status.NoResource()
}

// order returns what r asks kube-apiserver for, and refuses what can't be asked for there.
func (h *Handler) order(r *restful.Request) (*writeRequest, error) {
	ctx := r.Request.Context()
	info := request.InfoFrom(ctx)
	o := &writeRequest{Handler: h, in: r.Request, info: info}
	if isWithinWorkspace(info) {
		o.workspace = info.Workspace
	}
	var err error
	if o.path, err = o.kubePath(); err != nil {
		return nil, err
	}
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	if o.kind, err = h.Resources.Catalog().Resolve(ctx, gvr); err != nil {
		return nil, err
	}
	gr := gvr.GroupResource()
	switch {
	case o.kind.Namespaced && info.Namespace == "":
		return nil, status.BadRequestf("%s are in namespaces: name one in the path, as in .../namespaces/{namespace}/%s", gr, info.Resource)
	case !o.kind.Namespaced && info.Namespace != "" && info.Resource != "namespaces":
		return nil, status.About(gr, info.Name, status.Errorf(http.StatusNotFound, "%s are not in namespaces", gr))
	case o.kind.Namespaced && o.workspace != "":
		err = o.namespaceInWorkspace()
	}
	return o, err
}

// isWithinWorkspace reports whether a path is .../workspaces/{workspace}/{resources}..., and not that of a workspace.
func isWithinWorkspace(i *request.Info) bool {
	return i.Workspace != "" && i.Resource != "workspaces" && i.Resource != "workspacetemplates"
}

// kubePath translates the authorized path into kube-apiserver's, as text: only the first segment and the workspace are cut. That it
// means the same there is checked when it is sent.
func (o *writeRequest) kubePath() (string, error) {
	i, prefix, root := o.info, "/kapi/"+o.info.APIVersion, "/api/"+o.info.APIVersion
	if i.APIGroup != "" {
		prefix, root = "/kapis/"+i.APIGroup+"/"+i.APIVersion, "/apis/"+i.APIGroup+"/"+i.APIVersion
	}
	if o.workspace != "" {
		prefix += "/workspaces/" + o.workspace
	}
	rest, ok := strings.CutPrefix(i.Path, prefix)
	if !ok || !strings.HasPrefix(rest, "/") {
		return "", status.NoResource()
	}
	return root + rest, nil
}

// namespaceInWorkspace refuses a namespace of another workspace: what is in a namespace belongs to the namespace's workspace, without
// a label of its own.
func (o *writeRequest) namespaceInWorkspace() error {
	ctx := o.in.Context()
	namespaces, err := o.Resources.Catalog().Resolve(ctx, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	if err != nil {
		return err
	}
	_, err = o.Resources.Get(ctx, namespaces, plan.Scope{Workspace: o.workspace}, o.info.Namespace)
	o.workspace = ""
	return err
}

// Parameters of a query that are passed on, by verb. Others have no effect on a write.
var (
	patchParams  = []string{"dryRun", "fieldManager", "fieldValidation", "force"}
	selectParams = []string{"labelSelector", "fieldSelector"}
)
