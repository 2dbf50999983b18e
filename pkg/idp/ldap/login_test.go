package ldap

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
)

func TestThePersonIsReadFromTheDirectory(t *testing.T) {
	d := slapd(t, person("jane"))
	p := opened(t, d.settings())
	id, err := p.Login(ctx(t), "JANE", password)
	if err != nil {
		t.Fatal(err)
	}
	if id.Subject != "jane" || id.Username != "jane" || id.Email != "jane@example.com" || id.DisplayName != "JANE" || id.Groups != nil {
		t.Errorf("%+v", id)
	}
	if err := p.Check(ctx(t)); err != nil {
		t.Errorf("check: %v", err)
	}
	// Existing links have the login name; entryUUID is for administrators who want an identifier that is never reused.
	id, err = opened(t, d.settings("uidAttribute: entryUUID", "displayNameAttribute: sn")).Login(ctx(t), "jane", password)
	if err != nil || len(id.Subject) != 36 || id.DisplayName != "jane" {
		t.Fatalf("%+v, %v", id, err)
	}
	again, err := opened(t, d.settings("uidAttribute: entryUUID")).Refresh(ctx(t), id.Subject, "")
	if err != nil || again.Subject != id.Subject || again.Username != "jane" {
		t.Errorf("%+v, %v", again, err)
	}
}

// S46: all input is a name or a password, and never a filter, a DN or an anonymous bind.
func TestWhatIsTypedIsNoSyntax(t *testing.T) {
	d := slapd(t, person("jane")+person("joe")+
		"dn: ou=elsewhere,"+people+"\nobjectClass: referral\nobjectClass: extensibleObject\nou: elsewhere\nuid: far\nref: ldap://127.0.0.1:1/ou=elsewhere,"+people+"\n\n")
	p := opened(t, d.settings())
	for name, tc := range map[string]struct{ login, password string }{
		"WrongPassword":       {"jane", "Secret-124"},
		"UnknownUser":         {"nobody", password},
		"Star":                {"*", password},
		"PartAndStar":         {"jan*", password},
		"FilterInjection":     {"*)(uid=*", password},
		"FilterOr":            {"x)(|(uid=jane", password},
		"NUL":                 {"jane\x00", password},
		"EscapedNUL":          {`jane\00`, password},
		"NULInThePassword":    {"jane", password + "\x00"},
		"DNInsteadOfAName":    {dn("jane"), password},
		"DNSuffix":            {"jane," + people, password},
		"EmptyPassword":       {"jane", ""},
		"EmptyName":           {"", password},
		"ManagerIsNoPerson":   {"manager", managers},
		"OverlongName":        {strings.Repeat("j", 300), password},
		"OverlongPassword":    {"jane", strings.Repeat("x", 2000)},
		"ReferralNotFollowed": {"far", password},
		"NotUTF8":             {"jane\xff", password},
	} {
		t.Run(name, func(t *testing.T) {
			if id, err := p.Login(ctx(t), tc.login, tc.password); !errors.Is(err, idp.ErrCredentials) || errors.Is(err, idp.ErrUnavailable) || id != nil {
				t.Errorf("%+v, %v", id, err)
			}
		})
	}
	if _, err := p.Login(ctx(t), "jane", password); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

// S46: an empty password would be an anonymous bind, which this server grants. It is never sent.
func TestAnEmptyPasswordIsNeverSent(t *testing.T) {
	d := slapd(t, person("jane"))
	addr := d.forward()
	p := opened(t, strings.Replace(d.settings(), fmt.Sprintf("127.0.0.1:%d", d.plain), addr, 1))
	if _, err := p.Login(ctx(t), "jane", ""); !errors.Is(err, idp.ErrCredentials) {
		t.Error(err)
	}
	if n := d.forwarded.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func TestTwoEntriesOfOneNameAreNobody(t *testing.T) {
	d := slapd(t, person("jane")+"dn: ou=guests,"+people+"\nobjectClass: organizationalUnit\nou: guests\n\n"+
		strings.Replace(person("jane"), "uid=jane,", "uid=jane,ou=guests,", 1))
	p := opened(t, d.settings())
	if _, err := p.Login(ctx(t), "jane", password); !errors.Is(err, idp.ErrCredentials) || !strings.Contains(err.Error(), "more than one") {
		t.Error(err)
	}
	narrow := opened(t, d.settings("userSearchFilter: (!(entryDN:dnSubtreeMatch:=ou=guests,"+people+"))"))
	if _, err := narrow.Login(ctx(t), "jane", password); err != nil {
		t.Error(err)
	}
}

// S46: TLS is started and verified, by the configured authority or by the system's.
func TestTLSIsVerified(t *testing.T) {
	d := slapd(t, person("jane"))
	data := base64.StdEncoding.EncodeToString([]byte(d.ca))
	for name, tc := range map[string]struct {
		settings string
		good     bool
	}{
		"StartTLS":                    {d.secure("ldap", d.plain, "startTLS: true", "rootCA: "+d.path("ca.pem")), true},
		"StartTLSWithData":            {d.secure("ldap", d.plain, "startTLS: true", "rootCAData: "+data), true},
		"LDAPS":                       {d.secure("ldaps", d.tls, "rootCAData: "+data), true},
		"SkippedOnDemand":             {d.secure("ldaps", d.tls, "insecureSkipVerify: true"), true},
		"SystemRootsForStartTLS":      {d.secure("ldap", d.plain, "startTLS: true"), false},
		"SystemRootsForLDAPS":         {d.secure("ldaps", d.tls), false},
		"AnotherNameThanTheHosts":     {strings.Replace(d.secure("ldaps", d.tls, "rootCAData: "+data), "127.0.0.1", "localhost", 1), false},
		"StartTLSThatTheServerHasNot": {d.secure("ldap", d.tls, "startTLS: true", "rootCAData: "+data, "readTimeout: 1000"), false},
		"LDAPSToTheUnencryptedPort":   {d.secure("ldaps", d.plain, "rootCAData: "+data, "readTimeout: 1000"), false},
	} {
		t.Run(name, func(t *testing.T) {
			p := opened(t, tc.settings)
			_, err := p.Login(ctx(t), "jane", password)
			if tc.good != (err == nil) || !tc.good && !errors.Is(err, idp.ErrUnavailable) {
				t.Error(err)
			}
			if err := p.Check(ctx(t)); tc.good != (err == nil) {
				t.Errorf("check: %v", err)
			}
		})
	}
}

// S46: nothing is sent before TLS has started, not even to a server without TLS.
func TestNothingIsSentInClearTextWhereTLSIsConfigured(t *testing.T) {
	d := slapd(t, person("jane"))
	d.stop()
	d.write("slapd.conf", withoutTLS(t, d))
	d.startPlain()
	p := opened(t, d.secure("ldap", d.plain, "startTLS: true", "insecureSkipVerify: true"))
	if _, err := p.Login(ctx(t), "jane", password); !errors.Is(err, idp.ErrUnavailable) {
		t.Error(err)
	}
}

// U30: an outage is not reported as a wrong password; the provider opens without its server, and works once the server is back.
func TestAnOutageIsNotAWrongPassword(t *testing.T) {
	d := slapd(t, person("jane"))
	p := opened(t, d.settings())
	if _, err := p.Login(ctx(t), "jane", password); err != nil {
		t.Fatal(err)
	}
	d.stop()
	for _, login := range []string{"jane", "nobody"} {
		if _, err := p.Login(ctx(t), login, password); !errors.Is(err, idp.ErrUnavailable) || errors.Is(err, idp.ErrCredentials) {
			t.Errorf("%s: %v", login, err)
		}
	}
	if _, err := p.Refresh(ctx(t), "jane", ""); !errors.Is(err, idp.ErrUnavailable) {
		t.Errorf("refresh: %v", err)
	}
	late := opened(t, d.settings())
	if err := late.Check(ctx(t)); !errors.Is(err, idp.ErrUnavailable) {
		t.Errorf("check: %v", err)
	}
	d.start()
	for _, q := range []*Provider{p, late} {
		if _, err := q.Login(ctx(t), "jane", password); err != nil {
			t.Errorf("after the outage: %v", err)
		}
	}
}

// A wrong manager, or a wrong base, is the administrator's mistake, and is not reported as a wrong password.
func TestAWrongConfigurationIsNotAWrongPassword(t *testing.T) {
	d := slapd(t, person("jane"))
	for name, tc := range map[string]struct{ settings, says string }{
		"Manager": {strings.Replace(d.settings(), managers, "other", 1), "managerPassword"},
		"Base":    {strings.Replace(d.settings(), people, "ou=nowhere,"+base, 1), "userSearchBase"},
		"Groups":  {d.settings("groupSearchBase: ou=nowhere," + base), "groupSearchBase"},
	} {
		t.Run(name, func(t *testing.T) {
			p := opened(t, tc.settings)
			_, err := p.Login(ctx(t), "jane", password)
			if !errors.Is(err, idp.ErrUnavailable) || !strings.Contains(err.Error(), tc.says) {
				t.Error(err)
			}
			if strings.Contains(err.Error(), managers) || strings.Contains(fmt.Sprintf("%v %+v %#v", p, p, p), managers) {
				t.Error("a password shows")
			}
			if err := p.Check(ctx(t)); err == nil || errors.Is(err, idp.ErrUnavailable) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("check: %v", err)
			}
		})
	}
}

// U30: connections are reused, and are few: a thousand logins do not need a thousand ports.
func TestManyLoginsUseFewConnections(t *testing.T) {
	var many strings.Builder
	for i := range 3000 {
		many.WriteString(person(fmt.Sprintf("u%04d", i)))
	}
	d := slapd(t, many.String())
	addr := d.forward()
	p := opened(t, strings.Replace(d.settings(), fmt.Sprintf("127.0.0.1:%d", d.plain), addr, 1))
	var group sync.WaitGroup
	for w := range 20 {
		group.Go(func() {
			for i := range 50 {
				login, secret := fmt.Sprintf("u%04d", 150*w+i), password
				if i%10 == 9 {
					secret = "wrong"
				}
				id, err := p.Login(ctx(t), login, secret)
				if i%10 == 9 && !errors.Is(err, idp.ErrCredentials) || i%10 != 9 && (err != nil || id.Subject != login) {
					t.Errorf("%s: %+v, %v", login, id, err)
				}
			}
		})
	}
	group.Wait()
	if n := d.forwarded.Load(); n > 2*poolSize {
		t.Errorf("%d connections for 1000 logins, want at most %d", n, 2*poolSize)
	}
}

// S12: a user who is removed or disabled in the directory is distinguished from one who mistyped the password too often.
func TestRefreshTellsWhoIsGone(t *testing.T) {
	control := "dn: uid=%s," + people + "\nchangetype: modify\nreplace: pwdAccountLockedTime\npwdAccountLockedTime: %s\n\n"
	d := slapd(t, person("jane")+person("gone")+person("locked")+person("tired"))
	p := opened(t, d.settings())
	d.modify("dn: " + dn("gone") + "\nchangetype: delete\n\n" + fmt.Sprintf(control, "locked", lockedForGood) + fmt.Sprintf(control, "tired", "20261121120000Z"))
	for subject, want := range map[string]error{"jane": nil, "gone": idp.ErrGone, "locked": idp.ErrGone, "tired": nil, "never": idp.ErrGone, "": idp.ErrGone,
		"*": idp.ErrGone} {
		id, err := p.Refresh(ctx(t), subject, "")
		if !errors.Is(err, want) || want == nil && (id == nil || id.Subject != subject) {
			t.Errorf("%q: %+v, %v", subject, id, err)
		}
	}
	if _, err := p.Login(ctx(t), "locked", password); !errors.Is(err, idp.ErrCredentials) {
		t.Errorf("a locked entry logs in: %v", err)
	}
}

// U33: groups by the attribute of users, by the attribute of groups, nested, and in pages.
func TestGroupsAreFound(t *testing.T) {
	var many strings.Builder
	for i := range 700 {
		many.WriteString(group(fmt.Sprintf("many-%03d", i), dn("busy")))
	}
	d := slapd(t, person("jane")+person("busy")+person("loner")+
		group("dev", dn("jane"))+group("circle", groupDN("dev"), groupDN("outer"))+group("outer", groupDN("circle"))+group("system:masters", dn("jane"))+
		"dn: cn=posix,"+groups+"\nobjectClass: posixGroup\ncn: posix\ngidNumber: 7\nmemberUid: jane\n\n"+many.String())
	// memberof is maintained by the overlay, for entries that are added after the start.
	d.modify("dn: " + groupDN("late") + "\nchangetype: add\nobjectClass: groupOfNames\ncn: late\nmember: " + dn("jane") + "\n\n")
	for name, tc := range map[string]struct {
		more []string
		want []string
	}{
		"None":            {nil, nil},
		"Search":          {[]string{"groupSearchBase: " + groups}, []string{"dev", "late"}},
		"Filter":          {[]string{"groupSearchBase: " + groups, "groupSearchFilter: (cn=d*)"}, []string{"dev"}},
		"AnotherName":     {[]string{"groupSearchBase: " + groups, "groupSearchFilter: cn=dev", "groupNameAttribute: entryDN"}, []string{groupDN("dev")}},
		"MemberOf":        {[]string{"userMemberAttribute: memberOf"}, []string{"late"}},
		"MemberOfAndBase": {[]string{"userMemberAttribute: memberOf", "groupSearchBase: " + groups, "groupMemberAttribute: owner"}, []string{"late"}},
		"MemberOfOutside": {[]string{"userMemberAttribute: memberOf", "groupSearchBase: " + people, "groupMemberAttribute: owner"}, nil},
		"Posix":           {[]string{"groupSearchBase: " + groups, "groupMemberAttribute: memberUid"}, []string{"posix"}},
		"NestedInACircle": {[]string{"groupSearchBase: " + groups, "nestedGroups: true"}, []string{"circle", "dev", "late", "outer"}},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := opened(t, d.settings(tc.more...)).Login(ctx(t), "jane", password)
			if err != nil || !slices.Equal(id.Groups, tc.want) {
				t.Errorf("%v, %v, want %v", id, err, tc.want)
			}
		})
	}
	// More groups than a page and than the server's limit; more than the number that counts.
	id, err := opened(t, d.settings("groupSearchBase: "+groups)).Login(ctx(t), "busy", password)
	if err != nil || len(id.Groups) != idp.MaxGroups {
		t.Errorf("%d groups, %v", len(id.Groups), err)
	}
	id, err = opened(t, d.settings("groupSearchBase: "+groups, "groupSearchFilter: (!(cn=many-0*))")).Login(ctx(t), "busy", password)
	if err != nil || len(id.Groups) != idp.MaxGroups && len(id.Groups) != 600 {
		t.Errorf("%d groups, %v", len(id.Groups), err)
	}
	if id, err := opened(t, d.settings("groupSearchBase: "+groups)).Login(ctx(t), "loner", password); err != nil || id.Groups != nil {
		t.Errorf("%v, %v", id, err)
	}
	p := opened(t, d.settings("groupSearchBase: "+groups))
	d.modify("dn: " + groupDN("late") + "\nchangetype: delete\n\n")
	if id, err := p.Refresh(ctx(t), "jane", ""); err != nil || !slices.Equal(id.Groups, []string{"dev"}) {
		t.Errorf("after the group is gone: %v, %v", id, err)
	}
}
