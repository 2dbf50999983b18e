// Package merge answers one list over all clusters of a fleet.
//
// Nothing of a cluster is kept here. A list asks each cluster for keys first: the sort values, names and versions of as many objects as a
// page has. They are merged (heap.go), and the objects of the page alone are then asked for, of the clusters that have them
// (row_object_fetch.go). So a page costs O(page · clusters) small rows and one page of objects, at any depth: `next` is a position in the
// order (order_position.go), and for a page by its number the clusters' ranks are narrowed down in a few rounds (offset.go).
//
// A Source is a cluster, asked as the caller: what they see there is decided there, and nothing of it is kept for anybody. What a cluster
// answers is judged (source_read.go, key_fetch.go, row_object_fetch.go): too much, out of order, malformed, or none in time, and the cluster is
// missing from the answer, which says so. It is never waited for longer than its time, and spoils nothing of the others.
//
//	a page           500 objects, of at most 512 clusters
//	a cluster        its time (memberTimeout, 1 s) for all its keys, and the same for its objects; 8 KiB a key; 32 MiB of objects
//	an answer        64 MiB of objects: 413
//	answers at once  64, and 8 of one user: 429
package merge
