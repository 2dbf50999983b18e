package resource

import (
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/status"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CheckRoute refuses a request whose route is not what was authorized: info is what the filters read in the path, the rest
// is what the router read. An empty name stands for a list. A right to watch is no right to read: a request to watch is
// refused, too.
func CheckRoute(info *request.Info, resource string, scope plan.Scope, name string) error {
	if err := checkRoute(info, resource, scope, name); err != nil {
		return err
	}
	if info.Verb == "watch" {
		return apierrors.NewMethodNotSupported(schema.GroupResource{Group: info.APIGroup, Resource: resource}, "watch")
	}
	return nil
}

// CheckListRoute is CheckRoute for a list, which can be watched as well. watch reports that a watch was authorized, and so
// nothing else may be done; it may be a watch of the one object of that name.
func CheckListRoute(info *request.Info, resource string, scope plan.Scope, name string) (watch bool, err error) {
	if err := checkRoute(info, resource, scope, name); err != nil {
		return false, err
	}
	if watch = info.Verb == "watch"; !watch && name != "" {
		return false, apierrors.NewMethodNotSupported(schema.GroupResource{Group: info.APIGroup, Resource: resource}, info.Verb)
	}
	return watch, nil
}

func checkRoute(info *request.Info, resource string, scope plan.Scope, name string) error {
	if info == nil || !info.IsResource || info.IsKubernetes || info.Subresource != "" ||
		info.Resource != resource || info.Name != name ||
		!sameScope(info.Namespace, scope.Namespace, name, resource == "namespaces") ||
		!sameScope(info.Workspace, scope.Workspace, name, resource == "workspaces" || resource == "workspacetemplates") {
		return status.NoResource()
	}
	return nil
}

// sameScope compares a namespace or workspace. An object that is one itself stands in its own scope.
func sameScope(authorized, served, name string, isScope bool) bool {
	return authorized == served || isScope && served == "" && authorized == name && name != ""
}
