package config

import (
	"errors"
	"fmt"
	"strings"
)

// modernize moves the keys of v3.4 to where v4 has them:
//
//	authentication.oauthOptions.{issuer,accessTokenMaxAge,...}  authentication.issuer.{url,...}
//	authentication.oauthOptions.clients, identityProviders      authentication.clients, ...
//	authentication.{jwtSecret,maximumClockSkew}                 authentication.issuer....
//
// A value written under both names is an error, since one of them would silently win.
func modernize(doc map[string]any) error {
	auth, ok := section(doc, "authentication")
	if !ok {
		return nil
	}
	old, isMap := section(auth, "oauthOptions")
	if !isMap && existing(auth, "oauthOptions") != nil {
		return errors.New("authentication.oauthOptions is a section: expected keys below it")
	}
	drop(auth, "oauthOptions")

	// In v3.4 issuer was a string and stood in oauthOptions; in v4 it is a section.
	issuer, ok := section(auth, "issuer")
	if !ok {
		if existing(auth, "issuer") != nil {
			return errors.New("authentication.issuer is a section: expected keys below it")
		}
		issuer = map[string]any{}
	}
	for _, m := range []struct {
		from    map[string]any
		prefix  string
		key     string
		to      map[string]any
		newName string
	}{
		{old, "oauthOptions.", "issuer", issuer, "url"},
		{old, "oauthOptions.", "accessTokenMaxAge", issuer, "accessTokenMaxAge"},
		{old, "oauthOptions.", "accessTokenInactivityTimeout", issuer, "accessTokenInactivityTimeout"},
		{old, "oauthOptions.", "signKey", issuer, "signKey"},
		{old, "oauthOptions.", "signKeyData", issuer, "signKeyData"},
		{old, "oauthOptions.", "clients", auth, "clients"},
		{old, "oauthOptions.", "identityProviders", auth, "identityProviders"},
		{auth, "", "jwtSecret", issuer, "jwtSecret"},
		{auth, "", "maximumClockSkew", issuer, "maximumClockSkew"},
	} {
		v := existing(m.from, m.key)
		drop(m.from, m.key)
		if v == nil {
			continue
		}
		if existing(m.to, m.newName) != nil {
			return fmt.Errorf("authentication.%s%s is set under its new name as well; keep one of them", m.prefix, m.key)
		}
		m.to[m.newName] = v
	}
	for k := range old {
		return fmt.Errorf("unknown key %q", "authentication.oauthOptions."+k)
	}
	if len(issuer) > 0 {
		put(auth, "issuer", issuer)
	}
	return oldClients(existing(auth, "clients"))
}

// oldClients renames the clients' ages to the names with a unit.
func oldClients(clients any) error {
	list, _ := clients.([]any)
	for i, c := range list {
		m, ok := c.(map[string]any)
		if !ok {
			continue
		}
		for _, k := range []string{"accessTokenMaxAge", "accessTokenInactivityTimeout"} {
			v := existing(m, k)
			if v == nil {
				continue
			}
			if _, ok := v.(float64); !ok {
				return fmt.Errorf("authentication.clients[%d].%s: %v is not a number of seconds", i, k, v)
			}
			drop(m, k)
			m[k+"Seconds"] = v
		}
	}
	return nil
}

func section(doc map[string]any, name string) (map[string]any, bool) {
	m, ok := existing(doc, name).(map[string]any)
	return m, ok
}

func drop(doc map[string]any, name string) {
	for k := range doc {
		if strings.EqualFold(k, name) {
			delete(doc, k)
		}
	}
}
