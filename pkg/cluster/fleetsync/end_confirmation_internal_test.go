package fleetsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// defined returns a source whose kinds have definitions that were made at a time, the zero time for none.
func defined(at *time.Time) *Source {
	s := NewSource(nil)
	s.Definition = func(context.Context, schema.GroupVersionResource) (time.Time, error) { return *at, nil }
	return s
}

// role feeds a global role that was made at a time.
func role(t *testing.T, s *Source, name string, created time.Time, rules string) {
	t.Helper()
	set(t, s, "globalroles", name, fmt.Sprintf(meta, name, name, `,"creationTimestamp":"`+created.Format(time.RFC3339)+`"`, `,"rules":[`+rules+`]`))
}

// F26, S74: what was lost with its definition stays in members, whatever the definition is by then, and what was deleted goes.
func TestWhatIsLostWithItsDefinitionStaysInMembers(t *testing.T) {
	made := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	m1 := &Target{Name: "m1"}
	for name, x := range map[string]struct {
		definition time.Time
		lost       bool
	}{
		"Deleted":           {made.Add(-time.Hour), false},
		"OfTheSameSecond":   {made, false},
		"DefinitionIsGoing": {time.Time{}, true},
		"DefinitionIsNew":   {made.Add(time.Second), true},
	} {
		t.Run(name, func(t *testing.T) {
			at := made
			s := defined(&at)
			role(t, s, "r", made, "")
			_, _, version := s.all(m1)
			at = x.definition
			drop(s, "globalroles", "r")
			drop(s, "globalroles", "r")
			if of, _, _ := s.all(m1); len(of.Gone) > 0 || of.Objects["globalroles"]["r"] == "" || s.Confirmed() == nil {
				t.Fatalf("before it is confirmed: %v is gone, %v is there", of.Gone, of.Objects)
			}
			if err := errors.Join(s.confirm(t.Context()), s.Confirmed()); err != nil {
				t.Fatal(err)
			}
			of, held, _ := s.all(m1)
			_, stays := of.Objects["globalroles"]["r"]
			if stays != x.lost || held[Ref{"globalroles", "r"}] != x.lost || (len(of.Gone) == 0) != x.lost {
				t.Errorf("it stays: %v, held %v, gone %v", stays, held, of.Gone)
			}
			if refs, _, _, known := s.since(version, m1); !known || (len(refs) == 0) != x.lost {
				t.Errorf("%v is told", refs)
			}
		})
	}
}

// F26, S74: what comes back after it was lost is as any other object, and goes with its own deletion.
func TestWhatComesBackWithItsDefinitionGoesWithItsDeletion(t *testing.T) {
	made := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	m1, at := &Target{Name: "m1"}, time.Time{}
	for name, rules := range map[string]string{"AsItWas": "", "Changed": `{"verbs":["get"]}`} {
		for when, confirmed := range map[string]bool{"AfterItWasConfirmed": true, "Before": false} {
			t.Run(name+when, func(t *testing.T) {
				at = time.Time{}
				s := defined(&at)
				role(t, s, "r", made, "")
				drop(s, "globalroles", "r")
				if confirmed {
					if err := s.confirm(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				at = made.Add(time.Hour) // of the definition that was applied again
				role(t, s, "r", at, rules)
				if err := s.Confirmed(); err != nil {
					t.Errorf("it is there: %v", err)
				}
				of, held, _ := s.all(m1)
				if of.Objects["globalroles"]["r"] == "" || len(held) > 0 || len(of.Gone) > 0 {
					t.Errorf("it is %v, held %v, gone %v", of.Objects["globalroles"], held, of.Gone)
				}
				drop(s, "globalroles", "r")
				if err := s.confirm(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := gone(s, m1); !slices.Equal(got, []string{"globalroles/r"}) {
					t.Errorf("after its deletion %v goes", got)
				}
			})
		}
	}
}

// F26: a role that is made again, as it was, under a watch that saw no end is as old as the one that is there.
func TestWhatWasMadeAgainUnseenIsAsOldAsItIs(t *testing.T) {
	made := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := made.Add(time.Hour)
	s := defined(&at)
	role(t, s, "r", made, "")
	role(t, s, "r", at, "")
	drop(s, "globalroles", "r")
	if err := s.confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := gone(s, &Target{Name: "m1"}); !slices.Equal(got, []string{"globalroles/r"}) {
		t.Errorf("%v goes", got)
	}
}

// F26, F28: while a definition can't be read, its ends wait, with what the deletion said of namespaces; those of other kinds don't.
func TestEndsWaitForTheirDefinitions(t *testing.T) {
	made := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	fails := errors.New("not now")
	s := NewSource(nil)
	var asked []string
	s.Definition = func(_ context.Context, k schema.GroupVersionResource) (time.Time, error) {
		asked = append(asked, k.Resource)
		if k.Resource == "workspacetemplates" {
			return made, fails
		}
		return made, nil
	}
	created := `,"creationTimestamp":"` + made.Format(time.RFC3339) + `"`
	set(t, s, "workspacetemplates", "w", template("w", `{"clusters":[{"name":"m1"}]}`, created))
	set(t, s, "globalroles", "r", fmt.Sprintf(meta, "r", "r", created, `,"rules":[]`))
	set(t, s, "workspacetemplates", "w", template("w", `{"clusters":[{"name":"m1"}]}`, created+
		`,"deletionTimestamp":"2026-11-02T00:00:00Z","annotations":{"kubesphere.io/deletion-propagation":"Foreground"}`))
	drop(s, "workspacetemplates", "w")
	drop(s, "globalroles", "r")
	if err := s.confirm(t.Context()); !errors.Is(err, fails) {
		t.Errorf("it says %v", err)
	}
	if all := ended(s); len(all) != 1 || all[0].Kind != "globalroles" || !slices.Equal(asked, []string{"workspacetemplates", "globalroles"}) ||
		s.Confirmed() == nil {
		t.Errorf("%v went, after %v were read", all, asked)
	}
	fails = nil
	if err := errors.Join(s.confirm(t.Context()), s.Confirmed()); err != nil {
		t.Fatal(err)
	}
	if all := ended(s); len(all) != 2 || all[slices.IndexFunc(all, func(c Change) bool { return c.Kind == "workspaces" })].Propagation != "Foreground" {
		t.Errorf("%v went", all)
	}
}
