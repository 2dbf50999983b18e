package bodyredaction

import "regexp"

// inText finds what texts have secrets within them: names with values as in files, URLs and command lines, the schemes of the header
// Authorization, tokens and keys by their form, and URLs with a password.
var inText = regexp.MustCompile(`(?i)(pass(word|wd|phrase)|secret|token|(api|private|access|client|sign|signing|encryption)[-_ ]?key` +
	`|key-data|kubeconfig|authorization|credential|cookie)[\w.-]*["'\\]*\s*[:=]` +
	`|\b(bearer|basic)\s+\S` +
	`|\beyj[\w-]{8,}\.` +
	`|\b(ksk|kssa)_` +
	`|PRIVATE KEY` +
	`|://[^/\s@]*:[^/\s@]+@`)

// flag is an argument whose value is the next one.
var flag = regexp.MustCompile(`^--?[\w.-]+$`)

func hasSecret(text string) bool { return len(text) >= 4 && inText.MatchString(text) }
