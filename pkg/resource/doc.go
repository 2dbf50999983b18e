// Package resource answers queries for objects of any kind from the caches of package store.
//
// # The path of a query
//
//	Service.List(kind, plan.Scope, query.Query)      service.go
//	  plan.Planner.Plan                              plan/plan.go, plan/conditions.go for filters, plan/sort_order.go for sort keys
//	     |                 scope, the kind's own, metadata, labels, fields, words, at last the expression; the order
//	  Planner.Snapshot                               plan/plan.go    which cache; waits until it has reached the requested resourceVersion
//	  cachedOrNew                                    page/page.go    if the same page of the same position was answered before, its bytes are cached: done
//	  execute                                        result_cache.go
//	     |-- Plan.Direct                             plan/executor.go  one term, in an order of the store's: a range of a tree, counted, not searched
//	     |-- result                                  any other: the cached result, updated by the changes since;
//	     |           or Plan.Collect, a walk over the fewest objects that can match:
//	     |      named                                the objects of the requested names
//	     |      textSearch  plan/text_search.go      what the trigrams of the longest word leave
//	     |      walkBitsets plan/bitset_filter.go    bit sets, intersected; the rest is tested object by object
//	     |      a range     plan/executor.go         of the term with the fewest objects, each tested
//	     |-> rows           plan/sorted_rows.go      the matches in their order, a counted tree; plan/facets.go counts the facets
//	  Page                                           page/page.go     the records from start on
//	  Answer                                         page/page.go, httpcache/response.go    304, or the records' bytes as they are
//
// A direct or repeated query costs its plan and its page, for any number of objects. A new query walks once, and the first
// query in an order by any field sorts the matches, once.
//
// # What always holds
//
// Plans:
//
//   - A condition always has Holds, which tests one record; terms, without and label say how an index finds the same
//     objects. So every plan can be answered by testing all objects, and any faster way must give the same result
//     (property_test.go compares all of them with a model that does that).
//   - Scope comes first and the caller's filters after it: no filter and no expression tests an object that is out of
//     scope. Scope.Part restricts a plan to what the caller may see, before anything is counted: items, totals, facets and
//     entity tags depend on nothing else.
//   - Every order is total: it ends in namespace and name. Descending is ascending, read from the other end.
//   - The key of a result has all that its matches depend on: kind, scope, partial list (by its key), filters, order, facets,
//     and what was read of other kinds (plan.Builder.Vary). Queries of one key share a result, so Holds must not use
//     anything that is not in the key.
//
// Cached results (result_cache.go):
//
//   - A result is what a query found at one position of the history. The next query applies the changes after that
//     position: for each, the filter on the old and on the new version, and an insertion into the order. Where there are
//     more changes than objects to test, or the history no longer has them, it starts over.
//   - One request searches, the others of the same key wait for its result. Answers never go back to an older state:
//     a request that comes with an older snapshot gets a newer one.
//   - A result keeps Refs and copies of sort values, never Records: it must not keep old versions alive.
//
// Pages and their bytes (page/page.go):
//
//   - The second time that a page is the same, its records and the joined bytes of its items are cached, and compressed where
//     a client takes gzip. The head (resource version, totals, facets) is written for each answer, so bytes outlive
//     changes of other objects; in gzip the head is a stored block before the cached blocks.
//   - An entity tag is made of the UIDs and resource versions of the page, what other kinds know of it, total, facets, fields and form, and of nothing
//     else: it is equal on every replica, and does not change with objects elsewhere in the list.
//
// Streams (package watch):
//
//   - A watch stores a position and no object. Its events are made from the history when the client can receive them: a
//     slow client costs no memory, and gets 410 where the history no longer goes back that far. Only while the initial
//     objects are being sent does it hold a snapshot.
//   - A live page stores the page that was sent, and sends the difference to what List would answer now.
//   - What a plan read of other kinds is checked each second (plan.Builder.Outdated): a watch ends with 410 when it has
//     changed, a live page gets a new plan.
//
// # Which cache answers
//
// Planner.Snapshot alone decides it: the cache of the kind, or, for kinds whose data is cached by namespace only and for a caller
// who may read the kind itself there (Scope.Data), the one of the namespace.
//
// # Kinds
//
// A kind whose objects have filters or sort keys of their own has a function in a file of package kind and a line in
// kind/all_kinds.go: fields, which are read once for each version of an object (extract); how each is compared, indexed or sorted by;
// what is not cached or shown (Cut, CutClusterWide); a plan function where other kinds are needed; and what another kind knows
// of them, which answers show as an annotation without a copy of the object (derived_annotation.go). Of
// what CutClusterWide names, Tables show how many keys it has to callers who may list all of the kind (KeyCount). Every other kind,
// custom resources too, is served by its metadata and the paths of its fields.
//
// # What bounds it
//
//	an answer                50 000 items, 128 MiB: 413         Options.MaxItems, MaxBytes
//	answers being written    256 MiB: 429. Below 64 KiB they always pass; above 4 MiB they leave a quarter to the others
//	a client                 30 s without reading a byte of a long answer
//	results                  2048, 64 MiB together, 48 MiB one; gone 2 to 4 min after their last use
//	pages                    8192, 32 MiB together, 16 MiB one; bytes only of pages of up to 4 MiB; 2 to 4 min as well
//	gzip                     2 writers for each processor: where none is free, the answer is not compressed
//	facets                   8 of up to 1000 values, each of up to 256 bytes; the rest is counted together
//	expressions              128 compiled ones; their costs: package expression
//	derived from other kinds 256
//	a scan                   checks every 256 objects whether its client is still there
//	a watch                  checks for changes at most every 40 ms; 30 to 60 min; 2 min for its initial objects
//	a live page              500 items, sent at most every 200 ms
//
// Package query bounds what a query may ask for, package stream how many streams there are.
package resource
