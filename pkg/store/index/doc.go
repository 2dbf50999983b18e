// Package index keeps the objects of one kind in memory: as their JSON, in counted B-trees, in immutable snapshots.
//
//	Decoder      decoder.go, record.go      JSON -> Record and Ref
//	Collection   collection.go, bulk_load.go   the writer's side, under one lock
//	     |    table    id -> Record         record_table.go     chunks of 128, copied before they change
//	     |    trees    (Term, order) -> Ref tree_range.go      by creation, by name, by a time of the kind
//	     |    history  position -> Change   history.go   the last changes
//	Snapshot     snapshot.go                after one atomic pointer
//	     |    ranges, bit sets, texts       tree_range.go, bitset.go, text_search.go, trigram_index.go
//
// An object is stored once: as the bytes that are answered. Nothing is decoded into Go types; package rawjson finds values
// in the bytes, and the texts of a Record are substrings of its JSON where that is possible.
//
// # What always holds
//
// Objects:
//
//   - A Record and its JSON never change; an update puts another Record at the same id of the table.
//   - A Ref is an object's key in every order: namespace, name, creation time. It never changes. An object that is
//     created again under its old name (another UID or creation time) is another object with a new Ref.
//   - The id of a Ref is its index in the table and its bit in a Set. It is reused when its object is gone, so a Ref
//     and a Set are valid only together with a snapshot that has them.
//
// Snapshots:
//
//   - A Snapshot never changes. Its lists, counts and objects are of one moment. Readers never wait for a writer; only
//     the history and the text indexes, which are not part of a snapshot, have locks, held for a few changes each.
//   - Trees share their nodes between snapshots (copy on write), as the table shares its chunks: an update costs the
//     paths that it touches, and an unused snapshot is garbage. A snapshot in use keeps the versions of its objects
//     alive: hold it for one answer, not between two.
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
//   - A Change has the Records before and after it. A position counts changes: the objects at a position, with the
//     changes after it applied, are the present ones. What a relist shows is recorded as changes like any others.
//   - Positions of no two caches overlap: not those of a kind that was dropped and started again, nor those before and
//     after a restart (they begin at the time in microseconds). A position whose changes are no longer all in the
//     history, or which is another cache's, is refused (Snapshot.Changes); so is a resource version that is too old
//     (Snapshot.After). The caller then starts from a snapshot: nothing is ever missed silently.
//
// Texts:
//
//   - Indexes of trigrams (names, aliases; names, labels, annotations) are built in the background when a large kind is
//     first searched, and updated from the history. They return candidates, never matches, and say so where they can't
//     help: the caller then tests all objects. No answer depends on whether there is an index.
package index
