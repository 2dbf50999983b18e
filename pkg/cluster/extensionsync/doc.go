// Package extensionsync brings the agents of extensions to the members of a fleet, and what became of them back to the hub.
//
// A plan on the hub says which members get the part of an extension that is for them. The hub sends each of them the chart, the version and
// an InstallPlan with the values of that member, and reads the states there. Installing is the member's own work: its own
// ks-controller-manager does it, as it does on the hub (package controller/installplan). So the hub holds nothing in a member by which it
// could install anything, and nothing of a member's cluster passes the link.
//
// Each side decides. The hub sends what was approved there, and says by whom; the member's webhook asks its own roles whether that
// person may approve it in this cluster, and lets it wait for somebody who may where they may not. Objects that come from the hub have
// its label, and a policy keeps everybody else from changing them.
//
// Members are asked one by one, each in its own goroutine and by its own link: none waits for another one. What is to be removed is named
// by the hub, and never found by what it does not name: a hub that lost its data removes nothing. A replica of the hub whose caches are
// behind tells members nothing, since it would undo what another replica did; what it sent while a plan ended is removed when it sees that.
package extensionsync
