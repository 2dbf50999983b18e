package header

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/web"
)

// maxExtras and maxExtraValues bound what a proxy says of a person besides groups.
const (
	maxExtras      = 32
	maxExtraValues = 16
)

// extra returns what the headers with one of the prefixes say of the person. As in Kubernetes, the key is the rest of the name, in lower
// case, and percent-encoded where it can't be part of a header's name. Its error is ErrRefused.
func (p *Provider) extra(h http.Header) (map[string][]string, error) {
	var out map[string][]string
	for name, values := range h {
		key := p.extraKey(name)
		if key == "" {
			continue
		}
		if ownedKey(key) {
			return nil, fmt.Errorf("%w: the extra %.100q is of this server or of Kubernetes", idp.ErrRefused, key)
		}
		if out == nil {
			out = map[string][]string{}
		}
		out[key] = append(out[key], values...)
		if len(out) > maxExtras || len(out[key]) > maxExtraValues {
			return nil, fmt.Errorf("%w: more than %d extras, or %d values of one", idp.ErrRefused, maxExtras, maxExtraValues)
		}
		for _, v := range values {
			if len(v) > maxValue || strings.IndexFunc(v, unicode.IsControl) >= 0 || !utf8.ValidString(v) {
				return nil, fmt.Errorf("%w: a value of the extra %.100q is longer than %d bytes, or no text", idp.ErrRefused, key, maxValue)
			}
		}
	}
	return out, nil
}

// extraKey returns the key of the extra that a header states, or "".
func (p *Provider) extraKey(name string) string {
	for _, prefix := range p.ExtraHeadersPrefixes {
		if len(name) > len(prefix) && web.HasPrefixFold(name, prefix) {
			key := strings.ToLower(name[len(prefix):])
			if decoded, err := url.PathUnescape(key); err == nil {
				key = strings.ToLower(decoded)
			}
			return key
		}
	}
	return ""
}

// ownedKey reports whether an extra means something to this server or to kube-apiserver, which no proxy may say: the scope of a credential,
// for one.
func ownedKey(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return false
	}
	for _, owner := range []string{"kapis.dev", "kubesphere.io", "kubernetes.io", "k8s.io"} {
		if domain == owner || strings.HasSuffix(domain, "."+owner) {
			return true
		}
	}
	return false
}
