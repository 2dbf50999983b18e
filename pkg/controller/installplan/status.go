package installplan

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/helm"
)

const (
	// maxHistory is how many states are kept.
	maxHistory = 10
	// maxMessage bounds the message of a condition, in bytes.
	maxMessage = 4 << 10
)

// enter notes a state, once.
func enter(s *v1alpha1.InstallationStatus, state string, now time.Time) {
	if s.State == state {
		return
	}
	s.State = state
	at := metav1.NewTime(now)
	s.StateHistory = append(s.StateHistory, v1alpha1.InstallationState{State: state, LastTransitionTime: &at})
	if over := len(s.StateHistory) - maxHistory; over > 0 {
		s.StateHistory = slices.Delete(s.StateHistory, 0, over)
	}
}

// say sets a condition.
func say(s *v1alpha1.InstallationStatus, condition string, is bool, reason, message string, now time.Time) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: condition, Status: status, Reason: reason,
		Message: helm.Clip(message, maxMessage), LastTransitionTime: metav1.NewTime(now)})
}

// isInstalled reports whether a version of the extension runs.
func isInstalled(s *v1alpha1.InstallationStatus) bool { return s.Version != "" }
