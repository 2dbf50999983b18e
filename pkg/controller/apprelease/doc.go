// Package apprelease installs, upgrades and removes applications of the store as their ApplicationReleases say.
//
// A release is done as its author: the user who changed it last, whom nobody may choose (policy authors.releases.appstore.kapis.dev). So
// kube-apiserver decides what a release may do, by the rights that the author has at that moment. What was asked for is noted in the status
// once the operation has ended, whether it succeeded or not: as long as a release asks for the same, nothing is done, and nothing written
// but whether its objects are ready. An operation that was interrupted has not been noted and is done again, which Helm's records make safe
// (package helm).
//
// What a release has installed is in its inventory, a ConfigMap that only the platform can write: members of a namespace may write Helm's
// records there, and what they write must not become what another one's rights are used for. A removal needs neither the chart nor the
// version, nor the rights that the author had: objects in the release's own namespace that the inventory vouches for are removed by
// rights that exist for the operation, and what else can't be removed is named and left.
//
// What an earlier installation has installed has no inventory. It gets one before anything else is done with its release, of Helm's record
// or of the YAML documents in its values: the status says that there was one, which no user writes, or in a member, the hub.
package apprelease
