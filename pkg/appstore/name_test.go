package appstore_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/appstore"
)

func TestNamesAreThoseOfExistingInstallations(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{appstore.ShortName("Redis"), "redis"},
		{appstore.ShortName("fourteen-bytes"), "fourteen-bytes"},
		{appstore.ShortName("fifteen-bytes-x"), "6008d69450"},
		{appstore.NameInRepo("museum", "redis"), "museum-redis"},
		{appstore.VersionName("museum-redis", "1.0.0"), "museum-redis-1.0.0"},
		{appstore.VersionName("museum-redis", "1.0.0+1"), "museum-redis-fe9dfa2b54f9"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func FuzzNamesAreNamesOfObjects(f *testing.F) {
	f.Add("redis", "1.0.0")
	f.Add("Ü", "../..")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, name, version string) {
		for _, got := range []string{appstore.NameInRepo("museum", name), appstore.NameOfUpload(name), appstore.VersionName("museum-x", version)} {
			if len(version) < 200 && len(validation.IsDNS1123Subdomain(got)) > 0 {
				t.Errorf("%q", got)
			}
		}
	})
}

func TestUploadsHaveNamesOfTheirOwn(t *testing.T) {
	a, b := appstore.NameOfUpload("redis"), appstore.NameOfUpload("redis")
	if a == b || !strings.HasPrefix(a, "redis-") || len(a) != len("redis-")+5 {
		t.Errorf("%q %q", a, b)
	}
}
