// Package store keeps the objects of a cluster in memory, in order, for queries that never go to kube-apiserver.
//
// # The path of an object
//
//	kube-apiserver
//	     | JSON over a connection of its own        feed/batching_conn.go  reads in large chunks, and seldom while much arrives
//	feed.ListWatcher, watchStream                   feed/list_watcher.go, feed/kube_watch_stream.go  what client-go's Reflector lists and watches by;
//	     |                                          feed/event_batch.go    events that arrived together are one event to it
//	     | one frame
//	index.Decoder                                   index/decoder.go, index/record.go  cuts what is not cached, reads metadata and fields
//	     | a Record and a Ref
//	cache: one goroutine for the kind               kind_cache.go
//	     |----> sinks: Set, Delete, in order        object_sink.go    roles, bindings, users, sessions: see Store.Feed
//	index.Collection: the writer's side             index/collection.go
//	     | published with what arrived together, and 3 ms after a change at the latest
//	index.Snapshot, read by queries                 index/snapshot.go
//	Watch: wakes at the next snapshot               snapshot_watch.go
//
// Package index has the data structures and what always holds of them, package feed how kube-apiserver is read. This package
// decides which kinds are cached, for how long, and what is done when something fails.
//
// # Which kinds are cached
//
// There is one cache, one reflector and one writer for each group, version and resource (GVR), started by the first query,
// Watch or Feed. Two served versions of a resource are two caches where both are asked for, each with its objects as
// kube-apiserver converts them. The Catalog knows which kinds exist: from discovery, asked again when a definition or an API
// service changes. A kind that is gone from it loses its caches, and its watches end with ErrGone. One that feeds a sink
// stays, and is retried until it is back.
//
// What is large and secret (the data of Secrets and ConfigMaps: Schema.CutClusterWide) is not cached with the objects of the
// cluster, but in small caches of one namespace each, for as long as requests need it: see SnapshotIn. Such a cache has
// Refs, generations and positions of its own.
//
// Faults:
//
//   - An error in reading from kube-apiserver degrades one kind: its objects stay as they were, its Condition says why
//     and since when, and reading is retried until it succeeds. A watch that was cut off, that hangs or that is silent
//     continues where it was; only where kube-apiserver no longer knows what was missed (410), or was out of reach for longer
//     than Options.MaxOutage, is everything read again, and what is gone deleted. Until the new list is in, the kind is not
//     Complete. No wait depends on the time of day.
//   - An object that can't be read is a fault of its kind, and is not left out: a missing object may widen rights as
//     well as narrow them, since second factors, locks and quotas are objects too. So every object that kube-apiserver
//     accepts must be readable here, and the bounds below are above its own.
//   - What is read again is never older than what was known, whichever kube-apiserver answers: it is a stream of initial
//     events or a list without a resource version, both of which are consistent reads. Only the first list of a kind that
//     feeds no sink may be of any age. Resource versions are not compared: a restored backup of etcd sets them back, and is right.
//
// # What bounds it
//
//	an object                        32 MiB, nested 10000 deep (kube-apiserver: about 3 MiB, 10000)
//	a query for a kind just begun    waits 2 s, then 503            Options.SyncWait
//	a query for a resource version   waits 3 s, then 504            Options.VersionWait
//	a kind without requests          30 min; one that feeds stays   Options.IdleAfter
//	a first list                     30 s without a byte, 300 s in all; then it is tried again
//	a request without an answer      30 s, then it is sent again
//	a watch without a byte           2 min, then it is opened again (kube-apiserver sends a bookmark each minute)
//	between two attempts             200 ms, doubled up to 15 s
//	history of a kind                8192 changes, and of versions that only it keeps 8 MiB or a tenth of the kind's JSON
//	ranges that a snapshot remembers 1024
//	a text index                     kinds of 4096 objects and more; 16 MiB or a tenth of the kind's JSON; 5 min unused
//	a search                         texts of 3 bytes and more; where more than an eighth of the objects is left, it is not used
//	caches of one namespace          64, 5 min unused, 256 MiB together, a quarter of that for one: 413; three quarters of the
//	                                 caches and bytes may be watched: 429 (Options.Namespaces, NamespaceIdle, NamespaceBytes)
//
//	all kinds together               Options.MemoryBytes: kinds unused for a minute end, then one with many objects is refused
//	                                 (503) for Options.NamespaceIdle and read again; not what feeds a sink
//
// Memory depends on the kinds that are requested and on their objects (docs/memory.md); the metrics ks_cache_* show which.
package store
