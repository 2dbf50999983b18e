package relay

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apiserver/pkg/authentication/user"
)

// SyntheticGroup begins the names of the groups that only this server asserts, and only as the result of a decision: they stand for the
// role that allowed the request.
const SyntheticGroup = "kapis:"

// Survives reports whether a header's value arrives as it is sent: receivers strip blanks at the ends (RFC 9110, 5.5), so that "
// system:masters" would arrive as another name, and control characters fail the request or begin another line.
func Survives(value string) bool {
	return strings.TrimSpace(value) == value && strings.IndexFunc(value, unicode.IsControl) < 0 && utf8.ValidString(value)
}

// Assertable reports whether a group is told to another server: none that is powerful in itself, and no synthetic one.
func Assertable(group string) bool {
	switch {
	case group == "" || strings.HasPrefix(group, SyntheticGroup) || !Survives(group):
		return false
	case !strings.HasPrefix(group, "system:"):
		return true
	}
	return group == user.AllAuthenticated || group == user.AllUnauthenticated ||
		group == "system:serviceaccounts" || strings.HasPrefix(group, "system:serviceaccounts:")
}
