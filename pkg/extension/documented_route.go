package extension

import "kapis.dev/ks-apiserver/pkg/request"

// Route is a route of an APIService, as its backend describes it.
type Route struct {
	*request.Pattern
	// Kind is that of its objects, "" where the backend does not say it.
	Kind string
}
