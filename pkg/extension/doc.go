// Package extension knows what extensions add to this server: APIServices, ReverseProxies and JSBundles. Index finds which of them a
// request is for, by one look-up, and what has to be checked when one is written is checked here, too.
package extension
