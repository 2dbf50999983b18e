package page

import "golang.org/x/text/language"

// Language is a language that there are pages in (BCP 47).
type Language string

// The languages.
const (
	English Language = "en"
	Chinese Language = "zh"
)

// words are the texts of one language by their keys; %s and %d stand for what is put in.
type words map[string]string

func languages() map[Language]words {
	return map[Language]words{English: english(), Chinese: chinese()}
}

// maxAccept is as much of an Accept-Language as is read, in bytes.
const maxAccept = 256

// Preferred returns the language for an Accept-Language header (RFC 9110, 12.5.4), English where none fits.
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
