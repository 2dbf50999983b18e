// Package store keeps the objects of a cluster in memory, in order, for queries that never ask
// kube-apiserver.
//
// # The road of an object
//
//	kube-apiserver
//	     | JSON over a connection of its own        batching_conn.go  reads much at a time, and seldom while much comes
//	listWatcher, watchStream                             list_watcher.go, watch_stream.go  what client-go's Reflector lists and watches by;
//	     |                                          event_batch.go    events that came together are one to it
//	     | one frame
//	decoder                                         decoder.go, record.go    cuts what is not kept, reads metadata and fields
//	     | a Record and a Ref
//	cache: one goroutine for the kind               cache.go
//	     |----> sinks: Set, Delete, in order        sink.go    roles, bindings, users, sessions: see Store.Feed
//	collection: the writer's side, under one lock   collection.go, bulk_load.go
//	     |    table    id -> Record                 table.go   chunks of 128, copied before they change
//	     |    trees    (Term, order) -> Ref         tree.go    by creation, by name, by a time of the kind
//	     |    history  position -> Change           history.go the last changes
//	     | published with what came together, and 3 ms after a change at the latest
//	Snapshot, behind one atomic pointer             snapshot.go
//	     |    ranges, sets of bits, texts           tree.go, bitset.go, text_search.go, trigram_index.go
//	Watch: wakes at the next snapshot               watch.go
//
// An object is kept once: as the bytes that are answered. Nothing is decoded into Go types; package rawjson finds
// values where they lie, and the texts of a Record are parts of its JSON where that is possible.
//
// # Which kinds are kept
//
// There is one cache, one reflector and one writer for a group, version and resource (GVR), begun by the first query,
// Watch or Feed. Two served versions of a resource are two caches where both are asked for, each with its objects
// as kube-apiserver converts them. The Catalog knows which kinds there are: from discovery, asked anew when a definition
// or an API service changes. A kind that is gone from it loses its caches, and its watches end with ErrGone; one that
// feeds a sink stays, and is tried until it is back.
//
// What is large and secret (the data of Secrets and ConfigMaps: Schema.CutAcross) is not kept with the objects of the
// cluster, but in small caches of one namespace each, for as long as somebody asks for that: see SnapshotIn. Such a
// cache has Refs, generations and positions of its own.
//
// # What always holds
//
// Objects:
//
//   - A Record and its JSON never change; an update puts another Record in the same place of the table.
//   - A Ref is an object's place in every order: namespace, name, creation time. It never changes. An object
//     that is made anew under its old name (another UID or creation time) is another object with a new Ref.
//   - The id of a Ref is its place in the table and its bit in a Set. It is given to another object when its own is
//     gone, so a Ref and a Set mean something together with a snapshot that has them, and nothing by themselves.
//
// Snapshots:
//
//   - A Snapshot never changes. Its lists, counts and objects are of one moment. Whoever reads them waits for no writer;
//     only the history and the indexes of texts, which go beyond a snapshot, have locks, held for some changes each.
//   - Trees share their nodes between snapshots (copy on write), as the table shares its chunks: an update costs the
//     paths that it touches, and one that nobody holds is let go. A snapshot that is held keeps the versions of
//     objects that it shows: hold it for one answer, not between two.
//   - Generation grows with every snapshot, position with every change. Two snapshots of one position have the same
//     objects, even where a bookmark has moved the resource version on between them.
//
// Orders:
//
//   - Trees are ordered by a Term first: the empty term orders all objects, a term such as "in namespace x", "has
//     label a=b", "is owned by u" or "its status is Running" those it holds for. So a filter that is one term is a range
//     of a tree that is in order already, its length is the total, and a page is found by counting, at any offset.
//   - The tree by creation has all terms; those by name and by times have all objects and namespaces only.
//   - Every order ends in namespace and name: no two objects are equal in it.
//   - A Set is what the ranges of some terms have, as bits. Sets are made for one query and intersected.
//
// History:
//
//   - A Change has the Records before and after it. A position counts changes: whoever kept what was at one, and
//     applies the changes behind it, has what is now. What a list shows anew is changes like any others.
//   - Positions of no two caches meet: not those of a kind that was dropped and begun again, nor those before and after
//     a restart (they begin at the time in microseconds). A position whose changes are not all kept, or which
//     is another cache's, is refused (Snapshot.Changes); so is a resource version that is too old (Snapshot.After). Who is
//     refused begins anew: nothing is ever missed silently.
//
// Texts:
//
//   - Indexes of trigrams (names, aliases; names, labels, annotations) are made aside when a large kind is first searched,
//     and moved on from the history. They name candidates, never matches, and say so where they can't help: the caller
//     looks at all objects then. No answer depends on whether there is an index.
//
// Faults:
//
//   - What goes wrong on the way from kube-apiserver degrades one kind: its objects stay as they were, its
//     Condition says why and since when, and it is tried until it is well. A watch that was cut off, that hangs or
//     that is silent goes on where it was; only where kube-apiserver no longer knows what was missed (410)
//     everything is read anew, and what is gone is deleted. Nothing that waits looks at the time of day.
//   - An object that can't be read is a fault of its kind, and is not left out: what is missing widens as much as it
//     narrows, since second factors, locks and quotas are objects too. So everything that kube-apiserver takes of an object
//     must be readable here, and the bounds below lie above its own.
//   - What is read anew is never older than what was known, whichever kube-apiserver answers: it is a stream of initial
//     events or a list without a resource version, both of which are consistent reads. Only the first list of a kind that
//     feeds no sink may be of any age. Resource versions are not compared: a restored backup of etcd sets them back, and is right.
//
// # What bounds it
//
//	an object                        32 MiB, nested 10000 deep (kube-apiserver: about 3 MiB, 10000)
//	a query for a kind just begun    waits 2 s, then 503            Options.SyncWait
//	a query for a resource version   waits 3 s, then 504            Options.VersionWait
//	a kind that nobody asks for      30 min; one that feeds stays   Options.IdleAfter
//	a first list                     30 s without a byte, 300 s in all; then it is tried anew
//	a request without an answer      30 s, then it is sent anew
//	a watch without a byte           2 min, then it is opened anew (kube-apiserver sends a bookmark each minute)
//	between two attempts             200 ms, doubled up to 15 s
//	history of a kind                8192 changes, and of versions that only it keeps 8 MiB or a tenth of the kind's JSON
//	ranges that a snapshot remembers 1024
//	an index of texts                kinds of 4096 objects and more; 16 MiB or a tenth of the kind's JSON; 5 min unused
//	a search                         texts of 3 bytes and more; where more than an eighth of the objects is left, it says no
//	caches of one namespace          64, 5 min unused, 256 MiB together, a quarter of that for one: 413; 429 where
//	                                 all are being watched (Options.Namespaces, NamespaceIdle, NamespaceBytes)
//
// The objects themselves have no bound: memory follows the kinds that are asked for (docs/memory.md), and the metrics
// ks_cache_* say which.
package store
