// Package tenant says who sees which workspaces, namespaces and clusters.
//
// Roles say so, and beside them membership: whoever is bound in a workspace or in a namespace, whatever to, sees that it is there. All of
// it is found in memory, in the index of bindings and in the caches: no object is asked for one by one, and nobody is asked.
//
// The routes of tenant.kubesphere.io lie behind an Authorizer, which lets through what roles do not:
//
//	list clusters, workspaces, workspacetemplates, namespaces, metrics    a part (authz.PartialList), empty where one is bound nowhere
//	list namespaces of a workspace                                        a part: one's own
//	get a workspace or its template, list its clusters and metrics        who is bound in it
//	get a namespace                                                       who is bound in it
//
// Nothing else is let through, and nothing that writes; a part is honoured only by routes that know of parts.
package tenant
