// Package bodyredaction replaces the secrets in the bodies of requests and answers before they become a part of an audit event.
//
// Three rules hold, and each alone is enough to hide a value: the fields of kinds that hold secrets (redacted_fields.go); the names of
// members, of any kind, that say that their value is one (secret_names.go); and texts that have one within them, such as an argument
// --token=... (secret_patterns.go). They err on the side of hiding: an event that lacks a harmless value is better than one with a
// password. A body that can't be parsed has no redacted form at all.
package bodyredaction
