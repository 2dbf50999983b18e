// Package fleetsync keeps in member clusters what users of the fleet are there: global roles and workspaces, the roles and bindings of
// both, and of users what names them, without what they log in with. Nothing on the hub waits for a member; what it still has to be told is
// known, and what was taken away is told first.
package fleetsync
