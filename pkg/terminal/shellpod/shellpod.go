// Package shellpod has what all pods of shells have: whose they are, and the Leases by which they end with the server that serves them.
package shellpod

import "regexp"

const (
	// LabelUser has the UID of the user whose shell it is.
	LabelUser = "terminal.kapis.dev/user-uid"
	// AnnotationUser has the user's name, which is not always fit to be a label.
	AnnotationUser = "terminal.kapis.dev/user"
	// LabelApp is the label that says of which kind a pod is.
	LabelApp = "app.kubernetes.io/name"
)

var uid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// IsUID reports whether a UID is one of Kubernetes' (RFC 9562, section 4): it is a part of names here, and all are as long as each other,
// so that none is the beginning of another.
func IsUID(s string) bool { return uid.MatchString(s) }
