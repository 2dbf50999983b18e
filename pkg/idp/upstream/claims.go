package upstream

import (
	"encoding/json"
	"net/mail"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxSubject = 255 // OpenID Connect Core 1.0, 2
	maxName    = 255
	maxEmail   = 254 // RFC 5321, 4.5.3.1.3
)

// Claims are a server's statements about a user: a JSON object whose numbers are json.Number.
type Claims map[string]any

// find returns the value of a key. If there is no such key, its dots lead into objects: realm_access.roles.
func (c Claims) find(key string) any {
	if v, ok := c[key]; ok {
		return v
	}
	var v any = map[string]any(c)
	for part := range strings.SplitSeq(key, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[part]
	}
	return v
}

// Subject returns a text, or an integer, that identifies a user; "" for any other value.
func (c Claims) Subject(key string) string {
	var s string
	switch v := c.find(key).(type) {
	case string:
		s = v
	case json.Number:
		if s = v.String(); strings.ContainsAny(s, ".eE") || s == "0" || s == "-0" { // 0 is what a missing id is read as
			return ""
		}
	}
	if len(s) > maxSubject || s != Line(s, maxSubject) {
		return ""
	}
	return s
}

// Text returns a line of text; "" for anything else.
func (c Claims) Text(key string) string {
	s, _ := c.find(key).(string)
	return Line(s, maxName)
}

// First returns the first text that is not "".
func (c Claims) First(keys ...string) string {
	for _, k := range keys {
		if s := c.Text(k); s != "" {
			return s
		}
	}
	return ""
}

// True reports whether a value is true. Some servers write it as text.
func (c Claims) True(key string) bool {
	v := c.find(key)
	return v == true || v == "true"
}

// Has reports whether there is a value.
func (c Claims) Has(key string) bool { return c.find(key) != nil }

// List returns the texts of a list, or a single text in place of a list.
func (c Claims) List(key string) []string {
	switch v := c.find(key).(type) {
	case string:
		return []string{v}
	case []any:
		out := make([]string, 0, len(v))
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// Email returns a valid e-mail address; "" for any other value.
func (c Claims) Email(key string) string {
	s, _ := c.find(key).(string)
	return Email(s)
}

// Email returns a valid e-mail address; "" for any other text.
func Email(s string) string {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || len(s) > maxEmail || s != Line(s, maxEmail) {
		return ""
	}
	return s
}

var language = regexp.MustCompile(`^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8}){0,3}$`)

// Language returns a language tag; "" for any other value.
func (c Claims) Language(key string) string {
	if s := strings.ReplaceAll(c.Text(key), "_", "-"); language.MatchString(s) {
		return s
	}
	return ""
}

// Line returns a text as one printable line, of at most so many bytes; "" if it is not valid text.
func Line(s string, most int) string {
	if !utf8.ValidString(s) {
		return ""
	}
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s))
	for len(s) > most {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}
