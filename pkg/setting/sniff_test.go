package setting

import "testing"

// Any upload is accepted only with a name from which its type is found again, and browsers get no type but an image's.
func FuzzCheckImage(f *testing.F) {
	for _, s := range [][2]string{{"a.png", "\x89PNG\r\n\x1a\n"}, {"a.SVG", "<!DOCTYPE svg><svg/>"}, {"a.svg", "<!DOCTYPE a [<!ENTITY b 'c'>]><svg>&b;</svg>"},
		{"a.jpg", "\xff\xd8\xff"}, {".ico", "\x00\x00\x01\x00"}, {"svg", "<svg"}} {
		f.Add(s[0], []byte(s[1]))
	}
	f.Fuzz(func(t *testing.T, file string, content []byte) {
		extension, err := CheckImage(file, content)
		if err != nil {
			return
		}
		switch TypeOfImage(NameOfImage(content, extension)) {
		case "image/png", "image/jpeg", "image/x-icon", "image/svg+xml":
		default:
			t.Fatalf("%q is taken as %q", file, extension)
		}
	})
}

func TestVersionsAreComparedAsNumbers(t *testing.T) {
	for claim, tc := range map[string]struct {
		a, b  string
		older bool
	}{"Older": {"9", "10", true}, "Newer": {"10", "9", false}, "Same": {"9", "9", false}, "Unknown": {"", "9", false}, "NotKnownBefore": {"9", "", false}} {
		if older(tc.a, tc.b) != tc.older {
			t.Error(claim)
		}
	}
}
