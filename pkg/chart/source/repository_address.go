package source

import (
	"net/url"
	"strings"

	"kapis.dev/ks-apiserver/pkg/chart"
)

// parseBase reads the URL of a repository, and lets it end in a slash.
func parseBase(text string, names fieldNames) (*url.URL, error) {
	if u, err := url.Parse(text); err == nil && u.User != nil {
		return nil, failure(ReasonInvalid, "spec.url: a user and a password are not taken here, but in %s", names.credential)
	}
	base, err := parse("spec.url", text)
	if err != nil {
		return nil, err
	}
	if base.RawQuery != "" {
		return nil, failure(ReasonInvalid, "spec.url: a query is not taken")
	}
	if base.Scheme == schemeOCI {
		if at := strings.Trim(base.Path, "/"); at != "" {
			if err := checkRepository("spec.url", at); err != nil {
				return nil, err
			}
		}
	}
	return base.JoinPath("/"), nil
}

// parse parses the URL of a repository or a chart.
func parse(field, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, failure(ReasonInvalid, "%s: it is no URL", field) // the error would quote it
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != schemeOCI || u.Hostname() == "" || u.Opaque != "":
		return nil, failure(ReasonInvalid, "%s: it is no http, https or oci URL", field)
	case u.User != nil:
		return nil, failure(ReasonInvalid, "%s: a user and a password are not taken here", field)
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// Resolve returns the URL of a chart, which an index may give relative to the repository.
func (a *Access) Resolve(ref string) (string, error) {
	to, err := url.Parse(ref)
	if err != nil || ref == "" {
		return "", failure(ReasonInvalid, "urls[0]: it is no URL")
	}
	u, err := parse("urls[0]", a.base.ResolveReference(to).String())
	if err != nil {
		return "", err
	}
	switch {
	case u.Scheme == schemeOCI:
		if _, err := parseReference("urls[0]", u); err != nil {
			return "", err
		}
	case a.base.Scheme == "https" && u.Scheme != "https":
		return "", failure(ReasonInvalid, "urls[0]: it leads from https to http")
	}
	return u.String(), nil
}

// maxURL bounds the URL of a chart, in bytes.
const maxURL = 2048

// Located returns where the chart of a version in an index is, and its SHA-256 in hexadecimal, or "" where the index has none.
func (a *Access) Located(v *chart.Version) (at, digest string, err error) {
	if len(v.URLs) == 0 {
		return "", "", failure(ReasonInvalid, "it has no urls")
	}
	if at, err = a.Resolve(v.URLs[0]); err != nil {
		return "", "", err
	}
	if len(at) > maxURL {
		return "", "", failure(ReasonInvalid, "urls[0]: it has more than %d letters", maxURL)
	}
	digest = strings.ToLower(strings.TrimPrefix(v.Digest, "sha256:"))
	if digest != "" && (len(digest) != 64 || strings.Trim(digest, "0123456789abcdef") != "") {
		return "", "", failure(ReasonInvalid, "its digest is no SHA-256 in hexadecimal")
	}
	return at, digest, nil
}

// isFor reports whether a URL is of the repository's origin, which alone gets its credentials.
func (a *Access) isFor(u *url.URL) bool {
	return a.base.Scheme == u.Scheme && hostport(a.base) == hostport(u)
}

// hostport returns the host and the port of a URL.
func hostport(u *url.URL) [2]string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https", u.Scheme == schemeOCI:
		port = "443"
	default:
		port = "80"
	}
	return [2]string{strings.ToLower(u.Hostname()), port}
}
