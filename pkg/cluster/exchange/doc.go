// Package exchange is what a hub and its members have in common where the hub asks for itself, and not for a user: how the hub asks over
// a link, and how often (Rounds, Refusals), and how a member answers (Answers) and keeps what it is brought (Write, Files). Objects of a
// hub have its label in a member; those that a member has of its own are never taken.
package exchange
