package setting

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ThemeName is the name of the ConfigMap of the theme.
const ThemeName = "platform-configuration-theme"

// Theme returns what pages look like: flat keys and values, empty where none are set. The map is shared, and must not be changed. Its
// error is a 503 while the settings are being read.
func (s *Store) Theme() (map[string]string, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	if theme := s.theme.Load(); theme != nil {
		return theme.Data, nil
	}
	return map[string]string{}, nil
}

func (s *Store) setTheme(m *corev1.ConfigMap, older olderFunc) {
	if m.Name != ThemeName {
		return
	}
	next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: m.ResourceVersion}, Data: m.Data}
	if next.Data == nil {
		next.Data = map[string]string{}
	}
	for {
		now := s.theme.Load()
		if now != nil && older(next.ResourceVersion, now.ResourceVersion) || s.theme.CompareAndSwap(now, next) {
			return
		}
	}
}

// ThemeObject returns the ConfigMap of a theme.
func (s *Store) ThemeObject(theme map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: ThemeName, Namespace: s.namespace},
		Data:       maps.Clone(theme),
	}
}

// TookTheme stores the theme from kube-apiserver's answer to its write.
func (s *Store) TookTheme(m *corev1.ConfigMap) { s.setTheme(m, older) }
