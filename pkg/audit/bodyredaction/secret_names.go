package bodyredaction

import "strings"

// telling are parts of names whose values are secrets: of members, of environment variables, and of arguments.
var telling = []string{
	"password", "passwd", "passphrase", "secret", "token", "apikey", "privatekey", "accesskey", "clientkey", "signkey", "signingkey",
	"encryptionkey", "kubeconfig", "authorization", "credential", "cookie", "recoverycode",
}

// fold returns a name as readers in Go compare names without regard to case, where ſ is an s, too.
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// isSecret reports whether the value of a name is a secret.
func isSecret(folded string) bool {
	if strings.ContainsAny(folded, "-_./ ") {
		folded = strings.NewReplacer("-", "", "_", "", ".", "", "/", "", " ", "").Replace(folded)
	}
	switch folded {
	case "secretname", "secretnamespace", "tokenexpirationseconds": // where it is, and not what it is
		return false
	}
	for _, part := range telling {
		if strings.Contains(folded, part) {
			return true
		}
	}
	return false
}

// isReference reports whether a member of an object with a secret name says where the secret is. ref is whether that name ends in Ref.
func isReference(folded string, ref bool) bool {
	switch folded {
	case "name", "namespace", "secretname", "secretnamespace", "kind", "apiversion", "apigroup", "optional", "defaultmode":
		return true
	case "key":
		return ref
	}
	return false
}
