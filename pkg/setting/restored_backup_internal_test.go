package setting

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A watch brings no older version than what was written here, and a complete list does: a backup of etcd was restored.
func TestAnOlderThemeCountsWhereItIsListed(t *testing.T) {
	theme := func(version, title string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ThemeName, ResourceVersion: version}, Data: map[string]string{"title": title}}
	}
	s := &Store{}
	s.setTheme(theme("9", "new"), older)
	s.setTheme(theme("8", "old"), older)
	if got := s.theme.Load().Data["title"]; got != "new" {
		t.Errorf("after a late event: %s", got)
	}
	s.setTheme(theme("8", "old"), never)
	if got := s.theme.Load().Data["title"]; got != "old" {
		t.Errorf("after the list of a restored backup: %s", got)
	}
}
