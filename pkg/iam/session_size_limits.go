package iam

import (
	"slices"
	"unicode/utf8"

	"k8s.io/klog/v2"
)

// Limits of what a session keeps of a login at a provider.
const (
	// MaxSessionGroups is how many groups are kept, MaxSessionGroupBytes their bytes together, and MaxSessionGroup those of one.
	MaxSessionGroups     = 256
	MaxSessionGroupBytes = 16 << 10
	MaxSessionGroup      = 1024
	// MaxSessionSecret is the longest refresh token or logout hint that is kept, in bytes.
	MaxSessionSecret = 8 << 10
)

// Bounded returns the result of a login without what no session keeps of it: so it is sealed while the login goes on.
func (p *AuthnResult) Bounded() *AuthnResult {
	out := *p
	name := ""
	if p.User != nil {
		name = p.User.Name
	}
	out.Groups = SessionGroups(name, p.Groups)
	out.Hint, out.Refresh = SessionSecret(p.Provider, p.Hint), SessionSecret(p.Provider, p.Refresh)
	return &out
}

// SessionGroups returns the groups of a provider that a session keeps: within limits, and none that only the system gives.
func SessionGroups(name string, groups []string) []string {
	all := WithoutSystemGroups(name, slices.DeleteFunc(slices.Clone(groups), func(g string) bool {
		return len(g) > MaxSessionGroup || !utf8.ValidString(g)
	}))
	size := 0
	for i, g := range all {
		if size += len(g); i >= MaxSessionGroups || size > MaxSessionGroupBytes {
			klog.InfoS("An identity provider gives more groups than a session keeps; the rest is left out", "user", name, "groups", len(all),
				"kept", i)
			return slices.Clip(all[:i])
		}
	}
	return all
}

// SessionSecret returns a refresh token or logout hint of a provider, or "" for one that is too long to be kept.
func SessionSecret(provider, secret string) string {
	if len(secret) > MaxSessionSecret {
		klog.InfoS("A refresh token or logout hint of an identity provider is too long to be stored: the provider can't be asked again, or"+
			" not log the user out", "provider", provider, "bytes", len(secret), "most", MaxSessionSecret)
		return ""
	}
	return secret
}
