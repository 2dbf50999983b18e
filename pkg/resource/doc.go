// Package resource answers queries for objects of any kind from the caches of package store.
//
// A query becomes a plan: terms that an index knows, conditions that are checked on records, and an
// order. A plan that is one term in an order that a tree has is answered by counting into the tree;
// any other walks the smallest range that one of its terms gives, and keeps the matches, in order, for
// further pages. What is kept is brought up to date from the history of the kind by the next question, so
// that a change costs the filter on one object, not a search (results.go). Counts of values, which
// facets ask for, are kept with it (tally.go).
//
// A page that is asked for twice while its objects are the same keeps the bytes of its answer, joined
// and, where a client takes that, compressed (body.go). What is of the moment, totals and resource
// version, stands in a head of its own before them; in front of compressed bytes it is a stored block of
// the same stream (gzip.go). A client that has the answer already gets a 304 (etag.go).
//
// Invariants:
//
//   - Items, totals and counts of one answer are of one moment, and no later answer is of an earlier one.
//   - The key of whatever is kept has everything that its content depends on: kind, scope, the part that
//     the caller may see, filters, order, other kinds.
//   - What is kept is bounded in bytes, and goes when nobody asks for it (kept.go). So are the bytes of
//     answers under way, and the time in which a client has to take them (write.go).
//
// A kind whose objects have filters or sort keys of their own has a file and a line in kinds.go;
// every other kind, custom resources too, is served by its metadata and the paths of its fields.
package resource
