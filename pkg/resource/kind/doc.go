// Package kind lists the kinds that have filters, sort keys or annotations of their own, one function each: all_kinds.go names them
// all. Every other kind is served by its metadata and the paths of its fields.
package kind
