package page

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// script is a text that no page may contain unescaped.
const script = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`

// samples has one of each page, filled with values that others may choose.
func samples(s string) []Data {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	form := Asking{Form: "sealed", Error: Say("error.upstream", s)}
	key := &Passkey{Form: "sealed", Step: "passkey", Action: "login", Call: "get", Options: `{"publicKey":{"challenge":"AA"}}`}
	scopes := []Message{Say("scope.openid"), Say("scope.other", s)}
	qr, err := QR("otpauth://totp/KubeSphere:alice?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=KubeSphere&period=30&digits=6&algorithm=SHA1")
	if err != nil {
		panic(err)
	}
	return []Data{
		Login{Asking: form, Client: s, Username: s, Passwords: []Provider{{Name: "ldap", Label: s, Chosen: true}},
			Redirects: []Provider{{Label: "GitHub", Address: "login/github?form=sealed"}, {Label: s, Address: "login/x?form=" + s}}, Passkey: key},
		Factor{Asking: form, User: s, TOTP: true, Passkey: key},
		Password{Asking: form, User: s, Forced: true, Action: "login", Step: "password-new"},
		Register{Asking: form, Provider: s, Username: s, Email: s},
		Consent{Asking: form, Client: s, User: s, Scopes: scopes, Target: s},
		Device{Asking: form, User: s, Code: s},
		DeviceConfirm{Asking: form, Client: s, User: s, Code: "BCDF-GHJK-LMNP", Scopes: scopes},
		Logout{Asking: form, Client: s, User: s},
		Notice{Title: Say("error.title"), Text: Say("error.upstream", s), Detail: s, Failed: true, Link: &Link{To: "login", Text: Say("out.again")}},
		Secret{Title: Say("secret.recovery"), Text: Say("secret.text"), Values: []string{s, "two"}},
		TOTP{Asking: form, QR: qr, Account: s, Secret: "JBSW Y3DP"},
		AddPasskey{Asking: form, Passkey: &Passkey{Form: "sealed", Step: "passkey-add", Action: "account", Call: "create", Options: s, Naming: true}},
		Account{
			Asking:            form,
			Done:              Say("done.fresh"),
			User:              s,
			Display:           s,
			Email:             s,
			MayChangePassword: true,
			MayFactor:         true,
			MayPasskey:        true,
			MayKeys:           true,
			TOTP:              true,
			RecoveryLeft:      9,
			Passkeys:          []OwnPasskey{{ID: s, Name: s, Created: at, Used: at}},
			Others:            true,
			Sessions:          []Session{{ID: "a", Device: s, Source: s, Created: at, Current: true}, {ID: "b", Client: s, Created: at, Used: at}},
			Keys:              []Key{{Name: s, Description: s, Expires: at, Used: at}},
			Days:              []int{30, 90},
		},
	}
}

func open(t testing.TB) *Book {
	t.Helper()
	b, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEveryPageIsDrawnInEveryLanguage(t *testing.T) {
	b := open(t)
	for l := range languages() {
		for _, d := range samples("Harbor") {
			out, err := b.Draw(l, "../", d)
			if err != nil {
				t.Fatal(err)
			}
			text := string(out)
			for name, re := range map[string]string{
				"language": `<html lang="` + string(l) + `">`, "one heading": `(?s)^[^\x00]*<h1>[^<]+</h1>`, "landmark": `<main>`,
				"viewport": `name="viewport" content="width=device-width, initial-scale=1"`, "title": `<title>[^<]+</title>`,
			} {
				if !regexp.MustCompile(re).MatchString(text) {
					t.Errorf("%s (%s): no %s", d.file(), l, name)
				}
			}
			if n := strings.Count(text, "<h1"); n != 1 {
				t.Errorf("%s has %d h1", d.file(), n)
			}
			if len(out) > 20<<10 {
				t.Errorf("%s has %d bytes", d.file(), len(out))
			}
			if strings.Contains(text, "%!") {
				t.Errorf("%s (%s): a text has not what it needs", d.file(), l)
			}
		}
	}
}

func TestNothingThatOthersChooseBecomesMarkup(t *testing.T) { // S59
	b := open(t)
	for _, d := range samples(script) {
		out, err := b.Draw(English, "", d)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := html.Parse(bytes.NewReader(out))
		if err != nil {
			t.Fatal(err)
		}
		for n := range doc.Descendants() {
			ours := n.DataAtom != atom.Script || slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return strings.HasPrefix(a.Val, "static/passkey.") })
			if !ours || n.DataAtom == atom.Img && !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return strings.HasPrefix(a.Val, "static/icon.") }) {
				t.Errorf("%s lets markup through:\n%s", d.file(), out)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "href" && strings.Contains(a.Val, "script:") {
					t.Errorf("%s lets %s=%q through", d.file(), a.Key, a.Val)
				}
			}
		}
	}
}

func TestPagesHaveNoInlineScriptOrStyle(t *testing.T) {
	b := open(t)
	for _, d := range samples("Harbor") {
		out, err := b.Draw(English, "", d)
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|javascript:|<script[^>]*>[^<]|https?://[^w]`).FindString(string(out)); m != "" {
			t.Errorf("%s has %q, which the policy of pages refuses", d.file(), m)
		}
	}
}

// Without a label a field has no name for screen readers (WCAG 2.2, 1.3.1 and 4.1.2), and with a doubled id its name is ambiguous.
func TestEveryFieldHasALabelAndEveryIDIsThereOnce(t *testing.T) {
	b := open(t)
	field := regexp.MustCompile(`<(?:input|select)\s[^>]*>`)
	id := regexp.MustCompile(`\sid="([^"]+)"`)
	for _, d := range samples("Harbor") {
		out, err := b.Draw(English, "", d)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, m := range id.FindAllStringSubmatch(string(out), -1) {
			if seen[m[1]] {
				t.Errorf("%s: id %s is there twice", d.file(), m[1])
			}
			seen[m[1]] = true
		}
		for _, f := range field.FindAllString(string(out), -1) {
			if strings.Contains(f, `type="hidden"`) {
				continue
			}
			m := id.FindStringSubmatch(f)
			if m == nil || !strings.Contains(string(out), `<label for="`+m[1]+`">`) {
				t.Errorf("%s: %s has no label", d.file(), f)
			}
			if strings.HasPrefix(f, "<input") && !strings.Contains(f, "autocomplete=") {
				t.Errorf("%s: %s does not say what it is (autocomplete)", d.file(), f)
			}
		}
	}
}

func TestLanguagesHaveTheSameWords(t *testing.T) {
	en, zh := english(), chinese()
	verb := regexp.MustCompile(`%[a-z]`)
	for k, v := range en {
		if zh[k] == "" || v == "" {
			t.Errorf("%s is empty in a language", k)
		}
		if a, b := strings.Join(verb.FindAllString(v, -1), ""), strings.Join(verb.FindAllString(zh[k], -1), ""); a != b {
			t.Errorf("%s takes %q in English and %q in Chinese", k, a, b)
		}
	}
	for k := range zh {
		if _, ok := en[k]; !ok {
			t.Errorf("%s is missing in English", k)
		}
	}
}

func TestEveryWordIsUsedAndEveryUsedWordIsThere(t *testing.T) {
	var text strings.Builder
	read := func(fsys fs.FS, patterns ...string) {
		for _, p := range patterns {
			names, err := fs.Glob(fsys, p)
			if err != nil || len(names) == 0 {
				t.Fatal(p, err)
			}
			for _, n := range names {
				b, err := fs.ReadFile(fsys, n)
				if err != nil {
					t.Fatal(err)
				}
				text.Write(b)
			}
		}
	}
	read(templates, "assets/*.html")
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	above, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, above...) {
		if !strings.HasSuffix(f, "_test.go") && !strings.Contains(f, "words_") {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(b)
		}
	}
	words := english()
	for k := range words {
		if !strings.Contains(text.String(), `"`+k+`"`) {
			t.Errorf("nothing says %s", k)
		}
	}
	for _, m := range regexp.MustCompile(`(?:\{\{|\(|if [a-z.A-Z]* ?|else ?)t "([a-z._]+)"|\bSay\("([a-z._]+)"`).FindAllStringSubmatch(text.String(), -1) {
		if k := m[1] + m[2]; words[k] == "" && !strings.HasSuffix(k, ".") {
			t.Errorf("%s is said, and no word", k)
		}
	}
}

func TestPreferredLanguage(t *testing.T) {
	for accept, want := range map[string]Language{
		"": English, "zh-CN,zh;q=0.9,en;q=0.8": Chinese, "en-US,en;q=0.9,zh;q=0.1": English, "de": English, "de, zh-TW;q=0.5, en;q=0.3": Chinese,
		"zh-Hant": Chinese, "en;q=0.1, zh": Chinese, "*": English, ";;;q=": English, strings.Repeat("zh,", 1000): English,
	} {
		if got := Preferred(accept); got != want {
			t.Errorf("Preferred(%.40q) = %s; want %s", accept, got, want)
		}
	}
}

func FuzzPreferred(f *testing.F) {
	f.Add("zh-CN,zh;q=0.9,en;q=0.8")
	f.Add("-;q=\x00")
	f.Fuzz(func(t *testing.T, s string) {
		if l := Preferred(s); l != English && l != Chinese {
			t.Errorf("%q", l)
		}
	})
}

func TestAssetsAreNamedByWhatIsInThem(t *testing.T) {
	a := open(t).Assets()
	for _, name := range []string{a.style, a.script, a.icon} {
		if f := a.File(name); f == nil || len(f.Content) == 0 || f.Type == "" || !regexp.MustCompile(`\.[0-9a-f]{16}\.`).MatchString(name) {
			t.Errorf("%s: %v", name, f)
		}
	}
	if a.File("style.css") != nil {
		t.Error("a name without a hash is kept forever by browsers")
	}
}

func TestQRCodeIsSquareAndHasItsThreeEyes(t *testing.T) {
	svg, err := QR("otpauth://totp/x?secret=ABC")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`viewBox="0 0 (\d+) (\d+)"`).FindStringSubmatch(string(svg))
	if m == nil || m[1] != m[2] {
		t.Fatalf("%s", svg)
	}
	for _, edge := range []string{"M4 4h7v1H4z", "M26 4h7v1H26z", "M4 26h7v1H4z"} {
		if !strings.Contains(string(svg), edge) {
			t.Errorf("%s is missing in %s", edge, svg)
		}
	}
	if _, err := QR(strings.Repeat("x", 8000)); err == nil {
		t.Error("8000 bytes fit into no QR code")
	}
}

func BenchmarkDrawLogin(b *testing.B) {
	book := open(b)
	d := samples("Harbor")[0]
	for b.Loop() {
		if _, err := book.Draw(English, "", d); err != nil {
			b.Fatal(err)
		}
	}
}
