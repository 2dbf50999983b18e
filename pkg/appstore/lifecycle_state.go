package appstore

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
)

const (
	// maxAudits is how many changes of its state a version remembers.
	maxAudits = 50
	// MaxMessage bounds what is said about a change, in bytes.
	MaxMessage = 1024
)

// moves are the states that a version, or an application, can be brought to, by the one that it is in.
type moves map[string][]string

var (
	versionMoves = moves{
		v2.StateDraft:     {v2.StateSubmitted},
		v2.StateSubmitted: {v2.StateDraft, v2.StatePassed, v2.StateRejected, v2.StateActive},
		v2.StateRejected:  {v2.StateSubmitted, v2.StateDraft},
		v2.StatePassed:    {v2.StateActive},
		v2.StateActive:    {v2.StateSuspended},
		v2.StateSuspended: {v2.StateActive},
	}
	appMoves = moves{
		v2.StateDraft:     {v2.StateActive},
		v2.StateActive:    {v2.StateSuspended},
		v2.StateSuspended: {v2.StateActive},
	}
)

// MoveError says that nothing in a state can be brought to another one.
type MoveError struct {
	From, To string
	// Allowed are the states that it can be brought to.
	Allowed []string
}

// Error implements error.
func (e *MoveError) Error() string {
	if len(e.Allowed) == 0 {
		return fmt.Sprintf("it is %s, and can't become %s", e.From, e.To)
	}
	return fmt.Sprintf("it is %s, and can't become %s: it can become %s", e.From, e.To, strings.Join(e.Allowed, " or "))
}

func (m moves) check(from, to string) error {
	if from == "" {
		from = v2.StateDraft
	}
	if !slices.Contains(m[from], to) {
		return &MoveError{From: from, To: to, Allowed: m[from]}
	}
	return nil
}

// CheckVersionMove returns why a version can't be brought from one state to another, or nil. Whether there is such a state is
// IsVersionState's to say.
func CheckVersionMove(from, to string) error { return versionMoves.check(from, to) }

// CheckAppMove returns why an application can't be brought from one state to another, or nil.
func CheckAppMove(from, to string) error { return appMoves.check(from, to) }

// IsVersionState reports whether a version can be in a state.
func IsVersionState(state string) bool { return versionMoves[state] != nil }

// IsAppState reports whether an application can be in a state.
func IsAppState(state string) bool { return appMoves[state] != nil }

// IsReview reports whether bringing a version from one state to another is for those who review the versions of all workspaces, and not
// for those who wrote it.
func IsReview(from, to string) bool {
	switch to {
	case v2.StatePassed, v2.StateRejected:
		return true
	case v2.StateActive:
		return from == v2.StateSubmitted || from == v2.StateSuspended
	}
	return false
}

// IsOpen reports whether the content of a version in a state may change.
func IsOpen(state string) bool {
	return state == "" || state == v2.StateDraft || state == v2.StateRejected
}

// IsDeletable reports whether a version in a state may be deleted.
func IsDeletable(state string) bool {
	return IsOpen(state) || state == v2.StatePassed || state == v2.StateSuspended
}

// Move brings a version to a state, and records it.
func Move(s *v2.ApplicationVersionStatus, state, message, who string, now metav1.Time) {
	now = *now.DeepCopy()
	s.State, s.Message, s.UserName, s.Updated = state, message, who, &now
	audit := v2.Audit{State: state, Message: message, UserName: who, Updated: now.DeepCopy()}
	s.Audits = append([]v2.Audit{audit}, s.Audits[:min(len(s.Audits), maxAudits-1)]...)
}

// AppState returns the state of an application that is in one, by those of its versions: it is active while one of them is, a suspended one
// stays so while it has versions that can be active again, and anything else is a draft.
func AppState(now string, versions []string) string {
	switch {
	case now == v2.StateSuspended:
		if slices.ContainsFunc(versions, func(s string) bool { return s == v2.StateActive || s == v2.StateSuspended }) {
			return v2.StateSuspended
		}
	case slices.Contains(versions, v2.StateActive):
		return v2.StateActive
	}
	return v2.StateDraft
}
