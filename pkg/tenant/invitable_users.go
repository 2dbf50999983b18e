package tenant

import (
	"context"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
)

// peoplePerPage bounds how many users a page of the names for invitations has.
const peoplePerPage = 1000

// reducedPaths are the fields that callers who may invite see of all users, to find the users to invite.
func reducedPaths() []query.Path {
	return []query.Path{
		{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "creationTimestamp"},
		{"metadata", "annotations", "kubesphere.io/alias-name"}, {"status", "state"},
	}
}

// ReducedQuery returns the query that a caller with only a partial list may run on all objects of a kind: a caller who may invite members
// may read the names of users. It is nil if there is none, or if the query would reveal more.
func (m *Members) ReducedQuery(ctx context.Context, gr schema.GroupResource, asked url.Values) (*query.Query, error) {
	if gr.Group != iamGroup || gr.Resource != "users" {
		return nil, nil //nolint:nilnil // nil is nothing
	}
	allowed := url.Values{}
	for name, values := range asked {
		switch name {
		case "limit", "page", "ascending", "names", "name":
		case "sortBy":
			if len(values) > 0 && values[0] != "name" && values[0] != "createTime" && values[0] != "creationTimestamp" {
				return nil, nil //nolint:nilnil // the order would tell
			}
		default:
			return nil, nil //nolint:nilnil // who has an address, or is a member of what
		}
		allowed[name] = values
	}
	ok, err := m.invites(ctx, request.UserFrom(ctx))
	if err != nil || !ok {
		return nil, err
	}
	q, err := query.Parse(allowed)
	if err != nil {
		return nil, err
	}
	q.Reduced = true
	if q.Project = reducedPaths(); q.Limit == query.All || q.Limit > peoplePerPage {
		q.Limit = peoplePerPage
	}
	return q, nil
}

// invites reports whether u may make users members of the cluster, or of a workspace or a namespace in which u is bound.
func (m *Members) invites(ctx context.Context, u user.Info) (bool, error) {
	if !isPerson(u) {
		return false, nil
	}
	const root = "/kapis/" + iamGroup + "/v1beta1/"
	i := request.Info{Verb: "create", APIPrefix: "kapis", APIGroup: iamGroup, APIVersion: "v1beta1", IsResource: true}
	may := func(scope request.Scope, workspace, namespace, at, resource string) (bool, error) {
		i.Scope, i.Workspace, i.Namespace, i.Resource, i.Path = scope, workspace, namespace, resource, root+at+resource
		d, err := m.Rights.Authorize(ctx, u, &i)
		return err == nil && d.Allowed(), err
	}
	if ok, err := may(request.Cluster, "", "", "", "clustermembers"); ok || err != nil {
		return ok, err
	}
	in, _ := m.Bound.Memberships(u)
	for _, w := range workspacesOf(in) {
		if ok, err := may(request.Workspace, w, "", "workspaces/"+w+"/", "workspacemembers"); ok || err != nil {
			return ok, err
		}
	}
	for _, n := range namespacesOf(in) {
		if ok, err := may(request.Namespace, "", n, "namespaces/"+n+"/", "namespacemembers"); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}
