package e2e

import "kapis.dev/ks-apiserver/tools/rules"

// proxyRules are of what stands between a client and kube-apiserver.
var proxyRules = []rules.Rule{
	{"S13", "no identity that a client states in a header reaches kube-apiserver: impersonation is not offered, to the administrator either"},
	{"S14", "no header that this server adds is dropped because a client lists it in Connection"},
	{"S15", "after an upgrade that was refused, the connection ends, nothing that was sent after it reaches anybody, and no goroutine stays"},
	{"S16", "an upgrade that is answered with a redirect or a success is a 502 without a Location"},
	{"S19", "headers by which an authenticating proxy names people, of its own names and of the usual ones, come from nobody else and are never " +
		"passed on"},
	{"S22", "headers that carried identities and queries between clusters are nothing here, and a dry run is one however it is said; there are no " +
		"member clusters yet"},
	{"S24", "a request to upgrade has no body, length or expectation; and two lengths make no second request"},
}

// webRules are of browsers, and of those who want the server to fall.
var webRules = []rules.Rule{
	{"S52", "a cookie opens a WebSocket for pages of this server only"},
	{"S59", "nothing that a client sends is answered as markup: errors are JSON, and browsers are told not to guess types"},
}
