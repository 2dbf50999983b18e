package e2e

import "kapis.dev/ks-apiserver/tools/rules"

// proxyRules are of what stands between a client and kube-apiserver.
var proxyRules = []rules.Rule{
	{"S13", "no identity that a client states in a header reaches kube-apiserver; impersonation is not offered: a request with an `Impersonate-` header is 403, the administrator's too"},
	{"S14", "no header that this server adds is dropped because a client lists it in Connection"},
	{"S15", "after an upgrade that was refused, the connection ends, nothing that was sent after it reaches anybody, and no goroutine stays"},
	{"S16", "an upgrade that is answered with a redirect or a success is a 502 without a Location"},
	{"S17", "no redirect of a server after this one, kube-apiserver, an aggregated API server or the backend of an extension, reaches a client, but " +
		"kube-apiserver's to the same path with a slash, and those of a ReverseProxy within its own paths (X7)"},
	{"S18", "an aggregated API server, and the backend of an extension, sees the caller and nobody else, on upgraded connections too"},
	{"S19", "headers by which an authenticating proxy names people, of its own names and of the usual ones, come from nobody else and are never " +
		"passed on"},
	{"S20", "addresses that a tenant chooses, of container registries, Git servers and repositories of charts, reach neither this machine nor a metadata " +
		"service, whatever a name resolves to: they are refused when they are dialled"},
	{"S21", "kube-apiserver, registries, Git servers, repositories of charts and identity providers are sent nothing before their certificates were verified; members of a fleet: rules-fleet.md"},
	{"S22", "headers that carried identities and queries between clusters are nothing here, and a dry run is one however it is said; members of a fleet: rules-fleet.md"},
	{"S23", "however a path is written it is authorized and sent on as one and the same, or refused"},
	{"S24", "a request to upgrade has no body, length or expectation; and two lengths make no second request"},
	{"S25", "a stored credential is used for those alone who may read it: others are refused before anything is dialled"},
}

// webRules are of browsers, and of those who want the server to fall.
var webRules = []rules.Rule{
	{"S51", "a page of another origin reads nothing, unless it is the registered one of a client without a secret and asks for tokens, without " +
		"cookies; the authorization endpoint is for no page"},
	{"S52", "a cookie opens a WebSocket for pages of this server only"},
	{"S53", "terminals, followed logs, forwarded ports, watches and live pages end with the token, the session, the user and the right, and nothing " +
		"that is typed from then on is executed: within seconds of a revocation, and within the leeway of 30 s for clocks after a token's own end"},
	{"S54", "without a login there are health, version, the login and what its page is configured with; no request is ever made as this server " +
		"because it named nobody"},
	{"S55", "floods of HTTP/2 streams, resets and frames cost bounded goroutines and memory and keep nobody else from being served; a " +
		"connection ends after 100 answers to somebody unknown"},
	{"S56", "bodies and answers that are large, deep, packed or full of references are refused, and make no server large"},
	{"S58", "nothing is stored for anybody who has not logged in, but the bounded count of guesses at users who exist"},
	{"S59", "nothing that a client sends is answered as markup: errors are JSON, and browsers are told not to guess types"},
	{"S61", "sessions, limits, clients and identity providers are used and reloaded at once without a data race"},
}
