package plane

import (
	"os"
	"testing"
)

// etcd starts with restored data where there is any, and what it had stays beside it until the next restore.
func TestRestoredDataTakeThePlaceOfThoseOfEtcd(t *testing.T) {
	l := testLayout(t)
	write := func(dir, text string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/data", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	has := func(dir, want string) {
		t.Helper()
		if text, err := os.ReadFile(dir + "/data"); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v, want %q", dir, text, err, want)
		}
	}
	write(l.etcd(), "first")
	if err := l.adoptRestored(); err != nil {
		t.Fatal(err)
	}
	has(l.etcd(), "first")
	for i, want := range []string{"first", "second"} {
		next := []string{"second", "third"}[i]
		write(l.restored(), next)
		if err := l.adoptRestored(); err != nil {
			t.Fatal(err)
		}
		has(l.etcd(), next)
		has(l.replaced(), want)
	}
}
