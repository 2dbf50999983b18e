package config_test

import (
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestTheOrderOfCredentialsNamesEachOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"Default":     {"", []string{"proxy", "token", "certificate"}},
		"Another":     {"authentication:\n  order: [certificate, token, proxy]\n", []string{"certificate", "token", "proxy"}},
		"OneIsAbsent": {"authentication:\n  order: [token, proxy]\n", nil},
		"OneIsTwice":  {"authentication:\n  order: [token, token, proxy]\n", nil},
		"NoneIsLeft":  {"authentication:\n  order: []\n", nil},
		"AnUnknown":   {"authentication:\n  order: [proxy, token, cookie]\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := config.Parse([]byte(tc.text), nil)
			if err == nil {
				err = c.Validate()
			}
			switch {
			case tc.want == nil && (err == nil || !strings.Contains(err.Error(), "authentication.order")):
				t.Errorf("got the error %v, want one that names authentication.order", err)
			case tc.want != nil && (err != nil || !slices.Equal(c.Authentication.Order, tc.want)):
				t.Errorf("got %v, %v, want %v", c, err, tc.want)
			}
		})
	}
}
