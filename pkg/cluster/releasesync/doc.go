// Package releasesync brings releases of the application store to the members of a fleet that they name, and their states back to the hub.
//
// A release is an object of the hub, whose label says in which cluster it is. The hub sends a member what the release says, who asked for
// it, and the package; the member's own ks-controller-manager installs it as that user (package controller/apprelease), so that the
// member's kube-apiserver decides, by the rights that they have there. The user has to be one of the fleet: a member takes no name of its
// own users, of the system or of its programs from the hub. So the hub can do by a release what it can do by any request that it sends in
// a user's name, and no more.
//
// An earlier installation kept releases on the hub alone. The hub tells a member of what it has installed there, and the member notes what
// it finds, in namespaces of the release's workspace alone (adoption.go). That takes no author, since nothing is done.
//
// Objects that come from the hub have its label, and a policy in the member lets nobody else write them (config/fleet/member). Each member
// is asked in its own goroutine and by its own link: none waits for another one. A release that is deleted on the hub stays there until
// its member has removed it, so that a member which was away is told later; nothing is removed because a hub does not name it. A replica of
// the hub whose caches are behind tells members nothing: it would undo what another replica did.
package releasesync
