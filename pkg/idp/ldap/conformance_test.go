package ldap

import (
	"fmt"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

const uuid = "6d0e2f0a-1111-4222-8333-944455566677"

func TestConformance(t *testing.T) {
	idptest.Suite{Type: Type(), Start: func(t *testing.T, o idptest.Outside) *idptest.Double {
		d := slapd(t, person("jane")+"dn: "+dn("june")+"\nobjectClass: inetOrgPerson\nentryUUID: "+uuid+
			"\nuid: june\ncn: June\nsn: June\ndisplayName: June Doe\nmail: june@example.com\nuserPassword: "+password+"\n\n")
		in := &[]string{}
		setGroups := func(names []string) {
			var b strings.Builder
			for _, name := range *in {
				fmt.Fprintf(&b, "dn: %s\nchangetype: delete\n\n", groupDN(name))
			}
			for _, name := range names {
				fmt.Fprintf(&b, "dn: %s\nchangetype: add\nobjectClass: groupOfNames\ncn: %s\nmember: %s\n\n", groupDN(name), name, dn("june"))
			}
			d.modify(b.String())
			*in = names
		}
		setGroups([]string{"dev", "ops"})
		return &idptest.Double{
			Backend: fmt.Sprintf("127.0.0.1:%d", d.plain),
			Settings: map[string]any{
				"host": o.Address, "readTimeout": 3000, "managerDN": manager, "managerPassword": managers, "userSearchBase": people,
				"uidAttribute": "entryUUID", "userSearchFilter": "(objectClass=inetOrgPerson)", "groupSearchBase": groups,
				"startTLS": true, "rootCAData": d.ca,
			},
			Required:  []string{"host", "userSearchBase"},
			Secrets:   []string{managers},
			Impatient: map[string]any{"readTimeout": 1000},
			Person:    idp.Identity{Subject: uuid, Username: "june", DisplayName: "June Doe", Email: "june@example.com", Groups: []string{"dev", "ops"}},
			Username:  "june", Password: password,
			Wrong: map[string]func(map[string]any){
				"another manager's password": func(s map[string]any) { s["managerPassword"] = "x" },
				"another base":               func(s map[string]any) { s["userSearchBase"] = "ou=nowhere," + base },
				"another base of groups":     func(s map[string]any) { s["groupSearchBase"] = "ou=nowhere," + base },
			},
			Rename: func() {
				d.modify("dn: " + dn("june") + "\nchangetype: modify\nreplace: mail\nmail: other@example.com\n-\nreplace: displayName\ndisplayName: June Other\n\n")
			},
			SetGroups: setGroups,
			Remove:    func() { d.modify("dn: " + dn("june") + "\nchangetype: delete\n\n") },
		}
	}}.Run(t)
}
