// Package product logs users in with Chromium at the real product: those of a real slapd and of an OpenID provider that others wrote,
// for a client that others wrote. It needs bin/dev (tools/dev/build.sh).
package product
