package page

// ScopeWords returns messages that explain scopes to users.
func ScopeWords(scopes []string) []Message {
	known := map[string]Message{
		"openid": Say("scope.openid"), "profile": Say("scope.profile"), "email": Say("scope.email"),
		"groups": Say("scope.groups"), "offline_access": Say("scope.offline_access"), "api": Say("scope.api"),
	}
	var out []Message
	for _, s := range scopes {
		if m, ok := known[s]; ok {
			out = append(out, m)
			continue
		}
		out = append(out, Say("scope.other", s))
	}
	return out
}
