package idptest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
)

func (s Suite) person(t *testing.T) {
	w := s.world(t)
	if !w.logsIn() {
		return
	}
	who := w.mustLogin()
	t.Run("IsWhoTheServerSays", func(t *testing.T) {
		plain := *who
		plain.Hint, plain.Refresh = "", ""
		if !reflect.DeepEqual(plain, w.Person) {
			t.Errorf("got  %+v\nwant %+v", plain, w.Person)
		}
		if who.Subject == "" || len(who.Subject) > 255 {
			t.Errorf("the subject is %q", who.Subject)
		}
	})
	t.Run("KeepsHisSubjectUnderAnotherName", func(t *testing.T) { // U31
		if w.Rename == nil {
			return
		}
		w.Rename()
		again := w.mustLogin()
		if again.Subject != who.Subject {
			t.Errorf("%q became %q with another name", who.Subject, again.Subject)
		}
		if again.Username == who.Username && again.Email == who.Email && again.DisplayName == who.DisplayName {
			t.Error("nothing of the new name is seen; the test shows nothing")
		}
	})
	t.Run("IsInNoGroupThatMeansSomethingHere", func(t *testing.T) {
		if w.SetGroups == nil {
			return
		}
		w.SetGroups([]string{"system:masters", "kapis:global:platform-admin", "staff"})
		groups := w.mustLogin().Groups
		for _, g := range groups {
			if strings.HasPrefix(g, "system:") || strings.HasPrefix(g, "kapis:") {
				t.Errorf("the provider puts them into %q", g)
			}
		}
		if !slices.ContainsFunc(groups, func(g string) bool { return strings.HasSuffix(g, "staff") }) {
			t.Errorf("the other group is lost too: %q", groups)
		}
	})
	t.Run("IsInABoundedNumberOfGroups", func(t *testing.T) {
		if w.SetGroups == nil {
			return
		}
		many := map[string]bool{}
		for i := range 2 * idp.MaxGroups {
			many[fmt.Sprintf("group-%05d", i)] = true
		}
		w.SetGroups(slices.Sorted(maps.Keys(many)))
		groups := w.mustLogin().Groups
		if len(groups) == 0 || len(groups) > idp.MaxGroups {
			t.Errorf("%d groups", len(groups))
		}
	})
}
