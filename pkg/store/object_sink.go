package store

import "kapis.dev/ks-apiserver/pkg/redaction"

// Object is one object as it was read from kube-apiserver: where it is, and its JSON.
type Object struct {
	Namespace, Name string
	// Raw is the object with its hidden fields, without managedFields and the last-applied annotation. A sink that stores a
	// part of it copies that part.
	Raw redaction.Bytes
}

// Sink receives the objects of one kind. Its methods are called one at a time, in the order of the changes, by the goroutine
// that reads the kind; they must return quickly.
type Sink interface {
	// Set says that an object is new or changed.
	Set(o *Object)
	// Delete says that an object is gone, also where that was seen only by a new list.
	Delete(namespace, name string)
}
