package v1beta1_test

import (
	"maps"
	"strings"
	"testing"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

func TestSetReference(t *testing.T) {
	longest := strings.Repeat("a", 63)
	for name, c := range map[string]struct {
		before map[string]string
		value  string
		want   map[string]string
	}{
		"TheFirstLabel":            {nil, "admin", map[string]string{iamv1beta1.LabelRoleReference: "admin"}},
		"BesideOthers":             {map[string]string{"a": "b"}, "admin", map[string]string{"a": "b", iamv1beta1.LabelRoleReference: "admin"}},
		"InThePlaceOfAnother":      {map[string]string{iamv1beta1.LabelRoleReference: "viewer"}, "admin", map[string]string{iamv1beta1.LabelRoleReference: "admin"}},
		"TheLongest":               {nil, longest, map[string]string{iamv1beta1.LabelRoleReference: longest}},
		"ALongerNameIsLeftOut":     {nil, longest + "a", nil},
		"WhatWasThereIsNoLonger":   {map[string]string{"a": "b", iamv1beta1.LabelRoleReference: "viewer"}, longest + "a", map[string]string{"a": "b"}},
		"ANameThatIsNoLabelsValue": {nil, "a b", nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := &iamv1beta1.RoleBinding{}
			b.Labels = c.before
			iamv1beta1.SetReference(b, iamv1beta1.LabelRoleReference, c.value)
			if !maps.Equal(b.Labels, c.want) {
				t.Errorf("%v, want %v", b.Labels, c.want)
			}
		})
	}
}
