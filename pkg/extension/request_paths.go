package extension

import (
	"net/http"
	"strings"
)

// DefaultLink is the link of a bundle that names none.
func DefaultLink(name string) string { return distRoot + name + "/index.js" }

// IsPath reports whether a path is one at which extensions answer: below /proxy/ or /dist/.
func IsPath(path string) bool {
	return strings.HasPrefix(path, proxyRoot) || strings.HasPrefix(path, distRoot)
}

// IsBundlePath reports whether a path is one of files of bundles, which take no login.
func IsBundlePath(path string) bool { return strings.HasPrefix(path, distRoot) }

// ReadMethod reports whether a method only reads.
func ReadMethod(method string) bool { return method == http.MethodGet || method == http.MethodHead }
