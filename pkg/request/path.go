package request

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"kapis.dev/ks-apiserver/pkg/status"
)

// Longer paths name nothing that Kubernetes could store: object names have at most 253 bytes. The bounds leave room for the paths of
// proxied services.
const (
	maxPath    = 8192
	maxSegment = 1024
)

// URLPath returns the Path and the RawPath of the URL that is sent on. rawPath is empty, so that url.URL encodes path in its one
// canonical way; Parse has refused paths whose meaning depends on how they are encoded.
func (i *Info) URLPath() (path, rawPath string) {
	return i.Path, ""
}

// checkTarget returns the decoded path of u, if every reader understands it in the same way: no empty and no dot segment, nothing that
// could be decoded a second time, nothing that some router takes for a separator.
func checkTarget(u *url.URL) (string, error) {
	switch {
	case u.Opaque != "" || u.User != nil, u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https":
		return "", status.BadRequestf("the request target is not a path, nor the http or https URL of one")
	case u.Path == "" && u.Host != "": // "GET http://host": RFC 9112 section 3.2.2
		return "/", nil
	case u.Path == "" || u.Path[0] != '/':
		return "", status.BadRequestf("the path %s does not begin with a slash", excerpt(u.Path))
	case len(u.Path) > maxPath:
		return "", status.BadRequestf("the path is longer than %d bytes", maxPath)
	}
	// Path is decoded already: only RawPath, which is set if the client did not use the canonical encoding, still distinguishes an encoded
	// slash from a separator.
	if hasEncodedSlash(u.RawPath) {
		return "", status.BadRequestf("the path %s has an encoded slash, which no name may contain", excerpt(u.Path))
	}
	if err := checkPath(u.Path); err != nil {
		return "", err
	}
	return u.Path, nil
}

func hasEncodedSlash(raw string) bool {
	for {
		n := strings.IndexByte(raw, '%')
		if n < 0 || n+2 >= len(raw) {
			return false
		}
		if raw[n+1] == '2' && (raw[n+2] == 'f' || raw[n+2] == 'F') {
			return true
		}
		raw = raw[n+1:]
	}
}

// checkPath scans the decoded path once; it allocates only to refuse.
func checkPath(path string) error {
	ascii := true
	start := 1 // of the segment
	for n := 1; n <= len(path); n++ {
		if n == len(path) || path[n] == '/' {
			if err := checkSegment(path, path[start:n], n == len(path)); err != nil {
				return err
			}
			start = n + 1
			continue
		}
		switch c := path[n]; {
		case c < 0x20 || c == 0x7f:
			return status.BadRequestf("the path %s has a control character", excerpt(path))
		case c == '\\' || c == ';':
			return status.BadRequestf("the path %s has the character %q, which no name may contain", excerpt(path), c)
		case c == '%' && n+2 < len(path) && isHex(path[n+1]) && isHex(path[n+2]):
			return status.BadRequestf("the path %s is encoded twice: encode it once", excerpt(path))
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	if ascii {
		return nil
	}
	if !utf8.ValidString(path) {
		return status.BadRequestf("the path %s is not valid UTF-8", excerpt(path))
	}
	if strings.IndexFunc(path, unicode.IsControl) >= 0 {
		return status.BadRequestf("the path %s has a control character", excerpt(path))
	}
	return nil
}

func checkSegment(path, segment string, last bool) error {
	switch {
	case segment == "" && !last: // an empty last one is a trailing slash
		return status.BadRequestf("the path %s has an empty segment: send it without \"//\"", excerpt(path))
	case segment == "." || segment == "..":
		return status.BadRequestf("the path %s has a %q segment: send the path that it stands for", excerpt(path), segment)
	case len(segment) > maxSegment:
		return status.BadRequestf("the path has a segment longer than %d bytes", maxSegment)
	}
	return nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// cutCluster removes the cluster's name from the path: /clusters/{cluster}/rest, and the older /{api,apis,kapis}/clusters/{cluster}/rest,
// of which /{api,apis,kapis}/rest remains.
func cutCluster(path string) (cluster, rest string, err error) {
	cluster, rest, err = cutClusterOnce(path)
	if err != nil || cluster == "" {
		return "", path, err
	}
	// A second name would be for the member to authorize, after the first one was authorized here.
	if again, _, nested := cutClusterOnce(rest); again != "" || nested != nil {
		return "", "", status.BadRequestf("the path %s names a cluster within a cluster", excerpt(path))
	}
	return cluster, rest, nil
}

func cutClusterOnce(path string) (cluster, rest string, err error) {
	s := segments(path[1:])
	prefix := ""
	first := s.next()
	switch first {
	case "clusters":
	case "api", "apis", "kapis":
		if s.next() != "clusters" {
			return "", path, nil
		}
		prefix = path[:1+len(first)]
	default:
		return "", path, nil
	}
	cluster = s.next()
	if cluster == "" {
		return "", "", status.BadRequestf("the path %s lacks the name of a cluster: /clusters/{cluster}/...", excerpt(path))
	}
	if !isClusterName(cluster) {
		return "", "", status.BadRequestf("%s is no name of a cluster: expected lower-case letters, digits, \"-\" and \".\"", excerpt(cluster))
	}
	if prefix == "" && s == "" {
		return "", "", status.BadRequestf("the path %s names a cluster, but nothing in it: /clusters/%s/...", excerpt(path), cluster)
	}
	if s == "" {
		return cluster, prefix, nil
	}
	rest = path[len(path)-len(s)-1:]
	if prefix != "" {
		rest = prefix + rest
	}
	return cluster, rest, nil
}

// isClusterName reports whether an object could have this name: RFC 1123 labels, joined by dots.
func isClusterName(name string) bool {
	if len(name) > 253 {
		return false
	}
	edge := true // at the start, after a dot
	for n := range len(name) {
		switch c := name[n]; {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			edge = false
		case c == '-' && !edge && n+1 < len(name) && name[n+1] != '.':
		case c == '.' && !edge:
			edge = true
		default:
			return false
		}
	}
	return !edge
}

// segments is the rest of a path, without the slash before it.
type segments string

// next removes and returns the next segment, which is empty if none is left.
func (s *segments) next() string {
	segment := string(*s)
	if n := strings.IndexByte(segment, '/'); n >= 0 {
		segment, *s = segment[:n], segments(segment[n+1:])
	} else {
		*s = ""
	}
	return segment
}

// peek returns the next segment without removing it.
func (s segments) peek() string {
	return s.next()
}

// excerpt quotes what a client sent, shortened to what a person needs to find it.
func excerpt(s string) string {
	const most = 120
	if len(s) > most {
		return fmt.Sprintf("%q...", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

// isMethod reports whether this server knows a method; TRACE and CONNECT are not for an API.
func isMethod(m string) bool {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return true
	}
	return false
}
