package setting_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/setting"
)

// Any upload is accepted only with a name from which its type is found again, and browsers get no type but an image's.
func FuzzCheckImage(f *testing.F) {
	for _, s := range [][2]string{{"a.png", "\x89PNG\r\n\x1a\n"}, {"a.SVG", "<!DOCTYPE svg><svg/>"}, {"a.svg", "<!DOCTYPE a [<!ENTITY b 'c'>]><svg>&b;</svg>"},
		{"a.jpg", "\xff\xd8\xff"}, {".ico", "\x00\x00\x01\x00"}, {"svg", "<svg"}} {
		f.Add(s[0], []byte(s[1]))
	}
	f.Fuzz(func(t *testing.T, file string, content []byte) {
		extension, err := setting.CheckImage(file, content)
		if err != nil {
			return
		}
		switch setting.TypeOfImage(setting.NameOfImage(content, extension)) {
		case "image/png", "image/jpeg", "image/x-icon", "image/svg+xml":
		default:
			t.Fatalf("%q is taken as %q", file, extension)
		}
	})
}
