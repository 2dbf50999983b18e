package github

import "testing"

func TestOnlyMembersOfTheOrganizationsLogIn(t *testing.T) {
	for _, test := range []struct {
		allowed []string
		in      []account
		want    bool
	}{
		{nil, nil, true},
		{[]string{"acme"}, nil, false},
		{[]string{"acme"}, []account{{ID: 1, Login: "Acme"}}, true},
		{[]string{"acme"}, []account{{ID: 1, Login: "acme-evil"}, {ID: 2, Login: "evil/acme"}}, false},
		{[]string{"77"}, []account{{ID: 77, Login: "renamed"}}, true},
		{[]string{"77"}, []account{{ID: 78, Login: "other"}}, false},
		{[]string{"77"}, []account{{ID: 78, Login: "77"}}, false}, // GitHub allows such names
		{[]string{"77"}, []account{{ID: 78, Login: "77"}, {ID: 77, Login: "acme"}}, true},
		{[]string{"7-7"}, []account{{ID: 77, Login: "other"}, {ID: 1, Login: "7-7"}}, true},
		{[]string{""}, []account{{ID: 1}}, false},
	} {
		p := &provider{settings: settings{Organizations: test.allowed}}
		if got := p.admits(test.in); got != test.want {
			t.Errorf("%q for %v: %v", test.allowed, test.in, got)
		}
	}
}
