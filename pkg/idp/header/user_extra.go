package header

import (
	"fmt"
	"net/http"
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

// extra returns what the headers with one of the prefixes say of the person. Its error is ErrRefused.
func (p *Provider) extra(h http.Header) (map[string][]string, error) {
	out := map[string][]string{}
	for _, prefix := range p.ExtraHeadersPrefixes {
		for name, values := range h {
			key, states := web.ExtraKey(name, prefix)
			if key = strings.ToLower(key); !states || key == "" {
				continue
			}
			if err := checkExtra(key, values); err != nil {
				return nil, err
			}
			out[key] = append(out[key], values...)
			if len(out) > maxExtras || len(out[key]) > maxExtraValues {
				return nil, fmt.Errorf("%w: more than %d extras, or %d values of one", idp.ErrRefused, maxExtras, maxExtraValues)
			}
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

func checkExtra(key string, values []string) error {
	if ownedKey(key) {
		return fmt.Errorf("%w: the extra %.100q is of this server or of Kubernetes", idp.ErrRefused, key)
	}
	for _, v := range values {
		if len(v) > maxValue || strings.IndexFunc(v, unicode.IsControl) >= 0 || !utf8.ValidString(v) {
			return fmt.Errorf("%w: a value of the extra %.100q is longer than %d bytes, or no text", idp.ErrRefused, key, maxValue)
		}
	}
	return nil
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
