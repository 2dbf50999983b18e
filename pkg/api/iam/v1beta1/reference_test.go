package v1beta1

import (
	"maps"
	"strings"
	"testing"
)

func TestSetReference(t *testing.T) {
	longest := strings.Repeat("a", 63)
	for name, c := range map[string]struct {
		before map[string]string
		value  string
		want   map[string]string
	}{
		"TheFirstLabel":            {nil, "admin", map[string]string{LabelRoleReference: "admin"}},
		"BesideOthers":             {map[string]string{"a": "b"}, "admin", map[string]string{"a": "b", LabelRoleReference: "admin"}},
		"InThePlaceOfAnother":      {map[string]string{LabelRoleReference: "viewer"}, "admin", map[string]string{LabelRoleReference: "admin"}},
		"TheLongest":               {nil, longest, map[string]string{LabelRoleReference: longest}},
		"ALongerNameIsLeftOut":     {nil, longest + "a", nil},
		"WhatWasThereIsNoLonger":   {map[string]string{"a": "b", LabelRoleReference: "viewer"}, longest + "a", map[string]string{"a": "b"}},
		"ANameThatIsNoLabelsValue": {nil, "a b", nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := &RoleBinding{}
			b.Labels = c.before
			SetReference(b, LabelRoleReference, c.value)
			if !maps.Equal(b.Labels, c.want) {
				t.Errorf("%v, want %v", b.Labels, c.want)
			}
		})
	}
}
