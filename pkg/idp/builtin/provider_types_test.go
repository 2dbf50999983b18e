package builtin_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/builtin"
)

// Every example in the documentation can be used as it is, except for the files that it names.
func TestExamplesAreRight(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte(certificate), 0o600); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("../../../docs/directories.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(raw), -1)
	if got, want := len(examples), 4; got != want {
		t.Fatalf("got %d examples, want %d", got, want)
	}
	files := regexp.MustCompile(`/etc/kubesphere/[a-z-]+\.pem`)
	for _, e := range examples {
		d := idp.NewDirectory(idp.DirectoryOptions{Types: builtin.Types(), File: [][]byte{[]byte(files.ReplaceAllString(e[1], ca))}})
		if p := d.Problems(); len(p) > 0 || len(d.Entries()) != 1 || !d.Entries()[0].Usable() {
			t.Errorf("%q:\n%s", p, e[1])
		}
	}
}

func TestTypesHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, typ := range builtin.Types() {
		if typ.Name == "" || typ.Open == nil || seen[typ.Name] {
			t.Errorf("%+v", typ)
		}
		seen[typ.Name] = true
	}
}
