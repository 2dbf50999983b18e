package ldap

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// U33: every setting has an effect, or is refused by its name.
func TestSettingsWithoutEffectAreRefused(t *testing.T) {
	d := &directory{t: t, dir: t.TempDir()}
	d.certify()
	right := "host: ldap.example.com\nuserSearchBase: ou=people,dc=x\n"
	secure := "host: ldaps://ldap.example.com\nuserSearchBase: ou=people,dc=x\n"
	for name, tc := range map[string]struct{ settings, names string }{
		"NoHost":                       {"userSearchBase: dc=x", "host"},
		"AnotherScheme":                {"host: http://ldap.example.com\nuserSearchBase: dc=x", "host"},
		"APathInTheHost":               {"host: ldap://ldap.example.com/dc=x\nuserSearchBase: dc=x", "host"},
		"CredentialsInTheHost":         {"host: ldap://u:p@ldap.example.com\nuserSearchBase: dc=x", "host"},
		"NoBase":                       {"host: ldap.example.com", "userSearchBase"},
		"ABaseThatIsNoDN":              {"host: ldap.example.com\nuserSearchBase: people", "userSearchBase"},
		"AFilterThatIsNone":            {right + "userSearchFilter: (uid=", "userSearchFilter"},
		"AnAttributeThatIsNone":        {right + "loginAttribute: uid)(x", "loginAttribute"},
		"AManagerWithoutPassword":      {right + "managerDN: cn=m,dc=x", "managerPassword"},
		"APasswordWithoutManager":      {right + "managerPassword: x", "managerDN"},
		"AManagerThatIsNoDN":           {right + "managerDN: cn=m,,\nmanagerPassword: x", "managerDN"},
		"ANegativeTimeout":             {right + "readTimeout: -1", "readTimeout"},
		"ATimeoutInSecondsTooLong":     {right + "readTimeout: 600000", "readTimeout"},
		"StartTLSOverTLS":              {secure + "startTLS: true", "startTLS"},
		"SkipVerifyWithoutTLS":         {right + "insecureSkipVerify: true", "insecureSkipVerify"},
		"ACAWithoutTLS":                {right + "rootCAData: x", "rootCAData"},
		"ACAThatIsNotVerified":         {secure + "insecureSkipVerify: true\nrootCAData: x", "rootCAData"},
		"TwoCAs":                       {secure + "rootCA: " + d.path("ca.pem") + "\nrootCAData: x", "rootCA"},
		"ACAThatIsNone":                {secure + "rootCAData: x!", "rootCAData"},
		"ACAThatIsAKey":                {secure + "rootCA: " + d.path("key.pem"), "rootCA"},
		"ACAFileThatIsMissing":         {secure + "rootCA: /nonexistent/ca.pem", "rootCA"},
		"AGroupFilterWithoutBase":      {right + "groupSearchFilter: (cn=*)", "groupSearchFilter"},
		"AGroupMemberWithoutBase":      {right + "groupMemberAttribute: member", "groupMemberAttribute"},
		"AGroupNameWithoutBase":        {right + "groupNameAttribute: cn", "groupNameAttribute"},
		"NestingWithoutBase":           {right + "nestedGroups: true", "nestedGroups"},
		"NestingOfGroupsThatNameUsers": {right + "groupSearchBase: dc=x\ngroupMemberAttribute: memberUid\nnestedGroups: true", "nestedGroups"},
		"AnUnknownKey":                 {right + "userSearchBases: dc=x", "userSearchBases"},
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := open([]byte(tc.settings), idp.OpenOptions{}); err == nil || p != nil || !strings.Contains(err.Error(), tc.names) {
				t.Errorf("%v, %v", p, err)
			}
		})
	}
}

func TestHostsAreReadInAllForms(t *testing.T) {
	for host, want := range map[string]string{
		"ldap.example.com": "ldap.example.com:389", "ldap.example.com:1389": "ldap.example.com:1389", "ldap://ldap.example.com": "ldap.example.com:389",
		"ldaps://ldap.example.com": "ldap.example.com:636", "ldaps://ldap.example.com:1636/": "ldap.example.com:1636", "ldap://[2001:db8::1]": "[2001:db8::1]:389",
		"[2001:db8::1]:1389": "[2001:db8::1]:1389",
	} {
		a, err := (&settings{Host: host}).address()
		if err != nil || a.hostPort != want || a.tls != strings.HasPrefix(host, "ldaps") || a.tls != (a.config != nil) {
			t.Errorf("%s: %+v, %v", host, a, err)
		}
	}
}

// A GUID is written as Active Directory shows it, and searched by the bytes that it stores.
func TestObjectGUIDIsFoundAgain(t *testing.T) {
	raw, _ := hex.DecodeString("00112233445566778899aabbccddeeff")
	p := &Provider{settings: settings{UIDAttribute: "objectGUID"}}
	subject := p.uid(ldap.NewEntry("cn=x", map[string][]string{"objectGUID": {string(raw)}}))
	if subject != "33221100-5544-7766-8899-aabbccddeeff" {
		t.Errorf("it is %s", subject)
	}
	filter, err := p.bySubject(subject)
	if err != nil || filter != `(objectGUID=\00\11\22\33\44\55\66\77\88\99\aa\bb\cc\dd\ee\ff)` {
		t.Errorf("%s, %v", filter, err)
	}
	for _, bad := range []string{"", "jane", "33221100", strings.Repeat("x", 2000)} {
		if _, err := p.bySubject(bad); err == nil {
			t.Errorf("%q is looked for", bad)
		}
	}
}

// S46: any input stays the one value of the one comparison.
func FuzzLoginIsNoFilter(f *testing.F) {
	for _, s := range []string{"jane", "*)(uid=*", "\x00", `\2a`, "é", "a)(|(b=c", "\xff"} {
		f.Add(s)
	}
	p := &Provider{settings: settings{LoginAttribute: "uid", UserSearchFilter: "(objectClass=person)"}}
	f.Fuzz(func(t *testing.T, login string) {
		packet, err := ldap.CompileFilter("(&" + p.equals(p.LoginAttribute, login) + p.UserSearchFilter + ")")
		if err != nil {
			t.Fatal(err)
		}
		if packet.Tag != ldap.FilterAnd || len(packet.Children) != 2 {
			t.Fatalf("%q changes the filter", login)
		}
		equal := packet.Children[0]
		if login == "" { // Login refuses it
			return
		}
		if equal.Tag != ldap.FilterEqualityMatch || len(equal.Children) != 2 || equal.Children[1].Data.String() != login {
			t.Fatalf("%q becomes another comparison", login)
		}
	})
}
