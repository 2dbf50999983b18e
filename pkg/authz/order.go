package authz

import (
	"context"
	"errors"
	"fmt"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// Order authorizes every request. It asks its authorizers, in their order, about each reading of the request; Members may complete what
// none of them allows or denies.
type Order struct {
	// Authorizers are the restriction of API keys, the open paths, and the configured modes.
	Authorizers Union
	// Vetoing is how many of the authorizers, from the first on, are also asked about the alias of what another reading allowed, and about
	// each item of a partial list. It is 0 if no webhook precedes another mode.
	Vetoing int
	// Aliases knows the kinds of resources.kubesphere.io.
	Aliases Aliases
	// OwnShell returns the one reading of a request for the caller's own kubectl shell, whatever its address is, and nil for any other
	// request; nil where there are none. Shells are opened with the verb get, and it is asked about no other.
	OwnShell func(u user.Info, r *request.Info) *request.Info
	// Members is nil where the modes lack RBAC: only RBAC has memberships.
	Members Members
}

// Members lets callers see what they are members of, where no role allows it. tenant.Members is one.
type Members interface {
	// Readings returns further readings of r, a right to one of which is a right to r, in the order in which they are asked about.
	Readings(u user.Info, r *request.Info) []*request.Info
	// Complete returns the decision on r if the authorizers refused each of its readings; d is their refusal, or the partial list that they
	// allow.
	Complete(ctx context.Context, u user.Info, r *request.Info, d Decision) (Decision, error)
}

// Authorize returns the decision on the first reading that is allowed or denied, or else the combined decision of all readings. An error
// is final, as a denial is.
func (o *Order) Authorize(ctx context.Context, u user.Info, r *request.Info) (Decision, error) {
	var refusal Decision
	first := true
	for reading := range o.readings(u, r) {
		d, err := o.Authorizers.Authorize(ctx, u, reading)
		switch {
		case err != nil || d.denied:
			return d, err
		case d.Allowed() && first && o.Vetoing > 0:
			return o.vetoAlias(ctx, u, r, d)
		case d.Allowed():
			return d, nil
		}
		refusal, first = refusal.or(d), false
	}
	if refusal.partial != nil && !o.Aliases.hasItems(r) {
		refusal = AllowPartial(nil, refusal.Reason)
	}
	if o.Members != nil {
		d, err := o.Members.Complete(ctx, u, r, refusal)
		if err != nil || d.Allowed() {
			return d, err
		}
		refusal = d
	}
	return o.vetoPartialList(ctx, u, r, refusal)
}

// Union asks each authorizer in turn; the first that allows or denies decides, and so does an error that comes with a denial. Otherwise
// the request is refused with the last reason given, all partial lists, and all errors.
type Union []Authorizer

// Authorize implements Authorizer.
func (a Union) Authorize(ctx context.Context, u user.Info, r *request.Info) (Decision, error) {
	var refusal Decision
	var errs []error
	for _, next := range a {
		d, err := next.Authorize(ctx, u, r)
		switch {
		case err != nil && d.denied:
			return Deny(d.Reason), errors.Join(append(errs, err)...)
		case err != nil:
			errs = append(errs, err)
		case d.Allowed():
			return d, nil
		case d.denied:
			return Deny(d.Reason), nil
		default:
			refusal = refusal.or(d)
		}
	}
	if errs != nil { // the rest of the partial list is unknown
		return Decision{Reason: refusal.Reason}, errors.Join(errs...)
	}
	return refusal, nil
}

// or returns the refusal of a request that d and e refuse, with the partial lists of both and the last reason.
func (d Decision) or(e Decision) Decision {
	if e.Reason == "" {
		e.Reason = d.Reason
	}
	return AllowPartial(d.partial.Or(e.partial), e.Reason)
}

// Loaded distinguishes "you may not" from "roles and bindings are not known yet": a refusal by an index that is still loading would send
// a client to its login page for nothing.
type Loaded struct {
	Authorizer
	// Known returns nil once all roles and bindings are known.
	Known func() error
}

// Authorize asks the index; what it allows is allowed, even while the index is loading.
func (l Loaded) Authorize(ctx context.Context, u user.Info, r *request.Info) (Decision, error) {
	d, err := l.Authorizer.Authorize(ctx, u, r)
	if err != nil || d.Allowed() {
		return d, err
	}
	if missing := l.Known(); missing != nil {
		e := apierrors.NewServiceUnavailable(fmt.Sprintf("roles and bindings are not loaded yet: %v", missing))
		e.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
		return Decision{}, e
	}
	return d, nil
}

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
