// Package table answers lists, objects and watches as meta.k8s.io/v1 Tables, which kubectl prints ("Receiving resources as Tables" in the
// Kubernetes API concepts). A Table is computed from the objects that the answer would have in JSON, of one page at a time, and so shows
// nothing that JSON hides.
package table
