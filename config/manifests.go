// Package manifests has the objects of an installation, as they are applied to a cluster that joins a fleet.
package manifests

import "embed"

// Files are the manifests, by their paths in this folder.
//
//go:embed apiserver crd/bases default/priorityclass.yaml fleet/lite fleet/member manager rbac roles
//go:embed install/admission.yaml install/creator.yaml install/namespace.yaml install/workspace.yaml
var Files embed.FS
