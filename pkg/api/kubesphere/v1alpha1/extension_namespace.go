package v1alpha1

// InstallerGroupPrefix begins the group, kapis:extension:<name>, that the releases of an extension are applied in. Only
// ks-controller-manager asserts it; the groups that ks-apiserver asserts have the scope of a role in the place of "extension".
const InstallerGroupPrefix = "kapis:extension:"

// ExtensionNamespace returns the namespace that an extension has for itself, where its chart names no other one.
func ExtensionNamespace(extension string) string { return "extension-" + extension }
