// Package tenant decides which workspaces, namespaces and clusters a user sees.
//
// Roles decide, and besides them membership: users who are bound to any role in a workspace or in a namespace see that it exists. All of
// it is found in memory, in the index of bindings and in the caches: no object is requested one by one.
//
// Members completes what roles allow, for the routes of tenant.kubesphere.io:
//
//	list clusters, workspaces, workspacetemplates, namespaces, metrics    a partial list, empty for users who are bound nowhere
//	list namespaces of a workspace                                        a partial list: the user's own
//	get a workspace or its template, list its clusters and metrics        users who are bound in it
//	get a namespace                                                       users who are bound in it
//	get the newest audit events                                           every user: the route shows their own
//
// In other groups it completes the list of users, and workspaces and clusters where resources.kubesphere.io shows them. It allows nothing
// else, and nothing that writes; only routes that restrict their answer return a partial list.
package tenant
