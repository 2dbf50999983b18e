package setting

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAConfigurationThatCannotBeReadSaysWhy(t *testing.T) {
	const text = "password: canary"
	for name, test := range map[string]struct {
		secret, typ, text, prefix, of string
		want                          string // "" where it can be read
	}{
		"OfAPrefix":              {PlatformPrefix + "a", PlatformType, text, PlatformPrefix, PlatformType, ""},
		"AnotherName":            {"a", PlatformType, text, PlatformPrefix, PlatformType, `its name has to begin with "` + PlatformPrefix + `"`},
		"AnotherType":            {PlatformPrefix + "a", "Opaque", text, PlatformPrefix, PlatformType, `its type has to be "` + PlatformType + `"`},
		"OfNoPrefix":             {"member1", connectionType, text, "", connectionType, ""},
		"OfNoPrefixButOtherType": {"member1", "Opaque", text, "", connectionType, `its type has to be "` + connectionType + `"`},
		"NoYAML":                 {"member1", connectionType, "canary: [", "", connectionType, "is no YAML"},
		"NoKeys":                 {"member1", connectionType, "canary", "", connectionType, "keys with values"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: test.secret},
				Type:       corev1.SecretType(test.typ),
				Data:       map[string][]byte{configKey: []byte(test.text)},
			}
			c, err := readConfig(s, test.of, test.prefix)
			switch {
			case test.want == "" && (err != nil || c.Name != strings.TrimPrefix(test.secret, test.prefix)):
				t.Errorf("%+v, %v", c, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), `""`) ||
				strings.Contains(err.Error(), "canary")):
				t.Errorf("error %v, want one with %s", err, test.want)
			}
		})
	}
}
