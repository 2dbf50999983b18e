package v1alpha1

import (
	"encoding/json"
	"maps"
)

// SetConfigz says which optional parts of the cluster are on. What somebody wrote there stays where nothing is known.
func (s *ClusterStatus) SetConfigz(parts map[string]bool) (changed bool) {
	if len(parts) == 0 {
		return false
	}
	var now map[string]bool
	if json.Unmarshal(s.Configz.Raw, &now) == nil && maps.Equal(now, parts) {
		return false
	}
	raw, err := json.Marshal(parts)
	if err != nil {
		return false
	}
	s.Configz.Raw, s.Configz.Object = raw, nil
	return true
}
