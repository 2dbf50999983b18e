package apiserver

import (
	"strings"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/kapis/dynamic"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/legacybinding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/legacyrole"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/web"
)

// mountOlder adds the routes of roles, bindings and groups of iam.kubesphere.io/v1alpha2: those of today, with a translation before and
// after them.
func (p routes) mountOlder(ws *restful.WebService, kinds *dynamic.Handler) {
	version := dynamic.LegacyVersion{Group: wire.Group, Version: wire.OlderVersion, Now: wire.Version,
		Cluster: []string{"clusterrolebindings", "roletemplates"}}
	dynamic.MountLegacyVersion(ws, version, kinds)

	roles := &legacyrole.Handler{Caches: p.store, Resources: p.resources, May: p.may}
	for _, k := range legacyrole.Kinds() {
		version.Mount(ws, k.PathPrefix, k.RoleResource, dynamic.LegacyHandlers{
			List:  version.Renew(kinds, roles.List(k, kinds.ListAnnotated(legacyrole.AnnotationKey, legacyrole.Names))),
			Get:   version.Renew(kinds, kinds.GetAnnotated(legacyrole.AnnotationKey, legacyrole.Names)),
			Write: version.Renew(kinds, roles.Write(k, kinds.Write)),
		})
	}

	bindings := &legacybinding.Handler{Users: p.users, Caches: p.store}
	version.Mount(ws, binding.Namespace.PathPrefix, "rolebindings", dynamic.LegacyHandlers{
		List: version.Renew(kinds, kinds.List), Get: version.Renew(kinds, kinds.Get),
		Create: version.Renew(kinds, bindings.CreateBindings(&binding.Namespace, kinds.Write)), Write: version.Renew(kinds, kinds.Write),
	})
	gathered := binding.Workspace.PathPrefix + "/rolebindings"
	ws.Route(ws.GET(gathered).To(web.Handle(version.Renew(kinds, legacybinding.Array(kinds.List)))).Metadata(web.MetadataWatch, true).
		Operation("listOlderWorkspaceRolebindings").Doc("The RoleBindings in the namespaces of a workspace, as an array").
		Param(ws.PathParameter("workspace", "name of the workspace")))
	for plural, create := range map[string]web.Handler{
		binding.Workspace.BindingResource:       bindings.CreateBindings(&binding.Workspace, kinds.Write),
		binding.WorkspaceGroups.BindingResource: bindings.CreateGroupBindings(kinds.Write),
		"groups":                                bindings.CreateGroup(kinds.Write),
	} {
		ws.Route(ws.POST(binding.Workspace.PathPrefix + "/" + plural).To(web.Handle(version.Renew(kinds, create))).
			Operation("createOlder" + strings.ToUpper(plural[:1]) + plural[1:]).
			Doc("Create objects of a workspace from the body of older clients, as the caller").
			Param(ws.PathParameter("workspace", "name of the workspace")))
	}
}
