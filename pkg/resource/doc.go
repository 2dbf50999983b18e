// Package resource answers queries for objects of any kind from the caches of package store.
//
// A query becomes a plan: terms that an index knows, conditions that are checked on records, and an
// order. A plan that is one term in an order that a tree has is answered by counting into the tree;
// any other walks the smallest range that one of its terms gives, keeps the matches, in order, for
// further pages of the same snapshot, and pages through those.
//
// A kind whose objects have filters or sort keys of their own has a file and a line in kinds.go;
// every other kind, custom resources too, is served by its metadata and the paths of its fields.
package resource
