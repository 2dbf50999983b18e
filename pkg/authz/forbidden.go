package authz

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// Forbidden returns the error for a request that d refuses: a metav1.Status of code 403 that says in Kubernetes' words which user can't do
// what, and then what could be done about it.
func Forbidden(u user.Info, r *request.Info, d Decision) error {
	if exec := asExec(r); exec != nil { // a role with r's own name would not help
		r = exec
	}
	reason := d.Reason
	if reason == "" {
		reason = advice(u, r)
	}
	gr := schema.GroupResource{Group: r.APIGroup, Resource: r.Resource}
	return apierrors.NewForbidden(gr, r.Name, errors.New(refusal(u, r)+": "+reason))
}

func refusal(u user.Info, r *request.Info) string {
	name := ""
	if u != nil {
		name = u.GetName()
	}
	if !r.IsResource {
		return fmt.Sprintf("User %q cannot %s path %q", name, r.Verb, r.Path)
	}
	resource := r.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	var s strings.Builder
	fmt.Fprintf(&s, "User %q cannot %s resource %q in API group %q ", name, r.Verb, resource, r.APIGroup)
	switch {
	case r.Namespace != "":
		fmt.Fprintf(&s, "in the namespace %q", r.Namespace)
	case r.Workspace != "":
		fmt.Fprintf(&s, "in the workspace %q", r.Workspace)
	default:
		s.WriteString("at the cluster scope")
	}
	return s.String()
}

func advice(u user.Info, r *request.Info) string {
	if !isAuthenticated(u) {
		return "log in first"
	}
	who := "the platform"
	switch r.Scope {
	case request.Namespace:
		who = "the project"
	case request.Workspace:
		who = "the workspace"
	case request.Cluster:
		who = "the cluster"
	}
	return "no role of the user, or of one of the user's groups, allows it; an administrator of " + who + " can grant one"
}
