// Package builtin lists the types of identity providers that are compiled in.
package builtin

import (
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/aliyun"
	"kapis.dev/ks-apiserver/pkg/idp/cas"
	"kapis.dev/ks-apiserver/pkg/idp/certificate"
	"kapis.dev/ks-apiserver/pkg/idp/github"
	"kapis.dev/ks-apiserver/pkg/idp/gitlab"
	"kapis.dev/ks-apiserver/pkg/idp/google"
	"kapis.dev/ks-apiserver/pkg/idp/header"
	"kapis.dev/ks-apiserver/pkg/idp/ldap"
	"kapis.dev/ks-apiserver/pkg/idp/oauth2"
	"kapis.dev/ks-apiserver/pkg/idp/oidc"
	"kapis.dev/ks-apiserver/pkg/idp/tokenreview"
)

// Types returns the types.
func Types() []idp.Type {
	return []idp.Type{
		aliyun.Type(),
		cas.Type(),
		certificate.Type(),
		github.Type(),
		gitlab.Type(),
		google.Type(),
		header.Type(),
		ldap.Type(),
		oauth2.Type(),
		oidc.Type(),
		tokenreview.Type(),
	}
}
