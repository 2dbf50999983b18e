// Package lockout refuses attempts to log in after too many failures.
//
// # How it counts
//
// Failures are counted for each user and network. From a network that is not known for the user, an attempt is counted before the
// password is compared, by an update with optimistic concurrency, and taken off again if it was right: so of any number of parallel
// attempts at any number of replicas, no more than the limit reach the comparison. All unknown networks together have a budget,
// which bounds what many machines can guess and what they can have written. A network from which the user logged in has a count of
// its own, so that nobody can lock a user out for good. A shared address, such as a console's, delays attempts instead of refusing
// them (shared_address.go). Names without a user look the same from outside, are counted in memory, and write nothing. While
// kube-apiserver takes no writes, each replica counts in memory, and no login fails because of it.
//
// # Why it is not shorter
//
// A counter for each name and source with a time to live, in one object of each user, would take a few hundred lines less. Each
// part that it would leave out holds a rule that users and tests rely on:
//
//   - counting before the comparison, and one attempt at a time for each name and network: without it, parallel guesses at several
//     replicas all see a count of zero (TestNoMoreThanTheLimitReachTheComparison);
//   - known networks, and a budget for all others: without them, anyone can lock anyone out, or guess from many addresses
//     (TestManyPlacesHaveOneBudgetAndTheOwnerGetsIn, TestAPlaceWithASessionIsKnown);
//   - shared addresses: without them, a console locks out everybody behind it (TestNobodyIsLockedOutBehindASharedAddress);
//   - memory for names without a user, apart from that for users: without it, answers or writes tell which names exist, or made-up
//     names evict the counts of users (TestMadeUpNamesResetNothingAndWriteNothing);
//   - writes behind successful logins from known networks, once a week for each: without them, every login writes
//     (TestALoginFromAKnownPlaceWritesNothing).
//
// What was plain to share is shared: counts in memory are those of package recent, which login records use too.
package lockout
