package chart_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
)

// The name of an ExtensionVersion is of one extension and one version, of all that may be written.
func FuzzVersionsOfExtensionsAreToldApart(f *testing.F) { // S62
	f.Add("shop-1", "2.0.0", "shop", "1-2.0.0")
	f.Add("a", "1.0.0-2.0.0", "a-1", "0.0-2.0.0")
	f.Add("a", "1.0.0-b-2.0.0", "a-1-0-0-b", "2.0.0")
	f.Fuzz(func(t *testing.T, extension, version, otherExtension, otherVersion string) {
		for _, wrong := range []error{chart.CheckName(extension), chart.CheckName(otherExtension), chart.CheckVersion(version), chart.CheckVersion(otherVersion)} {
			if wrong != nil {
				return
			}
		}
		same := extension == otherExtension && version == otherVersion
		if same != (v1alpha1.ExtensionVersionName(extension, version) == v1alpha1.ExtensionVersionName(otherExtension, otherVersion)) {
			t.Errorf("%q of %q and %q of %q have one name", version, extension, otherVersion, otherExtension)
		}
	})
}
