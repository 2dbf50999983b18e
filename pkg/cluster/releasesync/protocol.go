package releasesync

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
)

// What the hub asks a member over their link, all by POST.
const (
	// PathState takes a State, and answers with a Report.
	PathState = "/fleet/releases/state"
	// PathPackage takes the package of a release. The query has the hub, the name of the release and the SHA-256 of the package.
	PathPackage = "/fleet/releases/package"
	// PathRelease takes a Release, whose package the member has.
	PathRelease = "/fleet/releases/release"
	// PathRemove takes a Removal.
	PathRemove = "/fleet/releases/remove"
)

// Owns reports whether a path is one that Member answers.
func Owns(path string) bool {
	return path == PathState || path == PathPackage || path == PathRelease || path == PathRemove
}

var releasesKind = v2.SchemeGroupVersion.WithResource("applicationreleases")

// State asks a member what it has.
type State struct {
	// Hub is the UID of the hub's kube-system.
	Hub string `json:"hub"`
}

// Report is what a member has of the hub's.
type Report struct {
	Releases map[string]Installed `json:"releases"`
}

// Installed is a release in a member.
type Installed struct {
	// Hash is that of the Release that the hub sent last.
	Hash string `json:"hash"`
	// Leaving says that it is being removed, and Done that what the hub sent has been done, or has failed for good.
	Leaving    bool         `json:"leaving,omitempty"`
	Done       bool         `json:"done,omitempty"`
	State      string       `json:"state,omitempty"`
	Message    string       `json:"message,omitempty"`
	LastUpdate *metav1.Time `json:"lastUpdate,omitempty"`
}

// Release is a release that a member is to have.
type Release struct {
	Hub  string `json:"hub"`
	Name string `json:"name"`
	// Hash identifies what the hub's release asks for.
	Hash string `json:"hash"`
	// Author is the user who asked for it, with whose rights it is installed. It is empty for what the member only has to adopt, which has
	// no package either.
	Author string `json:"author"`
	// Cluster is the name of the member in the fleet. Workspace and Namespace are where the release is in it.
	Cluster   string                    `json:"cluster"`
	Workspace string                    `json:"workspace"`
	Namespace string                    `json:"namespace"`
	Spec      v2.ApplicationReleaseSpec `json:"spec"`
	// Retry is what the hub's release has in the annotation of that name.
	Retry string `json:"retry,omitempty"`
	// Adopt says that an earlier installation has installed it in the member.
	Adopt bool `json:"adopt,omitempty"`
	// Type is that of the version, Digest the SHA-256 of its package, and Parts in how many parts the member keeps that.
	Type   string `json:"type"`
	Digest string `json:"digest"`
	Parts  int    `json:"parts"`
}

// Removal is a release that a member is to remove.
type Removal struct {
	Hub  string `json:"hub"`
	Name string `json:"name"`
}
