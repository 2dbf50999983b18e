// Package lite links members in which no program of ours runs. This server has the member's end of the link itself, and serves it by the
// member's kube-apiserver, as an account that the member's administrator has made for that: users are impersonated there, within the rights
// of the account, and only while the administrator's yes is there. So a lite member has the same conditions, bounds, metrics and answers as
// any other.
package lite
