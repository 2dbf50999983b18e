// Package revalidate lets a hub know at little cost that answers of a member, which it has kept for the caller who got them, are still what
// the member would answer to that caller.
//
// The hub has one stream to each member that it asks often: a request whose body and answer are lines of JSON, open as long as it is used.
// In it the hub sends the questions whose answers it has, with who asks them and the answers' entity tags; the member asks itself each
// question, through the same handler as a request of the hub's, and says in a line whether all of them would be answered as before (304, or
// the same refusal). So the member decides by the rights that the caller has there and then, and nothing has to be known of what an answer
// depends on.
//
// A Confirmation counts for a tenth of a second from when the hub asked, and no longer than until the member says that something in its
// caches has changed, which it does once, whatever it is, and which ends all confirmations. So a change, of objects or of rights, counts
// when that line arrives, and where it is lost, or nothing arrives at all, when the tenth of a second is over. A member that says nothing
// is asked as if there was no stream.
//
//	a stream         1 of a member and replica; it ends after a minute without use, and with its link
//	a line           64 KiB to the member, 256 bytes to the hub
//	a question       16 at once in a member
//	lines that wait  64; beyond these the hub asks without the stream
package revalidate
