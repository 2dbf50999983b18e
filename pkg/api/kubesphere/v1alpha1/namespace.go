package v1alpha1

// ExtensionNamespace returns the namespace that an extension has for itself, where its chart names no other one.
func ExtensionNamespace(extension string) string { return "extension-" + extension }
