// Package peer joins the replicas of a hub: each reaches the members that are linked to another one, over one connection to it.
//
// Replicas know each other by a Lease, in which each keeps its address. Who answers there proves to be a replica of this hub, and is proved
// to, by the certificate of the fleet, as on links to members; what is in the Lease is trusted for nothing. A connection carries requests
// one way, so that two replicas have two. A request takes one hop at most: it is passed on over a link of the replica that gets it, or
// refused.
package peer
