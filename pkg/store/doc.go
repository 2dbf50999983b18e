// Package store keeps the objects of a cluster in memory, in order, for queries that never ask
// kube-apiserver.
//
// The road of an object: a source reads the bytes of a list or a watch; a decoder cuts what nobody
// reads out of the object's JSON and makes a Record of it; a cache hands it to the sinks of its kind and
// to its collection; the collection keeps it in a table and in two ordered trees; every few
// milliseconds the collection publishes a Snapshot through one atomic pointer.
//
// Invariants:
//
//   - There is one cache, one reflector and one writer for a group, version and resource (GVR). Two
//     served versions of a resource are two of them where both are asked for, each with its objects as
//     kube-apiserver converts them.
//   - A Record and its JSON never change; an update puts another Record in the same place of the table.
//   - A Ref is an object's place in every order: namespace, name, creation time. It never changes; an
//     object that is made anew under its old name gets a new Ref.
//   - A Snapshot never changes. Its lists, counts and objects are of one moment.
//   - Trees share their nodes between snapshots (copy on write), as the table shares its chunks: an
//     update costs the paths that it touches.
//   - The history of a kind is its last changes, each with the records before and after it. A position
//     counts them: whoever kept what was at one, and applies the changes behind it, has what is now. A
//     position whose changes are not all kept, or which is another cache's, is refused.
//
// What goes wrong on the way from kube-apiserver degrades one kind: its objects stay as they were, its
// Condition says why and since when, and it is tried until it is well. A watch that was cut off, that hangs
// or that is silent goes on where it was; only where kube-apiserver no longer knows what was missed
// (410) everything is read anew, and what is gone is deleted. Nothing that waits looks at the time of
// day.
//
// Both trees are ordered by a Term first: the empty term orders all objects, a term such as "in
// namespace x" or "has label a=b" the objects it holds for. So a filter that is one term is a range of
// a tree that is in order already, and its page is found by counting, at any offset. Filters that match much
// are sets of bits, made of such ranges. Parts of names are found by an index of trigrams, which
// is made when a large kind is first searched, and moved on from the history.
//
// What is large and secret (the data of Secrets, say: Schema.CutAcross) is not kept with the objects of the
// cluster, but in small caches of one namespace each, for as long as somebody asks for that: see SnapshotIn.
package store
