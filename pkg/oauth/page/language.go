package page

import "golang.org/x/text/language"

// Language is a language of the pages (BCP 47).
type Language string

// The languages.
const (
	English Language = "en"
	Chinese Language = "zh"
)

// words are the texts of one language by their keys, with %s and %d for arguments.
type words map[string]string

func languages() map[Language]words {
	return map[Language]words{English: english(), Chinese: chinese()}
}

// maxAccept is how much of an Accept-Language header is read, in bytes.
const maxAccept = 256

// Preferred returns the language for an Accept-Language header (RFC 9110, 12.5.4), or English if none matches.
func Preferred(accept string) Language {
	if accept == "" || len(accept) > maxAccept {
		return English
	}
	wanted, _, err := language.ParseAcceptLanguage(accept)
	if err != nil {
		return English
	}
	for _, t := range wanted {
		switch base, _ := t.Base(); base.String() {
		case string(English):
			return English
		case string(Chinese):
			return Chinese
		}
	}
	return English
}
