// Package httpcache writes answers that clients and this server may keep: entity tags and 304 (RFC 9110), gzip whose body is
// compressed once and sent with a new head, a bound on the bytes of all answers that are being written, and deadlines for
// clients that stop reading.
package httpcache
