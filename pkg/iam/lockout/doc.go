// Package lockout refuses attempts to log in after too many failures.
//
// # How it counts
//
// Failures are counted for each user and network. From a network that is not known for the user, an attempt is counted before the
// password is compared, by an update with optimistic concurrency, and subtracted again if it was right: so of any number of parallel
// attempts at any number of replicas, no more than the limit reach the comparison. All unknown networks together have a budget, which
// bounds the guesses of many machines, and the writes that they cause. A network from which the user logged in has a count of its own,
// so that an attacker can't lock a user out permanently. A shared address, such as a console's, delays attempts instead of refusing
// them; while no attempt on a name has failed there, two at a time are counted only if they fail, so that a right
// password costs no write. Names without a user look the same from outside, are counted in memory, and write nothing. While kube-apiserver
// takes no writes, each replica counts in memory, and no login fails because of it.
//
// # Why a counter is not enough
//
// A counter for each name and source with a time to live, in one object of each user, would take a few hundred lines less. It would
// lack features that users and tests rely on:
//
//   - counting before the comparison, and one attempt at a time for each name and network: without it, parallel guesses at several
//     replicas all see a count of zero (TestNoMoreThanTheLimitReachTheComparison);
//   - known networks, and a budget for all others: without them, anyone can lock anyone out, or guess from many addresses
//     (TestManyPlacesHaveOneBudgetAndTheOwnerGetsIn, TestAPlaceWithASessionIsKnown);
//   - shared addresses: without them, a console's address locks out all its users (TestNobodyIsLockedOutBehindASharedAddress);
//   - memory for names without a user, separate from that for users: without it, answers or writes reveal which names exist, or made-up
//     names evict the counts of users (TestMadeUpNamesResetNothingAndWriteNothing);
//   - only one write a week for successful logins from a known network, in the background: otherwise every login writes
//     (TestALoginFromAKnownPlaceWritesNothing).
//
// Counts in memory are those of package recent, which login records use too.
package lockout
