package request

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// Origins are the origins of pages (RFC 6454, 6.2), as in https://console.example:30880, that count as this server's own besides that of
// the address that a request itself names: browsers send requests of the console's pages with the console's origin.
type Origins []string

// ParseOrigin returns an origin in the form in which browsers write it: scheme and host in lower case, without the scheme's own port.
func ParseOrigin(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || !isOrigin(u) {
		return "", errors.New("an origin is http:// or https://, a host, and a port where it isn't the usual one")
	}
	return originOf(u), nil
}

// OriginOf returns the origin of the pages at an address; "" if the address is no http or https URL.
func OriginOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return originOf(u)
}

func originOf(u *url.URL) string {
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return u.Scheme + "://" + host
}

// isOrigin reports whether a URL has what an origin has, and nothing else.
func isOrigin(u *url.URL) bool {
	return (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && !strings.ContainsAny(u.Host, "*, \t") && u.User == nil &&
		u.Path == "" && u.RawQuery == "" && !u.ForceQuery && u.Fragment == ""
}

// Match reports whether a request comes from a page of one of the origins, or of the host that the request names. A request without an
// Origin, or with several, comes from none.
func (o Origins) Match(r *http.Request) bool {
	sent := r.Header["Origin"]
	if len(sent) != 1 {
		return false
	}
	u, err := url.Parse(sent[0])
	if err != nil || !isOrigin(u) {
		return false
	}
	if strings.EqualFold(u.Host, r.Host) {
		return true
	}
	from := originOf(u)
	for _, ours := range o {
		if from == ours {
			return true
		}
	}
	return false
}
