package ldap

import (
	"testing"

	"github.com/go-ldap/ldap/v3"
)

// Entries whose normalized names are equal have names that are equal to the directory too, in any case.
func FuzzNormalNamesAreToldApart(f *testing.F) {
	f.Add("cn=a\\,b,dc=x", "cn=a,b=c,dc=x")
	f.Add("cn=a\\2cb,dc=x", "CN=A\\,B,DC=X")
	f.Add("cn=a+ou=b,dc=x", "cn=a\\+ou\\=b,dc=x")
	f.Add("cn=\\c3\\84", "cn=\\c3\\a4")
	f.Fuzz(func(t *testing.T, one, other string) {
		a, err := ldap.ParseDN(one)
		if err != nil {
			return
		}
		b, err := ldap.ParseDN(other)
		if err != nil {
			return
		}
		if normal(a) == normal(b) && !a.EqualFold(b) {
			t.Errorf("%q and %q are one: %q", one, other, normal(a))
		}
	})
}
