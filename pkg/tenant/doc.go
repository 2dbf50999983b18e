// Package tenant decides who sees which workspaces, namespaces and clusters.
//
// Roles do, and beside them membership: people who are bound in a workspace or in a namespace, whatever to, see that it is there. All of
// it is found in memory, in the index of bindings and in the caches: no object is asked for one by one.
//
// Members completes what roles allow, for the routes of tenant.kubesphere.io:
//
//	list clusters, workspaces, workspacetemplates, namespaces, metrics    a partial list, empty for people who are bound nowhere
//	list namespaces of a workspace                                        a partial list: one's own
//	get a workspace or its template, list its clusters and metrics        people who are bound in it
//	get a namespace                                                       people who are bound in it
//
// Of other groups it completes the list of users, and workspaces and clusters where resources.kubesphere.io shows them. It allows nothing
// else, and nothing that writes; only routes that restrict their answer give a partial list.
package tenant
