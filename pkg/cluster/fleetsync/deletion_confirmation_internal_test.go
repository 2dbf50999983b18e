package fleetsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// customRole is a global role of which users have written the rules.
func customRole(rules string) string { return fmt.Sprintf(meta, "r", "r", "", `,"rules":[`+rules+`]`) }

// withDefinitions returns a source whose kinds have definitions that may be going.
func withDefinitions(going *bool) *Source {
	s := NewSource(nil)
	s.Going = func(context.Context, schema.GroupVersionResource) (bool, error) { return *going, nil }
	return s
}

// F26, S74: what was lost with its definition stays in members, and what was deleted goes; until one of both is known it stays as it is.
func TestWhatIsLostWithItsDefinitionStaysInMembers(t *testing.T) {
	ref, m1 := Ref{"globalroles", "r"}, &Target{Name: "m1"}
	for name, lost := range map[string]bool{"Deleted": false, "Lost": true} {
		t.Run(name, func(t *testing.T) {
			s := withDefinitions(&lost)
			set(t, s, "globalroles", "r", customRole(""))
			_, _, version := s.all(m1)
			check := func(when string, stays bool) {
				t.Helper()
				of, held, _ := s.all(m1)
				if _, is := of.Objects["globalroles"]["r"]; is != stays || held[ref] != stays || (len(of.Gone) == 0) != stays {
					t.Errorf("%s it is there: %v, held %v, gone %v", when, is, held, of.Gone)
				}
				if refs, _, _, known := s.since(version, m1); !known || (len(refs) == 0) != stays {
					t.Errorf("%s %v is told", when, refs)
				}
			}
			for range 2 { // its deletion, and its end
				drop(s, "globalroles", "r")
				check("before it is confirmed", true)
			}
			for range 2 {
				if err := s.confirm(t.Context()); err != nil {
					t.Fatal(err)
				}
				check("afterwards", lost)
			}
		})
	}
}

// F26, S74: what comes back after it was lost is as any other object, and goes with its own deletion.
func TestWhatComesBackWithItsDefinitionGoesWithItsDeletion(t *testing.T) {
	m1 := &Target{Name: "m1"}
	for name, rules := range map[string]string{"AsItWas": "", "Changed": `{"verbs":["get"]}`} {
		for when, confirmed := range map[string]bool{"AfterItWasConfirmed": true, "Before": false} {
			t.Run(name+when, func(t *testing.T) {
				going := true
				s := withDefinitions(&going)
				set(t, s, "globalroles", "r", customRole(""))
				drop(s, "globalroles", "r")
				if confirmed {
					if err := s.confirm(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				going = false
				set(t, s, "globalroles", "r", customRole(rules))
				of, held, _ := s.all(m1)
				if of.Objects["globalroles"]["r"] == "" || len(held) > 0 || len(of.Gone) > 0 || len(s.ends) > 0 {
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

// F26: an end that was confirmed for a former object is none of the one that has its name.
func TestAnEndIsConfirmedForItsObject(t *testing.T) {
	s := NewSource(nil)
	s.Going = func(context.Context, schema.GroupVersionResource) (bool, error) { // meanwhile it is made again, and lost
		set(t, s, "globalroles", "r", customRole(""))
		drop(s, "globalroles", "r")
		return false, nil
	}
	set(t, s, "globalroles", "r", customRole(""))
	drop(s, "globalroles", "r")
	if err := s.confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if of, _, _ := s.all(&Target{Name: "m1"}); of.Objects["globalroles"]["r"] == "" || len(s.ends) != 1 {
		t.Errorf("it is %v, and %d ends wait", of.Objects["globalroles"], len(s.ends))
	}
}

// F25, F26, F28: while a definition can't be read its ends wait, with what the deletion said of namespaces, and those of other kinds don't. What
// waits for long is said, so that no member answers that may have it.
func TestEndsWaitForTheirDefinitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers atomic.Bool
		s := NewSource(nil)
		s.Going = func(_ context.Context, k schema.GroupVersionResource) (bool, error) {
			if k.Resource == "workspacetemplates" && !answers.Load() {
				return false, errors.New("not now")
			}
			return false, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.Confirm(ctx)
		synctest.Wait()
		set(t, s, "workspacetemplates", "w", template("w", `{"clusters":[{"name":"m1"}]}`, ""))
		set(t, s, "globalroles", "r", customRole(""))
		set(t, s, "workspacetemplates", "w", template("w", `{"clusters":[{"name":"m1"}]}`,
			`,"deletionTimestamp":"2026-11-02T00:00:00Z","annotations":{"kubesphere.io/deletion-propagation":"Foreground"}`))
		drop(s, "workspacetemplates", "w")
		drop(s, "globalroles", "r")
		time.Sleep(confirmAfter)
		synctest.Wait()
		if got := gone(s, &Target{Name: "m1"}); !slices.Equal(got, []string{"globalroles/r"}) {
			t.Errorf("%v went", got)
		}
		if err := s.confirmed(); err != nil {
			t.Errorf("at once: %v", err)
		}
		time.Sleep(confirmWithin)
		if err := s.confirmed(); !errors.Is(err, errUnconfirmed) {
			t.Errorf("after a while: %v", err)
		}
		answers.Store(true)
		time.Sleep(retryEvery)
		synctest.Wait()
		all := ended(s)
		of := slices.IndexFunc(all, func(c Change) bool { return c.Kind == "workspaces" })
		if of < 0 || all[of].Propagation != "Foreground" || s.confirmed() != nil {
			t.Errorf("%v went", all)
		}
	})
}
