package authz

import (
	"iter"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// readings yields the readings of r, in the order in which they are asked about: r by its present names, its alias, and those of Members.
// A request for the caller's own kubectl shell has that one alone.
// A right to one of them is enough, and a denial of one of them holds.
func (o *Order) readings(u user.Info, r *request.Info) iter.Seq[*request.Info] {
	return func(yield func(*request.Info) bool) {
		if o.OwnShell != nil && r != nil && r.Verb == "get" {
			if shell := o.OwnShell(u, r); shell != nil {
				yield(shell)
				return
			}
		}
		if !yield(withPresentNames(r)) {
			return
		}
		alias := o.Aliases.Of(r)
		if alias != nil && !yield(alias) || o.Members == nil {
			return
		}
		for _, reading := range o.Members.Readings(u, r) {
			if (alias == nil || *reading != *alias) && !yield(reading) {
				return
			}
		}
	}
}

// Aliases lets a right to read a kind stand for the right to read the same kind by the routes of
// resources.kubesphere.io, which serve every kind under a group of their own.
type Aliases struct {
	// GroupOf returns the group and resource that a resource of resources.kubesphere.io stands for.
	GroupOf func(resource string) (schema.GroupResource, bool)
}

// Of returns the request that r is an alias of, whose right is as good; nil if it is none.
func (a Aliases) Of(r *request.Info) *request.Info {
	if !isAliased(r) {
		return nil
	}
	gr, ok := a.GroupOf(r.Resource)
	if !ok {
		return nil
	}
	return r.As(gr)
}

// hasItems reports whether a list may be answered as a partial list: an alias of one of the platform's kinds, which belong to no
// namespace and no workspace, may not, nor may one of an unknown kind.
func (a Aliases) hasItems(r *request.Info) bool {
	if !isAliased(r) {
		return true
	}
	alias := a.Of(r)
	return alias != nil && alias.Scope != request.Global
}

func isAliased(r *request.Info) bool {
	if r == nil || !r.IsResource || r.IsKubernetes || r.APIGroup != "resources.kubesphere.io" || r.Subresource != "" {
		return false
	}
	if r.APIVersion != "v1alpha2" && r.APIVersion != "v1alpha3" {
		return false
	}
	return r.Verb == "get" || r.Verb == "list" || r.Verb == "watch"
}

const groupIAM = "iam.kubesphere.io"

// LegacyMembers is the name of the members of a namespace in iam.kubesphere.io/v1alpha2.
const LegacyMembers = "members"

// legacyRoles returns the name of the roles of a member in iam.kubesphere.io/v1alpha2, as a subresource, by the name of the members.
func legacyRoles(members string) string {
	switch members {
	case "clustermembers":
		return "clusterroles"
	case "workspacemembers":
		return "workspaceroles"
	case "namespacemembers", LegacyMembers:
		return "roles"
	}
	return ""
}

const groupTerminal = "terminal.kubesphere.io"

// asExec returns r as what it does: a terminal in a pod, and files of a container, are commands in the container, and a shell on a node is
// a command there, so the right to run commands decides alone (create pods/exec or nodes/exec of core/v1), whatever r's own name and method
// are. It returns nil for any other request.
func asExec(r *request.Info) *request.Info {
	if r == nil || r.APIGroup != groupTerminal || r.IsKubernetes || !r.IsResource || r.Workspace != "" || r.Name == "" {
		return nil
	}
	inPod := r.Resource == "pods" && r.Namespace != "" && (r.Subresource == "" || r.Subresource == "exec" || r.Subresource == "file")
	onNode := r.Resource == "nodes" && r.Namespace == "" && r.Subresource == "exec"
	if !inPod && !onNode {
		return nil
	}
	now := r.As(schema.GroupResource{Resource: r.Resource})
	now.Verb, now.Subresource = "create", "exec"
	return now
}

// isOlderSetting reports whether r is for configs/gpu/kinds, which is one of the configs, with a longer path.
func isOlderSetting(r *request.Info) bool {
	return r != nil && r.APIGroup == "config.kubesphere.io" && r.APIVersion == "v1alpha2" && !r.IsKubernetes && r.IsResource &&
		r.Verb == "get" && r.Resource == "configs" && r.Name == "gpu" && r.Subresource == "kinds" && r.Workspace == "" && r.Namespace == ""
}

const (
	groupGateway = "gateway.kubesphere.io"
	// gatewayPrefix is what the name of the gateway of a namespace begins with.
	gatewayPrefix = "kubesphere-router-"
)

// asGateway returns r as what it does to the Gateway of a namespace, which older clients write at the path of all of them, call router, and
// ask for its pods and its logs. What else is read for them has a decision of its own. It returns nil for any other request.
func asGateway(r *request.Info) *request.Info {
	if r == nil || r.IsKubernetes || !r.IsResource || r.Namespace == "" || r.Workspace != "" {
		return nil
	}
	router := r.APIGroup == "resources.kubesphere.io" && r.APIVersion == "v1alpha2" && r.Resource == "router" && r.Name == ""
	gateways := r.APIGroup == groupGateway && r.APIVersion == "v1alpha1" && r.Resource == "gateways"
	if !router && !gateways {
		return nil
	}
	now := r.As(schema.GroupResource{Group: groupGateway, Resource: "gateways"})
	switch {
	case gateways && r.Verb == "get" && (r.Subresource == "pods" || r.Subresource == "logs"),
		gateways && r.Verb == "create" && r.Name != "" && r.Subresource == "upgrade":
		now.Subresource = ""
	case r.Name != "" || r.Subresource != "":
		return nil
	case r.Verb == "update":
		now.Name = gatewayPrefix + r.Namespace
	case r.Verb == "deletecollection":
		now.Verb, now.Name = "delete", gatewayPrefix+r.Namespace
	case router && r.Verb == "list":
		now.Verb, now.Name = "get", gatewayPrefix+r.Namespace
	case router && r.Verb == "create":
	default:
		return nil
	}
	return now
}

// withPresentNames returns r with the present names of what older clients ask for, and a terminal and the gateway of a project as what
// they are, or r itself if it has no other.
func withPresentNames(r *request.Info) *request.Info {
	if exec := asExec(r); exec != nil {
		return exec
	}
	if isOlderSetting(r) {
		now := *r
		now.Subresource = ""
		return &now
	}
	if g := asGateway(r); g != nil {
		return g
	}
	if r == nil || r.APIGroup != groupIAM || r.APIVersion != "v1alpha2" || r.IsKubernetes || !r.IsResource {
		return r
	}
	if r.Verb == "get" && r.Subresource != "" && r.Subresource == legacyRoles(r.Resource) { // a right to a member includes its roles
		now := *r
		now.Subresource = ""
		r = &now
	}
	switch {
	case r.Resource == LegacyMembers && r.Subresource == "" && r.Namespace != "":
		return r.As(schema.GroupResource{Group: groupIAM, Resource: "namespacemembers"})
	case r.Resource == "users" && r.Subresource == "globalroles":
		now := *r
		now.Subresource = "roletemplates"
		return &now
	}
	return r
}
