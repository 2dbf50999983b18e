package status_test

import (
	"testing"
	"unicode/utf8"

	"kapis.dev/ks-apiserver/pkg/status"
)

func TestATextIsBoundedAndValid(t *testing.T) {
	for _, c := range []struct {
		text          string
		most          int
		clip, excerpt string
	}{
		{text: "", most: 0, clip: "", excerpt: ""},
		{text: "shop", most: 4, clip: "shop", excerpt: "shop"},
		{text: "shops", most: 4, clip: "shop", excerpt: "shop..."},
		{text: "größer", most: 3, clip: "gr", excerpt: "gr..."},   // ö has two bytes
		{text: "größer", most: 4, clip: "grö", excerpt: "grö..."}, // and ß is whole or not there
		{text: "a\xffb", most: 9, clip: "ab", excerpt: "ab"},
		{text: "\xff\xfe\xfd", most: 2, clip: "", excerpt: "..."},
	} {
		clip, excerpt := status.Clip(c.text, c.most), status.Excerpt(c.text, c.most)
		if clip != c.clip || excerpt != c.excerpt {
			t.Errorf("%q with %d bytes: %q and %q, want %q and %q", c.text, c.most, clip, excerpt, c.clip, c.excerpt)
		}
		if len(clip) > c.most || !utf8.ValidString(excerpt) {
			t.Errorf("%q with %d bytes: %q has %d, %q is valid UTF-8: %t", c.text, c.most, clip, len(clip), excerpt, utf8.ValidString(excerpt))
		}
	}
}
