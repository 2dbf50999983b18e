package caller_test

import (
	"context"
	"errors"
	"net/url"
	"reflect"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/caller"
)

// closing is an answer that counts how often it was closed.
type closing struct{ closed *int }

func (c closing) Close() { *c.closed++ }

func TestAWriteIsDoneAgainWhileOthersComeBetween(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	lost, broken := caller.Modified(pods, "p"), errors.New("broken")
	for claim, c := range map[string]struct {
		seen caller.Seen
		// fails are the errors of the writes, one after the other; then they succeed.
		fails         []error
		reads, writes int
		err           error
	}{
		"AtFirst":               {reads: 1, writes: 1},
		"AfterConflicts":        {fails: []error{lost, lost}, reads: 3, writes: 3},
		"NotForEver":            {fails: []error{lost, lost, lost, lost, lost, lost}, reads: caller.Attempts, writes: caller.Attempts, err: lost},
		"NotAfterAnotherError":  {fails: []error{lost, broken}, reads: 2, writes: 2, err: broken},
		"WithTheVersionOnce":    {seen: caller.Seen{Version: "7"}, fails: []error{lost}, reads: 1, writes: 1, err: lost},
		"WithTheVersion":        {seen: caller.Seen{Version: "7"}, reads: 1, writes: 1},
		"NotWithAnotherVersion": {seen: caller.Seen{Version: "6"}, reads: 1, err: lost},
	} {
		t.Run(claim, func(t *testing.T) {
			c.seen.Resource, c.seen.Name = pods, "p"
			reads, writes, closed := 0, 0, 0
			_, err := caller.Change(t.Context(), c.seen, func(context.Context) (*metav1.ObjectMeta, error) {
				reads++
				return &metav1.ObjectMeta{ResourceVersion: "7"}, nil
			}, func(_ context.Context, now *metav1.ObjectMeta) (any, error) {
				if now.ResourceVersion != "7" {
					t.Errorf("the write got %+v", now)
				}
				writes++
				if writes <= len(c.fails) {
					return closing{&closed}, c.fails[writes-1]
				}
				return closing{&closed}, nil
			})
			if reads != c.reads || writes != c.writes || !reflect.DeepEqual(err, c.err) {
				t.Errorf("%d reads, %d writes, %v; expected %d, %d, %v", reads, writes, err, c.reads, c.writes, c.err)
			}
			if want := max(0, writes-1); closed != want {
				t.Errorf("%d answers were closed, expected all but the last of %d", closed, writes)
			}
		})
	}
}

func TestWhatCantBeReadIsNotWritten(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")
	_, err := caller.Change(t.Context(), caller.Seen{}, func(context.Context) (*metav1.ObjectMeta, error) { return nil, gone },
		func(context.Context, *metav1.ObjectMeta) (int, error) {
			t.Error("it was written")
			return 0, nil
		})
	if !errors.Is(err, gone) {
		t.Errorf("got %v, expected %v", err, gone)
	}
}

func TestADryRunHasNoEffectWhateverWasAsked(t *testing.T) {
	asked := url.Values{"dryRun": {""}, "fieldManager": {"a"}}
	got, want := caller.DryRun(asked), url.Values{"dryRun": {"All"}, "fieldManager": {"a"}}
	if !reflect.DeepEqual(got, want) || asked.Get("dryRun") != "" {
		t.Errorf("the parameters are %v, expected %v; those of the write are %v now", got, want, asked)
	}
}

func TestADeletionIsOfTheObjectThatWasChecked(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	lost := caller.Modified(pods, "p")
	this, another, seventh, sixth, nothing := types.UID("u"), types.UID("v"), "7", "6", ""
	for claim, c := range map[string]struct {
		asked *metav1.Preconditions
		// conflicts is how many attempts another write comes before.
		conflicts    int
		reads, drops int
		err          error
	}{
		"AsItIsNow": {
			reads: 1, drops: 1,
		},
		"AgainAfterAConflict": {
			conflicts: 1,
			reads:     2, drops: 2,
		},
		"ByItsUIDAgainAfterAConflict": {
			asked:     &metav1.Preconditions{UID: &this},
			conflicts: 1,
			reads:     2, drops: 2,
		},
		"NotAnotherOneOfItsName": {
			asked: &metav1.Preconditions{UID: &another},
			reads: 1, err: lost,
		},
		"InTheVersionThatTheCallerNames": {
			asked: &metav1.Preconditions{ResourceVersion: &seventh},
			reads: 1, drops: 1,
		},
		"NotInAnotherVersion": {
			asked: &metav1.Preconditions{ResourceVersion: &sixth},
			reads: 1, err: lost,
		},
		"NotInTheEmptyVersionThatNoObjectHas": {
			asked: &metav1.Preconditions{ResourceVersion: &nothing},
			reads: 1, err: lost,
		},
		"OnceInTheVersionThatTheCallerNames": {
			asked:     &metav1.Preconditions{ResourceVersion: &seventh},
			conflicts: 1,
			reads:     1, drops: 1, err: lost,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			reads, drops := 0, 0
			options := metav1.DeleteOptions{Preconditions: c.asked.DeepCopy(), DryRun: []string{metav1.DryRunAll}}
			_, err := caller.Remove(t.Context(), caller.Seen{Resource: pods, Name: "p"}, options,
				func(context.Context) (*metav1.ObjectMeta, error) {
					reads++
					return &metav1.ObjectMeta{UID: this, ResourceVersion: seventh}, nil
				},
				func(_ context.Context, _ *metav1.ObjectMeta, bound metav1.DeleteOptions) (any, error) {
					drops++
					want := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &this, ResourceVersion: &seventh},
						DryRun: []string{metav1.DryRunAll}}
					if !reflect.DeepEqual(bound, want) {
						t.Errorf("the options are %v, expected %v", bound, want)
					}
					if drops <= c.conflicts {
						return nil, lost
					}
					return nil, nil
				})
			if reads != c.reads || drops != c.drops || !reflect.DeepEqual(err, c.err) {
				t.Errorf("%d reads, %d deletions, %v; expected %d, %d, %v", reads, drops, err, c.reads, c.drops, c.err)
			}
			if !reflect.DeepEqual(options.Preconditions, c.asked) {
				t.Errorf("the caller's preconditions are %v now, expected %v", options.Preconditions, c.asked)
			}
		})
	}
}

func TestADeletionOfWhatMayNotBeSeenSaysNothingOfItsVersion(t *testing.T) {
	gone, version := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p"), "6"
	_, err := caller.Remove(t.Context(), caller.Seen{}, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}},
		func(context.Context) (*metav1.ObjectMeta, error) {
			return &metav1.ObjectMeta{ResourceVersion: "7"}, gone
		},
		func(context.Context, *metav1.ObjectMeta, metav1.DeleteOptions) (int, error) {
			t.Error("it was deleted")
			return 0, nil
		})
	if !errors.Is(err, gone) {
		t.Errorf("got %v, expected %v", err, gone)
	}
}
