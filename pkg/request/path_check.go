package request

import (
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
