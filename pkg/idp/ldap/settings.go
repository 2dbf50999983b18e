package ldap

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// settings are the keys of the configuration. The comments state the defaults.
type settings struct {
	// Host is host[:port], ldap://host[:port] or ldaps://host[:port]; ports 389 and 636.
	Host string `json:"host"`
	// ReadTimeout is how long the server may take for all requests of one login, in milliseconds; 15000.
	ReadTimeout int `json:"readTimeout"`
	// StartTLS starts TLS on a connection of ldap://, before anything else is sent (RFC 4511, 4.14).
	StartTLS bool `json:"startTLS"`
	// InsecureSkipVerify accepts any certificate of the server; false. For tests.
	InsecureSkipVerify bool `json:"insecureSkipVerify"`
	// RootCA is a file with the certificates of the authorities that issue the server's certificate, and RootCAData the
	// certificates themselves, as PEM or its base64; those of the system.
	RootCA     string `json:"rootCA"`
	RootCAData string `json:"rootCAData"`
	// ManagerDN and ManagerPassword are the credentials for searches; none (an anonymous search).
	ManagerDN       string     `json:"managerDN"`
	ManagerPassword idp.Secret `json:"managerPassword"`
	// UserSearchBase is the base below which users are searched, and UserSearchFilter a further condition besides LoginAttribute (any).
	UserSearchBase   string `json:"userSearchBase"`
	UserSearchFilter string `json:"userSearchFilter"`
	// LoginAttribute is the attribute with the user name; uid. Its value also identifies the user to this server, unless
	// UIDAttribute names another attribute whose values are never reused: entryUUID (RFC 4530), objectGUID.
	LoginAttribute string `json:"loginAttribute"`
	UIDAttribute   string `json:"uidAttribute"`
	// MailAttribute and DisplayNameAttribute are for the User that is created; mail, and displayName or else cn.
	MailAttribute        string `json:"mailAttribute"`
	DisplayNameAttribute string `json:"displayNameAttribute"`
	// UserMemberAttribute is an attribute of users that names their groups, such as memberOf; none.
	UserMemberAttribute string `json:"userMemberAttribute"`
	// GroupSearchBase is the base below which groups are searched; none. With it, a user's groups are those whose GroupMemberAttribute
	// (member) has the user's DN, or for memberUid the user's LoginAttribute, and those of UserMemberAttribute below the base. All of
	// them have to match GroupSearchFilter (any). Their names are the values of GroupNameAttribute (cn).
	GroupSearchBase      string `json:"groupSearchBase"`
	GroupSearchFilter    string `json:"groupSearchFilter"`
	GroupMemberAttribute string `json:"groupMemberAttribute"`
	GroupNameAttribute   string `json:"groupNameAttribute"`
	// NestedGroups also counts the groups that a user's groups are in; false.
	NestedGroups bool `json:"nestedGroups"`
}

// Attributes that need special treatment.
const (
	objectGUID = "objectGUID" // 16 bytes (Active Directory)
	memberUID  = "memberUid"  // a name in place of a DN (RFC 2307)
)

const (
	defaultTimeout = 15 * time.Second
	maxTimeout     = 60 * time.Second
)

// attributeForm matches names of attributes (RFC 4512, 2.5, without options).
var attributeForm = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9-]{0,126}|[0-9]+(?:\.[0-9]+)+)$`)

// complete sets the defaults, and refuses settings that are missing, invalid, or without effect.
func (s *settings) complete() error {
	for _, f := range []func() error{s.checkManager, s.checkSearches, s.checkGroups} {
		if err := f(); err != nil {
			return err
		}
	}
	if s.ReadTimeout < 0 || s.timeout() > maxTimeout {
		return fmt.Errorf("readTimeout: it is in milliseconds, from 1 to %d", maxTimeout.Milliseconds())
	}
	s.defaults()
	for key, v := range map[string]string{
		"loginAttribute": s.LoginAttribute, "uidAttribute": s.UIDAttribute, "mailAttribute": s.MailAttribute,
		"displayNameAttribute": s.DisplayNameAttribute,
		"userMemberAttribute":  s.UserMemberAttribute, "groupMemberAttribute": s.GroupMemberAttribute, "groupNameAttribute": s.GroupNameAttribute,
	} {
		if v != "" && !attributeForm.MatchString(v) {
			return fmt.Errorf("%s: it is no name of an attribute", key)
		}
	}
	return nil
}

func (s *settings) defaults() {
	for _, d := range []struct {
		to    *string
		value string
	}{{&s.LoginAttribute, "uid"}, {&s.MailAttribute, "mail"}} {
		if *d.to == "" {
			*d.to = d.value
		}
	}
	if s.GroupSearchBase == "" {
		return
	}
	if s.GroupMemberAttribute == "" {
		s.GroupMemberAttribute = "member"
	}
	if s.GroupNameAttribute == "" {
		s.GroupNameAttribute = "cn"
	}
}

func (s *settings) timeout() time.Duration {
	if s.ReadTimeout == 0 {
		return defaultTimeout
	}
	return time.Duration(s.ReadTimeout) * time.Millisecond
}

func (s *settings) checkManager() error {
	if (s.ManagerDN == "") != s.ManagerPassword.IsZero() {
		// A bind with a name and no password succeeds on most servers, and proves nothing (RFC 4513, 5.1.2).
		return errors.New("managerDN, managerPassword: set both, or none to search anonymously")
	}
	if s.ManagerDN == "" {
		return nil
	}
	// Active Directory also accepts names such as user@domain: only a value that looks like a DN has to be one.
	if _, err := ldap.ParseDN(s.ManagerDN); err != nil && strings.Contains(s.ManagerDN, "=") {
		return errors.New("managerDN: it is no DN")
	}
	return nil
}

func (s *settings) checkSearches() error {
	if s.UserSearchBase == "" {
		return errors.New("userSearchBase: it is missing")
	}
	for key, v := range map[string]string{"userSearchBase": s.UserSearchBase, "groupSearchBase": s.GroupSearchBase} {
		if _, err := ldap.ParseDN(v); err != nil {
			return fmt.Errorf("%s: it is no DN", key)
		}
	}
	for key, v := range map[string]*string{"userSearchFilter": &s.UserSearchFilter, "groupSearchFilter": &s.GroupSearchFilter} {
		if *v == "" {
			continue
		}
		if !strings.HasPrefix(*v, "(") {
			*v = "(" + *v + ")"
		}
		if _, err := ldap.CompileFilter(*v); err != nil {
			return fmt.Errorf("%s: it is no filter (RFC 4515)", key)
		}
	}
	return nil
}

func (s *settings) checkGroups() error {
	if s.GroupSearchBase == "" {
		for key, set := range map[string]bool{
			"groupSearchFilter": s.GroupSearchFilter != "", "groupMemberAttribute": s.GroupMemberAttribute != "",
			"groupNameAttribute": s.GroupNameAttribute != "", "nestedGroups": s.NestedGroups,
		} {
			if set {
				return fmt.Errorf("%s: it has no effect without groupSearchBase", key)
			}
		}
	}
	if s.NestedGroups && strings.EqualFold(s.GroupMemberAttribute, memberUID) {
		return errors.New("nestedGroups: it has no effect where groupMemberAttribute is memberUid, which never names a group")
	}
	return nil
}

// address is the address of the server, and how to connect to it.
type address struct {
	hostPort string
	tls      bool        // from the first byte
	config   *tls.Config // nil for none
	startTLS bool
}

func (s *settings) address() (*address, error) {
	scheme, hostPort := "ldap", s.Host
	if strings.Contains(s.Host, "://") {
		u, err := url.Parse(s.Host)
		if err != nil || u.Scheme != "ldap" && u.Scheme != "ldaps" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" ||
			u.Fragment != "" {
			return nil, errors.New("host: it is none of host:port, ldap://host:port and ldaps://host:port")
		}
		scheme, hostPort = u.Scheme, u.Host
	}
	a := &address{tls: scheme == "ldaps", startTLS: s.StartTLS}
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		if host, port = strings.Trim(hostPort, "[]"), "389"; a.tls {
			port = "636"
		}
	}
	if host == "" || port == "" || strings.ContainsAny(host, "/ ") {
		return nil, errors.New("host: it is missing, or none of host:port, ldap://host:port and ldaps://host:port")
	}
	a.hostPort = net.JoinHostPort(host, port)
	if a.tls && s.StartTLS {
		return nil, errors.New("startTLS: it has no effect with ldaps://, which is TLS from the beginning")
	}
	a.config, err = s.tlsConfig(host, a.tls || s.StartTLS)
	return a, err
}

func (s *settings) tlsConfig(host string, used bool) (*tls.Config, error) {
	given := s.RootCA != "" || s.RootCAData != ""
	switch {
	case !used && (s.InsecureSkipVerify || given):
		return nil, errors.New("insecureSkipVerify, rootCA, rootCAData: they have no effect without startTLS or ldaps://")
	case !used:
		return nil, nil
	case s.InsecureSkipVerify && given:
		return nil, errors.New("rootCA, rootCAData: they have no effect with insecureSkipVerify")
	case s.RootCA != "" && s.RootCAData != "":
		return nil, errors.New("rootCA, rootCAData: set one of them")
	}
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, InsecureSkipVerify: s.InsecureSkipVerify} // as configured
	if !given {
		return c, nil // the system's authorities
	}
	data := []byte(s.RootCAData)
	switch {
	case s.RootCA != "":
		var err error
		if data, err = os.ReadFile(s.RootCA); err != nil {
			return nil, fmt.Errorf("rootCA: %w", err)
		}
	case !strings.Contains(s.RootCAData, "-----BEGIN"):
		var err error
		if data, err = base64.StdEncoding.DecodeString(strings.TrimSpace(s.RootCAData)); err != nil {
			return nil, errors.New("rootCAData: it is neither PEM nor the base64 of PEM")
		}
	}
	roots, err := idp.Certificates(data)
	if err != nil {
		return nil, fmt.Errorf("rootCA, rootCAData: %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	for _, root := range roots {
		c.RootCAs.AddCert(root)
	}
	return c, nil
}
